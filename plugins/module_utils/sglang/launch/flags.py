# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Flags of a release: whether it has one, what took its place, which values it takes and how a file gives them.

The tables in flag_lifetimes.py and flag_choices.py are what the parsers of the wheels say. Here is what they do not
say: which flag means the same as one that is gone.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.flag_choices import CHOICES
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.flag_lifetimes import (
    LIFETIMES,
    NOT_IN_FILE,
    SAME_FIELD,
    TAKES_LIST,
    TAKES_NOTHING,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import (
    NEWEST,
    OLDEST,
    Version,
    parse_version,
)

NOTHING, VALUE, LIST = "nothing", "value", "list"
# Renamed from one release to the next, so that no release's parser names both; the value and its meaning stayed.
_RENAMED = (
    ("max-micro-batch-size", "pp-max-micro-batch-size"),
    ("oltp-traces-endpoint", "otlp-traces-endpoint"),
    ("nsa-prefill", "nsa-prefill-backend"),
    ("nsa-decode", "nsa-decode-backend"),
    ("kt-amx-weight-path", "kt-weight-path"),
    ("kt-amx-method", "kt-method"),
)
# Switches that became values of other flags (server_args.py of 0.5.14 to 0.5.19 and arg_groups/cuda_graph_hook.py
# store just these).
_BECAME_VALUES: dict[str, tuple[tuple[str, str], ...]] = {
    "disable-cuda-graph": (("cuda-graph-backend-decode", "disabled"), ("cuda-graph-backend-prefill", "disabled")),
    "disable-piecewise-cuda-graph": (("cuda-graph-backend-prefill", "disabled"),),
    "enforce-piecewise-cuda-graph": (("cuda-graph-backend-prefill", "tc_piecewise"),),
    "enable-breakable-cuda-graph": (("cuda-graph-backend-prefill", "breakable"),),
}
# What does the work of a flag that is gone, where it is not the same: for people.
_ADVICE = {
    "enable-deepep-moe": "moe-a2a-backend: deepep",
    "enable-flashinfer-cutlass-moe": "moe-runner-backend: flashinfer_cutlass",
    "enable-flashinfer-cutedsl-moe": "moe-runner-backend: flashinfer_cutedsl",
    "enable-flashinfer-trtllm-moe": "moe-runner-backend: flashinfer_trtllm",
    "enable-flashinfer-mxfp4-moe": "moe-runner-backend: flashinfer_mxfp4",
    "enable-flashinfer-moe": "moe-runner-backend: flashinfer_cutlass",
    "enable-triton-kernel-moe": "moe-runner-backend: triton_kernel",
    "enable-flashinfer-mla": "attention-backend: flashinfer",
    "enable-flashmla": "attention-backend: flashmla",
    "hybrid-kvcache-ratio": "swa-full-tokens-ratio",
    "enable-piecewise-cuda-graph": "cuda-graph-backend-prefill: tc_piecewise",
    "optimistic-prefill-retries": "optimistic-prefill-attempts",
    "collect-tokens-histogram": "enable-metrics alone",
}


@dataclass(frozen=True)
class Lifetime:
    first: Version
    last: Version


def _index(table: tuple[tuple[str, str, str], ...]) -> dict[str, tuple[Lifetime, ...]]:
    found: dict[str, tuple[Lifetime, ...]] = {}
    for first, last, names in table:
        span = Lifetime(parse_version(first), parse_version(last))
        for name in names.split():
            found[name] = (*found.get(name, ()), span)
    return {name: tuple(sorted(spans, key=lambda span: span.first)) for name, spans in found.items()}


_LIFETIMES, _NOT_IN_FILE = _index(LIFETIMES), _index(NOT_IN_FILE)
_CHOICES = {flag: _index(rows) for flags, rows in CHOICES for flag in flags.split()}
_TAKES_NOTHING, _TAKES_LIST = frozenset(TAKES_NOTHING.split()), frozenset(TAKES_LIST.split())
_SAME: dict[str, tuple[str, ...]] = {}
for _names in (*(group.split() for group in SAME_FIELD), *_RENAMED):
    for _name in _names:
        _SAME[_name] = (*_SAME.get(_name, ()), *(other for other in _names if other != _name))


def lifetimes(flag: str) -> tuple[Lifetime, ...]:
    """The spans of releases that have a flag; none where no release does."""
    return _LIFETIMES.get(flag, ())


def _holds(spans: tuple[Lifetime, ...], version: Version) -> bool:
    # A post release has the flags of the release that it amends.
    release = version.base if version.phase == 1 else version
    return any(span.first <= release <= span.last for span in spans)


def known_flags(version: Version, beginning: str) -> list[str]:
    """The flags of a release that begin so, in order."""
    return sorted(name for name in _LIFETIMES if name.startswith(beginning) and has_flag(name, version))


def has_flag(flag: str, version: Version) -> bool:
    return _holds(lifetimes(flag), version)


def taken_from_file(flag: str, version: Version) -> bool:
    """Whether the release's configuration file can give the flag, which its command line has."""
    return has_flag(flag, version) and not _holds(_NOT_IN_FILE.get(flag, ()), version)


def takes(flag: str) -> str:
    return NOTHING if flag in _TAKES_NOTHING else LIST if flag in _TAKES_LIST else VALUE


def choices_of(flag: str, version: Version) -> tuple[str, ...] | None:
    """The values that the release takes, None where it takes any."""
    found = tuple(sorted(value for value, spans in _CHOICES.get(flag, {}).items() if _holds(spans, version)))
    return found or None


def translation(flag: str, value: Any, version: Version) -> dict[str, Any] | None:
    """The same setting in flags that the release's file takes, or None."""
    for other in _SAME.get(flag, ()):
        if takes(other) == takes(flag) and taken_from_file(other, version):
            return {other: value}
    became = _BECAME_VALUES.get(flag)
    if became is None or not all(taken_from_file(name, version) for name, _value in became):
        return None
    return dict(became) if value is True else {}


def flag_absence(flag: str, version: Version) -> str | None:
    """Why a release does not know a flag (given without dashes), or None where it does."""
    if has_flag(flag, version):
        return None
    spans = lifetimes(flag)
    if not spans:
        closest = difflib.get_close_matches(flag, [name for name in _LIFETIMES if has_flag(name, version)], n=1)
        advice = f"; the closest is {closest[0]}" if closest else ""
        return f"no release of SGLang from {OLDEST} to {NEWEST} has --{flag}{advice}"
    later = [span for span in spans if span.first > version]
    same = next((other for other in _SAME.get(flag, ()) if has_flag(other, version)), None)
    became = ", ".join(f"{name}: {value}" for name, value in _BECAME_VALUES.get(flag, ()) if has_flag(name, version))
    instead = same or became or _ADVICE.get(flag)
    advice = f"; use {instead}" if instead else ""
    if later:
        return f"--{flag} begins with SGLang {later[0].first}{advice}"
    return f"--{flag} ended with SGLang {spans[-1].last}{advice}"
