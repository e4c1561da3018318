# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a request may hold at all: numbers within bounds, measurements that the machine can have, no idle options."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.goals.threshold import MEASUREMENT_BYTES
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.measured.measured_memory import (
    LEAST_BYTES_PER_SECOND,
    MOST_BYTES_PER_SECOND,
    MOST_SECONDS,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gb, format_gib
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import MachineFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal

if TYPE_CHECKING:
    from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import HiCacheRequest

# Far above what any machine has, so that a number of another unit is caught and arithmetic stays within floats.
_MOST_BYTES = 1 << 60
_MOST_TOKENS = 1 << 40
_MOST_GB = _MOST_BYTES // 10**9
# (lower bound, upper bound), None: not bound here. Lower bounds of most options are their owners', with their words.
_BOUNDS: dict[str, tuple[float | None, float]] = {
    "observed.kv_pool_bytes": (1, _MOST_BYTES),
    "observed.available_before_load_bytes": (0, _MOST_BYTES),
    "observed.available_after_load_bytes": (0, _MOST_BYTES),
    "observed.idle_bytes_per_gpu": (0, _MOST_BYTES),
    "observed.own_pinned_bytes": (0, _MOST_BYTES),
    "observed.pin_bytes_per_second": (LEAST_BYTES_PER_SECOND, MOST_BYTES_PER_SECOND),
    "observed.load_seconds": (0, MOST_SECONDS),
    "observed.rest_seconds": (0, MOST_SECONDS),
    "margin_bytes": (0, _MOST_BYTES),
    "host_reserve_bytes": (0, _MOST_BYTES),
    "hicache.ratio": (None, 1_000_000),
    "hicache.size_gb": (None, _MOST_GB),
    "hicache.leave_bytes": (None, _MOST_BYTES),
    "hicache.target_tokens": (None, _MOST_TOKENS),
    "hicache.parallel_alloc_threads": (None, 1024),
    "server.leave_bytes": (None, _MOST_BYTES),
    "server.target_tokens": (None, _MOST_TOKENS),
    "server.max_total_tokens": (None, _MOST_TOKENS),
    "server.context_length": (None, _MOST_TOKENS),
    "server.max_running_requests": (None, 1 << 24),
    # The largest page of any release is of 256 tokens; the largest chunk is that of a whole long prompt.
    "server.page_size": (None, 4096),
    "server.chunked_prefill_size": (None, 1 << 24),
    "server.tensor_parallel_size": (None, 4096),
    "server.pipeline_parallel_size": (None, 4096),
    "server.attention_data_parallel_size": (None, 4096),
    "server.expert_parallel_size": (None, 4096),
    "speculative.num_steps": (None, 4096),
    "speculative.eagle_topk": (None, 4096),
    "speculative.num_draft_tokens": (None, 1 << 16),
}
# Options of a host tier, which nobody reads without one.
_OF_HICACHE = (
    "ratio",
    "size_gb",
    "host_memory_fraction",
    "auto",
    "leave_bytes",
    "target_tokens",
    "hugepage_size",
    "parallel_alloc_threads",
)
_FRACTIONS = ("observed.mem_fraction_static", "server.mem_fraction_static")


def check_numbers(arguments: Mapping[str, Any]) -> None:
    """Numbers are finite and within what they can be."""
    given = {
        **{key: arguments.get(key) for key in ("margin_bytes", "host_reserve_bytes")},
        **{
            f"{part}.{key}": value
            for part in ("observed", "server", "hicache", "speculative")
            for key, value in (arguments.get(part) or {}).items()
        },
    }
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        if isinstance(value, float) and not math.isfinite(value):
            raise Refusal("value_malformed", f"{name} is {value}.", "Expected a finite number, or null.")
        if name in _FRACTIONS and not 0 < value < 1:
            raise Refusal(
                "mem_fraction_static_out_of_range",
                f"{name} is {value}.",
                "Expected a share between 0 and 1, or null.",
                {"option": name, "value": value},
            )
        if name in _BOUNDS:
            _check_bounds(name, value, *_BOUNDS[name])


def _check_bounds(name: str, value: float, least: float | None, most: float) -> None:
    if least == 0 and value < 0:
        raise Refusal("value_negative", f"{name} is {value}.", "Expected 0 or more, or null.")
    if (least is None or value >= least) and value <= most:
        return
    expected = f"Expected {most:,} or less" if least is None else f"Expected {least:,} to {most:,}"
    raise Refusal(
        "value_out_of_range",
        f"{name} is {value}.",
        f"{expected}, or null.",
        {"option": name, "value": value, "least": least, "largest": most},
    )


def off_problems(hicache: HiCacheRequest) -> list[Problem]:
    """What is asked of a host tier that is off."""
    asked = [] if hicache.enabled else [name for name in _OF_HICACHE if getattr(hicache, name)]
    if not asked:
        return []
    return [
        Problem(
            "hicache_off_ignores",
            "warning",
            f"hicache.enabled is false, so that hicache.{' and hicache.'.join(asked)} "
            f"change{'s' if len(asked) == 1 else ''} nothing.",
            "Set hicache.enabled to true, or leave out what sizes the host tier.",
        )
    ]


def check_observed(observed: Mapping[str, Any], machine: MachineFacts) -> None:
    """What was measured is a part of its whole, and the machine has the whole."""
    before = observed.get("available_before_load_bytes")
    parts = ("available_after_load_bytes", "idle_bytes_per_gpu", "kv_pool_bytes")
    for name in parts:
        part = observed.get(name)
        if before is not None and part is not None and part > before:
            raise _inconsistent(name, part, before, "observed.available_before_load_bytes", "what was available before")
    # Which GPUs the server gets is decided later; none of them is larger than this.
    cards = [gpu.memory_total_bytes for gpu in machine.gpus]
    known = [size for size in cards if size is not None]
    if known and len(known) == len(cards):
        for name in ("available_before_load_bytes", *parts):
            size = observed.get(name)
            if size is not None and size > max(known) + MEASUREMENT_BYTES:
                raise _inconsistent(name, size, max(known), "topology.gpus[].memory_total_bytes", "the memory of a GPU")
    pinned, total = observed.get("own_pinned_bytes"), machine.memory_total_bytes
    if pinned is not None and total is not None and pinned > total:
        raise _inconsistent(
            "own_pinned_bytes", pinned, total, "topology.host.memory_total_bytes", "the memory of the host", format_gb
        )


def _inconsistent(name: str, part: int, whole: int, of: str, what: str, size: Any = format_gib) -> Refusal:
    return Refusal(
        "observed_inconsistent",
        f"observed.{name} is {part} bytes ({size(part)}), more than {of} with {whole} bytes ({size(whole)}).",
        f"Expected a part of {what}{' loading' if what.endswith('before') else ''}.",
        {"option": f"observed.{name}", "value": part, "largest": whole},
    )
