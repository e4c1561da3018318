# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One option: a model in one layout on one machine, planned, and held against the workload.

All arithmetic is that of plan(). The fraction is the largest safe one, the ratio of the host the largest that fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.capacity.capacity_request import (
    CapacityRequest,
    Workload,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.capacity.concurrency import (
    largest_context,
    requests_at,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.capacity.layouts import Layout
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan import Plan, plan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import PlanRequest, plan_request
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import (
    MIB,
    format_count,
    format_gb,
    format_gib,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

# Too little memory of a GPU for the model in this layout; what else a plan refuses does not depend on the size.
DEVICE_SHORT = frozenset({"kv_budget_empty", "state_pool_empty", "window_pool_too_small", "leave_bytes_too_large"})
# HiCache cannot be had, the server can.
HOST_SHORT = frozenset(
    {
        "host_memory_short",
        "guard_refuses",
        "numa_node_short",
        "hugepages_short",
        "control_group_short",
        "host_memory_unknown",
        "hicache_unsupported",
        "hicache_attention_dp_hangs",
        "hicache_transfer_unsupported",
        "hicache_layout_unsupported",
        "host_pool_empty",
        "host_pool_below_device",
    }
)
_SETTINGS = ("mem_fraction_static", "mem_fraction_auto", "leave_bytes")
_SIZES = ("ratio", "size_gb", "host_memory_fraction", "auto", "leave_bytes", "target_tokens")
# Beyond every GPU: there is no budget with which the workload would be served.
_ENDLESS_BYTES = 1 << 48


@dataclass(frozen=True)
class Candidate:
    """A model in one layout on a machine; C(board) names its GPUs."""

    model: Mapping[str, Any]
    board: str | None
    board_memory_bytes: int | None
    topology: Mapping[str, Any]
    layout: Layout


@dataclass(frozen=True)
class Option:
    """Sizes are of one GPU. C(needed_kv_bytes) is the budget of pools that serves the workload, C(missing_bytes) what
    lacks of it. C(tokens) are those of all groups of attention data parallelism together. C(observed): measurements of
    the layout take the place of estimates."""

    model: str
    board: str | None
    gpus: int
    layout: Layout
    gpu_memory_bytes: int | None
    fits: bool
    refusal: Refusal | None
    tokens: int = 0
    requests_at_context: int = 0
    mem_fraction_static: float | None = None
    weights_bytes: int | None = None
    kv_bytes: int = 0
    reserved_bytes: int | None = None
    needed_kv_bytes: int | None = None
    missing_bytes: int | None = None
    largest_context_tokens: int = 0
    host_ratio_auto: float | None = None
    host_tokens: int = 0
    host_bytes_total: int = 0
    host_required_bytes: int | None = None
    observed: bool = False
    explanation: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()

    @property
    def idle_bytes(self) -> int | None:
        """What the workload leaves of the KV cache of a GPU."""
        if self.needed_kv_bytes is None or not self.fits:
            return None
        return max(0, self.kv_bytes - self.needed_kv_bytes)

    @property
    def group_text(self) -> str:
        return f"{self.gpus} x {self.board or 'GPU'}"


def _arguments(asked: CapacityRequest, candidate: Candidate, hicache: bool) -> dict[str, Any]:
    server = {**asked.common.get("server", {}), **candidate.layout.as_options()}
    if not any(server.get(name) for name in _SETTINGS):
        server["mem_fraction_auto"] = True
    host = dict(asked.common.get("hicache", {}))
    if not hicache:
        host["enabled"] = False
    elif not any(host.get(name) for name in _SIZES):
        known = (candidate.topology.get("host") or {}).get("memory_available_bytes") is not None
        wanted = asked.workload.host_cache_tokens
        if known:
            host["auto"] = True
        elif wanted is not None:
            host["target_tokens"] = -(-wanted // candidate.layout.attention_data_parallel_size)
    return {
        **asked.common,
        "model": candidate.model,
        "topology": candidate.topology,
        "server": server,
        "hicache": host,
        "observed": asked.observed_of(candidate.layout),
    }


def _wants_host(asked: CapacityRequest, candidate: Candidate) -> bool:
    """Whether there is anything to say of the host: HiCache is not off, and its memory or its size is known."""
    hicache = asked.common.get("hicache", {})
    if hicache.get("enabled") is False:
        return False
    known = (candidate.topology.get("host") or {}).get("memory_available_bytes") is not None
    return known or asked.workload.host_cache_tokens is not None or any(hicache.get(name) for name in _SIZES)


def judge(asked: CapacityRequest, candidate: Candidate) -> Option:
    """The option, or Refusal where the model or the release does not allow the layout on any GPU."""
    request = plan_request(_arguments(asked, candidate, False))
    try:
        planned = plan(request)
    except Refusal as refusal:
        if refusal.code not in DEVICE_SHORT:
            raise
        return Option(
            model=request.model.name,
            board=candidate.board,
            gpus=candidate.layout.gpus,
            layout=candidate.layout,
            gpu_memory_bytes=candidate.board_memory_bytes,
            fits=False,
            refusal=refusal,
            kv_bytes=_budget(refusal),
            explanation=(refusal.message,),
        )
    host_refusal: Refusal | None = None
    # What the device does not serve needs no host.
    if _serves(asked.workload, request, planned) and _wants_host(asked, candidate):
        try:
            with_host = plan_request(_arguments(asked, candidate, True))
            request, planned = with_host, plan(with_host)
        except Refusal as refusal:
            if refusal.code not in HOST_SHORT:
                raise
            host_refusal = refusal
    return _planned(asked, candidate, request, planned, host_refusal)


def _serves(workload: Workload, request: PlanRequest, planned: Plan) -> bool:
    requests = requests_at(planned.device, request.model.attention, request.server, workload.context_tokens)
    return requests >= workload.concurrent_requests


def _budget(refusal: Refusal) -> int:
    """Bytes of a GPU that a refusal says are there for the KV cache; below 0 where the weights themselves lack room."""
    for name in ("kv_budget_bytes", "budget_bytes"):
        value = refusal.evidence.get(name)
        if isinstance(value, int):
            return value
    return 0


def _planned(
    asked: CapacityRequest, candidate: Candidate, request: PlanRequest, planned: Plan, host_refusal: Refusal | None
) -> Option:
    workload = asked.workload
    device, host, layout = planned.device, planned.host, candidate.layout
    groups = layout.attention_data_parallel_size
    requests = requests_at(device, request.model.attention, request.server, workload.context_tokens)
    refusal = _refused(workload, request, planned, requests, host_refusal)
    tokens = device.max_total_num_tokens * groups
    lines = [
        f"{layout.text}: {format_gib(device.kv_pool_bytes)} of KV cache a GPU at mem_fraction_static "
        f"{device.mem_fraction_static} hold {format_count(tokens)} tokens, or {format_count(requests)} requests of "
        f"{format_count(workload.context_tokens)} tokens at once"
    ]
    if host.pools and host.effective_ratio is not None:
        lines.append(
            f"HiCache ratio {host.effective_ratio:g} keeps {format_count(host.tokens * groups)} tokens on the host in "
            f"{format_gb(host.bytes_total)}, for which {format_gb(host.required_available_bytes)} have to be available"
        )
    elif host_refusal is not None:
        lines.append(f"no HiCache: {host_refusal.message}")
    if asked.observed_of(layout):
        lines.append("what was observed with this layout takes the place of estimates")
    if refusal is not None:
        lines.append(refusal.message)
    return Option(
        model=request.model.name,
        board=candidate.board,
        gpus=layout.gpus,
        layout=layout,
        gpu_memory_bytes=candidate.board_memory_bytes,
        fits=refusal is None,
        refusal=refusal,
        tokens=tokens,
        requests_at_context=requests,
        mem_fraction_static=device.mem_fraction_static,
        weights_bytes=device.weights_bytes,
        kv_bytes=device.kv_pool_bytes,
        reserved_bytes=device.reserved_bytes,
        largest_context_tokens=min(
            largest_context(device, request.model.attention, request.server, workload.concurrent_requests),
            request.model.max_position_embeddings or device.max_total_num_tokens,
        ),
        host_ratio_auto=host.effective_ratio if host.pools else None,
        host_tokens=host.tokens * groups,
        host_bytes_total=host.bytes_total,
        host_required_bytes=host.required_available_bytes if host.pools else None,
        observed=bool(asked.observed_of(layout)),
        explanation=tuple(lines),
        assumptions=planned.assumptions,
    )


def _refused(
    workload: Workload, request: PlanRequest, planned: Plan, requests: int, host_refusal: Refusal | None
) -> Refusal | None:
    longest = request.model.max_position_embeddings
    if longest is not None and workload.context_tokens > longest:
        return Refusal(
            "context_exceeds_model",
            f"{request.model.name} takes {format_count(longest)} tokens a request, and "
            f"{format_count(workload.context_tokens)} are asked for.",
            f"Set workload.context_tokens to {longest} or less, or take another model.",
            {"max_position_embeddings": longest},
        )
    if requests < workload.concurrent_requests:
        return Refusal(
            "workload_too_large",
            f"{format_count(requests)} of {format_count(workload.concurrent_requests)} requests of "
            f"{format_count(workload.context_tokens)} tokens can run at once.",
            "Take more or larger GPUs, shorter contexts or fewer requests.",
            {"requests_at_context": requests},
        )
    wanted = workload.host_cache_tokens
    groups = request.server.attention_data_parallel_size
    if wanted is not None and planned.host.tokens * groups < wanted:
        if host_refusal is not None:
            return host_refusal
        return Refusal(
            "host_cache_too_small",
            f"The host keeps {format_count(planned.host.tokens * groups)} of {format_count(wanted)} tokens.",
            "Give the host more memory, or lower workload.host_cache_tokens.",
            {"host_tokens": planned.host.tokens * groups},
        )
    return None


def needed_bytes(asked: CapacityRequest, candidate: Candidate, hicache: bool, guess: int) -> int | None:
    """The smallest budget of a GPU's pools, to the MiB, that serves the workload; None if there is none.

    C(hicache): whether it is on, which decides the pools of some models. C(guess) is where the search begins.
    """
    arguments = _arguments(asked, candidate, hicache)
    arguments["server"] = {name: value for name, value in arguments["server"].items() if name not in _SETTINGS}
    arguments["hicache"] = {name: value for name, value in arguments["hicache"].items() if name not in _SIZES}
    # Neither the host nor the size of a card has a part in this, and the budget may be beyond that of the card.
    gpus = [{**gpu, "memory_total_bytes": None} for gpu in candidate.topology["gpus"]]
    arguments["topology"] = {**candidate.topology, "gpus": gpus, "host": {}}

    def serves(mebibytes: int) -> bool:
        request = plan_request({**arguments, "observed": {"kv_pool_bytes": mebibytes * MIB}})
        try:
            return _serves(asked.workload, request, plan(request))
        except Refusal as refusal:
            if refusal.code not in DEVICE_SHORT:
                raise
            return False

    high, step = max(1, -(-guess // MIB)), 1
    while not serves(high):
        high, step = high + step, step * 2
        if high * MIB > _ENDLESS_BYTES:
            return None
    low, step = high - 1, 1
    while low > 0 and serves(low):
        high, low, step = low, low - step * 2, step * 2
    low = max(0, low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if serves(middle) else (middle, high)
    return high * MIB
