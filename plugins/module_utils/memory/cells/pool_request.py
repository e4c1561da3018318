# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What was asked of the pools, out of the flags that a server is given beside the plan's own options.

Flags whose effect on the pools is counted are read here; those with an effect that is not are refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.state_pools import StateRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import (
    FAMILY_DSA,
    Attention,
    family_of_heads,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.state_config import STATE_DTYPES
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.extra_arguments import flag_name
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.compressed_versions import (
    COMPRESSED_PAGE_SIZE,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pool_versions import (
    DEFAULT_STATE_RATIO,
    DEFAULT_WINDOW_RATIO,
    HICACHE,
    window_off,
)

_WHOLE = re.compile(r"[0-9]{1,12}\Z")
_INDEX_BACKEND_FLAGS = ("dsa-prefill-backend", "dsa-decode-backend", "nsa-prefill-backend", "nsa-decode-backend")
# Their pools are of other shapes: why, and the values that change nothing.
_UNCOUNTED: dict[str, tuple[str, tuple[str, ...]]] = {
    "enable-hisparse": ("the index pools span the host's tokens", ()),
    "enable-linear-replayssm-spec": ("replayed states take a ring of their own", ()),
    "enable-gdn-replayssm-spec": ("replayed states take a ring of their own", ()),
    "enable-linear-replayssm": ("replayed states take a ring of their own", ()),
    "enable-kv-cache-sharding": ("pages are divided over the ranks", ()),
    "enable-multi-layer-eagle": ("each step of the draft has a cache of its own", ()),
    "speculative-draft-kv-cache-dtype": ("the draft's cache has a type of its own", ()),
    "speculative-adaptive": ("the number of draft tokens follows the load", ()),
}
# Those of compressed attention.
_UNCOUNTED_COMPRESSED: dict[str, tuple[str, tuple[str, ...]]] = {
    "enable-deepseek-v4-fp4-indexer": ("index keys take four bits", ()),
    "dsv4-attn-backend": ("rows are of another form", ("auto", "flashmla")),
    "disable-hybrid-swa-memory": ("the pools are those of another family", ()),
}


@dataclass(frozen=True)
class PoolRequest:
    """Settings of the pools beside tokens and pages."""

    window_ratio: float = DEFAULT_WINDOW_RATIO
    states: StateRequest = StateRequest()
    index_backends: frozenset[str] = frozenset()
    keeps_whole_windows: bool = False  # --disable-hybrid-swa-memory
    state_strategy: str | None = None  # --mamba-radix-cache-strategy
    asked_window_ratio: float | None = None  # --swa-full-tokens-ratio, where it is given


def _number(flags: Mapping[str, Any], flag: str, least: float, most: float) -> float | None:
    value = flags.get(flag)
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if isinstance(value, bool) or not least < number <= most:
        raise Refusal(
            "value_malformed",
            f"extra_arguments.{flag} is {value!r}.",
            f"Expected a number above {least:g}" + (f" and not above {most:g}." if most < 1e6 else "."),
            {"flag": flag, "value": str(value)},
        )
    return number


def _whole_number(flags: Mapping[str, Any], flag: str) -> int | None:
    value = flags.get(flag)
    if value is None:
        return None
    if isinstance(value, bool) or not _WHOLE.match(str(value)) or int(str(value)) < 1:
        raise Refusal(
            "value_malformed",
            f"extra_arguments.{flag} is {value!r}.",
            "Expected a whole number above 0.",
            {"flag": flag, "value": str(value)},
        )
    return int(str(value))


def _strategy(flags: Mapping[str, Any]) -> str | None:
    """Its flag has had two names."""
    named = flags.get("mamba-radix-cache-strategy") or flags.get("mamba-scheduler-strategy")
    return None if named is None else str(named)


def pool_request(extra_arguments: Mapping[str, Any]) -> PoolRequest:
    """The settings that the extra arguments ask for."""
    flags = _by_flag(extra_arguments)
    _refuse_uncounted(flags, _UNCOUNTED)
    dtype = flags.get("mamba-ssm-dtype")
    if dtype is not None and dtype not in STATE_DTYPES:
        raise Refusal(
            "value_malformed",
            f"extra_arguments.mamba-ssm-dtype is {dtype!r}.",
            f"Expected one of {', '.join(STATE_DTYPES)}.",
            {"flag": "mamba-ssm-dtype"},
        )
    window_ratio = _number(flags, "swa-full-tokens-ratio", 0, 1)
    state_ratio = _number(flags, "mamba-full-memory-ratio", 0, 1e9)
    return PoolRequest(
        window_ratio=DEFAULT_WINDOW_RATIO if window_ratio is None else window_ratio,
        states=StateRequest(
            slots=_whole_number(flags, "max-mamba-cache-size"),
            ratio=DEFAULT_STATE_RATIO if state_ratio is None else state_ratio,
            dtype=dtype,
            radix_cache=flags.get("disable-radix-cache") in (None, False),
        ),
        index_backends=frozenset(str(flags[flag]) for flag in _INDEX_BACKEND_FLAGS if flags.get(flag) is not None),
        keeps_whole_windows=flags.get("disable-hybrid-swa-memory") not in (None, False),
        state_strategy=_strategy(flags),
        asked_window_ratio=window_ratio,
    )


def attention_in_force(
    architecture: str,
    attention: Attention,
    version: str,
    asked: PoolRequest,
    attention_backend: str | None,
    hicache: bool,
    blackwell: bool,
) -> tuple[Attention, str | None]:
    """The attention whose pools a server builds, and why its windows have no pool where that is so."""
    if attention.window is None:
        return attention, None
    backend = attention_backend or ("trtllm_mha" if blackwell else "")
    causes = frozenset({backend, *([HICACHE] if hicache else [])}) - {""}
    cause = "disable-hybrid-swa-memory" if asked.keeps_whole_windows else window_off(architecture, version, causes)
    if cause is None:
        return attention, None
    window = attention.window
    if (window.num_kv_heads, window.head_dim, window.v_head_dim) != (
        attention.num_kv_heads,
        attention.head_dim,
        attention.v_head_dim,
    ):
        raise Refusal(
            "architecture_unplanned",
            f"SGLang {version} gives {architecture} no window pool under {cause}, and counts its window layers like "
            "the full ones, whose heads differ.",
            f"Do without {cause}, or take another release.",
            {"architecture": architecture, "cause": cause},
        )
    whole = replace(
        attention,
        family=family_of_heads(attention.num_attention_heads, attention.num_kv_heads),
        full_layers=None,
        window=None,
    )
    return whole, cause


def check_compressed_flags(extra_arguments: Mapping[str, Any]) -> None:
    """Refuse flags that give the pools of compressed attention another shape."""
    _refuse_uncounted(_by_flag(extra_arguments), _UNCOUNTED_COMPRESSED)


def _by_flag(extra_arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {flag_name(key): value for key, value in extra_arguments.items()}


def _refuse_uncounted(flags: Mapping[str, Any], uncounted: Mapping[str, tuple[str, tuple[str, ...]]]) -> None:
    for flag, (why, harmless) in uncounted.items():
        if flags.get(flag) not in (None, False, *harmless):
            raise Refusal(
                "extra_argument_unplanned",
                f"extra_arguments holds {flag}: {why}, which the plan of this release does not count.",
                "Leave it out.",
                {"flag": flag},
            )


def forced_page_size(attention: Attention) -> int | None:
    """Sparse latent attention and compressed attention are served in pages of their own on NVIDIA cards, whatever was
    asked for."""
    if attention.compressed is not None:
        return COMPRESSED_PAGE_SIZE
    return 64 if attention.family == FAMILY_DSA else None
