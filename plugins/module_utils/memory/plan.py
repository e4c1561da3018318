# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of one instance: device and host memory, placement, times, unit and arguments, or a refusal with reason.

Pure: the same request gives the same plan. The parts live in device.py, host.py, placement.py, timing.py and
sglang/arguments.py; here they are put together and judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.architecture import (
    FAMILY_MLA,
    Attention,
    distinct_copies,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device import DevicePlan, plan_device
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host import (
    BY_FRACTION,
    BY_SIZE,
    DEPENDS,
    DISABLED,
    GuardNeed,
    Limit,
    NodeShare,
    Pool,
    Sizing,
    auto_ratio,
    guard_need,
    largest_ratio,
    largest_size_gb,
    limits,
    pool_tokens,
    shares,
    usable_host_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.placement import (
    Seat,
    choose_gpus,
    seats,
    visible_devices,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import Machine, PlanRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.timing import Timing, plan_timing
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count, format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.arguments import (
    check_extra_arguments,
    check_server,
    resolve_arguments,
    resolve_sizing,
    resolve_transfer,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.versions import VersionFacts, version_facts

MEMLOCK = "infinity"


@dataclass(frozen=True)
class HostPlan:
    """Host pools of all ranks and what they ask of the machine; see host.py for each term."""

    sizing: Sizing
    effective_ratio: float | None
    pools: tuple[Pool, ...]
    ranks: int
    copies: int
    nodes: tuple[NodeShare, ...]
    numa_binding: str
    reserve_bytes: int
    held_by_device_bytes: int
    available_bytes: int | None
    guard: GuardNeed | None
    limits: tuple[Limit, ...]
    largest_ratio: float | None
    largest_size_gb: int | None
    meter: str
    io_backend: str | None
    mem_layout: str | None
    write_policy: str | None

    @property
    def tokens(self) -> int:
        return self.pools[0].tokens if self.pools else 0

    @property
    def bytes_per_rank(self) -> int:
        return sum(pool.bytes_per_rank for pool in self.pools)

    @property
    def bytes_total(self) -> int:
        return self.ranks * self.bytes_per_rank

    @property
    def unique_bytes(self) -> int:
        return self.copies * self.bytes_per_rank

    @property
    def required_available_bytes(self) -> int:
        """What has to be available before the start, so that every pool fits and the reserve stays."""
        return self.bytes_total + self.held_by_device_bytes + self.reserve_bytes

    @property
    def left_bytes(self) -> int | None:
        if self.available_bytes is None:
            return None
        return self.available_bytes - self.held_by_device_bytes - self.bytes_total


@dataclass(frozen=True)
class Plan:
    """The whole plan; plan_as_dict gives its documented, JSON-safe form."""

    version: VersionFacts
    model_name: str
    family: str
    machine: Machine
    device: DevicePlan
    raised_largest_ratio: float | None
    host: HostPlan
    seats: tuple[Seat, ...]
    timing: Timing
    environment: Mapping[str, str]
    arguments: Mapping[str, Any]
    warnings: tuple[Problem, ...]
    assumptions: tuple[str, ...]
    explanation: tuple[str, ...]


def plan(request: PlanRequest) -> Plan:
    """Compute a plan, or raise Refusal with what was found, what was expected and the largest value that fits."""
    facts = version_facts(request.sglang_version)
    server, hicache = request.server, request.hicache
    check_server(facts, server)
    sizing = resolve_sizing(facts, hicache)
    transfer = resolve_transfer(facts, hicache) if hicache.enabled else (None, None)
    warnings = check_extra_arguments(facts, server, hicache.enabled)
    gpus = () if server.device == "cpu" else choose_gpus(request.machine, server)
    check_tensor_parallel(request.model.attention, server.tensor_parallel_size)

    device = plan_device(facts, request.model, server, gpus, request.observed, request.margin_bytes)
    placed = seats(request.machine, server, gpus)
    assumptions = [*request.machine.assumptions, *device.assumptions]
    host = _plan_host(request, facts, sizing, transfer, device, placed, assumptions)
    warnings += _warnings(request, facts, device, host, placed)
    refusal = judge_host(facts, device, host)
    if refusal is not None:
        if not request.allow_oversubscription:
            raise refusal
        warnings.append(Problem("oversubscribed", "error", refusal.message, f"Forced past the plan. {refusal.remedy}"))
    timing = plan_timing(host.bytes_total, server.ranks, request.model.weights_bytes, request.observed)
    if request.observed.pin_bytes_per_second is None and host.bytes_total:
        assumptions.append(f"Pages are pinned at {format_gb(timing.pin_bytes_per_second)}/s ({timing.source}).")
    return Plan(
        version=facts,
        model_name=request.model.name,
        family=request.model.attention.family,
        machine=request.machine,
        device=device,
        raised_largest_ratio=_raised_largest_ratio(facts, device, host),
        host=host,
        seats=placed,
        timing=timing,
        environment=visible_devices(request.machine, gpus),
        arguments=resolve_arguments(server, hicache, sizing, transfer, server.model_path or request.model.path),
        warnings=tuple(warnings),
        assumptions=tuple(assumptions),
        explanation=(*device.explanation, *_explain_host(device, host)),
    )


def check_tensor_parallel(attention: Attention, tensor_parallel_size: int) -> None:
    """Heads divide evenly over the ranks, or ranks over the KV heads (SGLang asserts both)."""
    heads, kv_heads = attention.num_attention_heads, attention.num_kv_heads

    def even(ranks: int) -> bool:
        smaller, larger = sorted((kv_heads, ranks))
        # MLA has one latent head, whole on every rank.
        return heads % ranks == 0 and (attention.family == FAMILY_MLA or larger % smaller == 0)

    if not even(tensor_parallel_size):
        fitting = [size for size in range(1, 2 * tensor_parallel_size) if even(size)]
        raise Refusal(
            "tensor_parallel_uneven",
            f"tensor_parallel_size {tensor_parallel_size} does not divide {heads} attention heads and {kv_heads} KV "
            "heads evenly.",
            f"Expected one of {', '.join(str(size) for size in fitting)}.",
            {"tensor_parallel_size": tensor_parallel_size, "fitting": fitting},
        )


def _plan_host(
    request: PlanRequest,
    facts: VersionFacts,
    sizing: Sizing,
    transfer: tuple[str | None, str | None],
    device: DevicePlan,
    placed: tuple[Seat, ...],
    assumptions: list[str],
) -> HostPlan:
    ranks = request.server.ranks
    own = request.observed.own_pinned_bytes or 0
    # On a CPU the "device" pool and the weights are host memory as well.
    held = 0
    if device.device == "cpu":
        held = ranks * device.kv_pool_bytes + (request.model.weights_bytes or 0)
    usable = usable_host_bytes(request.machine, own, held)
    pools: tuple[Pool, ...] = ()
    ratio = sizing.ratio
    if sizing.mode == BY_FRACTION:
        ratio = facts.default_ratio
        if usable is not None:
            ratio = auto_ratio(facts, device.kv_pool_bytes, ranks, usable, sizing.fraction or 1.0)
    if sizing.mode != DISABLED:
        effective = Sizing(sizing.mode, ratio=ratio, size_gb=sizing.size_gb, fraction=sizing.fraction)
        tokens = pool_tokens(facts, device.max_total_num_tokens, device.page_size, device.bytes_per_token, effective)
        pools = (Pool("kv", max(0, tokens), device.bytes_per_token),)
    bytes_per_rank = sum(pool.bytes_per_rank for pool in pools)
    reserve = request.host_reserve_bytes
    nodes = shares(request.machine, placed, bytes_per_rank, reserve, own, assumptions)
    bounds = limits(facts, ranks, usable, reserve, nodes, sizing) if pools else ()
    tightest = bounds[0].bytes_per_rank if bounds else None
    geometry = (facts, device.max_total_num_tokens, device.page_size, device.bytes_per_token)
    return HostPlan(
        sizing=sizing,
        effective_ratio=ratio if sizing.mode != BY_SIZE else None,
        pools=pools,
        ranks=ranks,
        copies=distinct_copies(request.model.attention, request.server.tensor_parallel_size),
        nodes=nodes,
        numa_binding=facts.numa_binding if device.device == "cuda" else "none",
        reserve_bytes=reserve,
        held_by_device_bytes=held,
        available_bytes=None if usable is None else usable + held,
        guard=guard_need(facts, ranks, bytes_per_rank, sizing) if pools else None,
        limits=bounds,
        largest_ratio=None if tightest is None else largest_ratio(*geometry, tightest),
        largest_size_gb=None if tightest is None else largest_size_gb(*geometry, tightest),
        meter=facts.meter,
        io_backend=transfer[0],
        mem_layout=transfer[1],
        write_policy=(request.hicache.write_policy or facts.default_write_policy) if pools else None,
    )


def judge_host(facts: VersionFacts, device: DevicePlan, host: HostPlan) -> Refusal | None:
    """Why the host pools cannot be had, or None. The remedy names the largest value that fits every bound."""
    if not host.pools:
        short = host.left_bytes is not None and host.left_bytes < host.reserve_bytes
        if short and host.held_by_device_bytes:
            return Refusal(
                "host_memory_short",
                f"On a CPU the KV cache and the weights take {format_gb(host.held_by_device_bytes)} of host memory; "
                f"{format_gb(host.available_bytes or 0)} are available, and {format_gb(host.reserve_bytes)} of them "
                "stay reserved.",
                "Lower max_total_tokens.",
                {"required_available_bytes": host.required_available_bytes, "available_bytes": host.available_bytes},
            )
        return None
    asked = _asked(host)
    evidence: dict[str, object] = {
        "largest_ratio": host.largest_ratio,
        "largest_size_gb": host.largest_size_gb,
        "bytes_per_rank": host.bytes_per_rank,
        "bytes_total": host.bytes_total,
        "required_available_bytes": host.required_available_bytes,
        "available_bytes": host.available_bytes,
        "limits": {limit.name: limit.bytes_per_rank for limit in host.limits},
    }
    if host.tokens <= 0:
        return Refusal(
            "host_pool_empty",
            f"{asked} gives a host pool of no tokens.",
            "Ask for more, or set hicache.enabled to false.",
            evidence,
        )
    if facts.smaller_than_device_is_fatal and host.tokens <= device.max_total_num_tokens:
        return Refusal(
            "host_pool_below_device",
            f"{asked} gives {format_count(host.tokens)} host tokens, and SGLang {facts.version} insists on more than "
            f"the {format_count(device.max_total_num_tokens)} of the device.",
            "Set hicache.ratio above 1"
            + (f"; up to {host.largest_ratio} fits." if host.largest_ratio else "; no ratio fits this machine."),
            evidence,
        )
    if not host.limits or host.bytes_per_rank <= host.limits[0].bytes_per_rank:
        return None
    limit = host.limits[0]
    code = "host_memory_short"
    if limit.name.startswith("guard"):
        code = "guard_refuses"
    elif limit.name.startswith("numa"):
        code = "numa_node_short"
    message = (
        f"{asked} pins {format_gb(host.bytes_per_rank)} a rank, {format_gb(host.bytes_total)} with {host.ranks} "
        f"rank{'s' if host.ranks > 1 else ''}; the {limit.name} allows {format_gb(limit.bytes_per_rank)} a rank: "
        f"{limit.explanation}."
    )
    if host.largest_ratio is not None:
        size = f" (or hicache.size_gb {host.largest_size_gb})" if host.largest_size_gb else ""
        remedy = f"Set hicache.ratio to {host.largest_ratio} or less{size}."
    else:
        remedy = "No ratio fits: free host memory, lower max_total_tokens, or set hicache.enabled to false."
    if code == "guard_refuses" and facts.auto_sizes_host_pool and host.sizing.mode != BY_FRACTION:
        remedy += " With hicache.host_memory_fraction instead, the server books all pools against one snapshot."
    return Refusal(code, message, remedy, evidence)


def _asked(host: HostPlan) -> str:
    if host.sizing.mode == BY_SIZE:
        return f"HiCache size {host.sizing.size_gb} GB a rank"
    if host.sizing.mode == BY_FRACTION:
        return f"HiCache with host memory fraction {host.sizing.fraction} (ratio {host.effective_ratio:.3f})"
    return f"HiCache ratio {host.sizing.ratio}"


def _warnings(
    request: PlanRequest, facts: VersionFacts, device: DevicePlan, host: HostPlan, placed: Sequence[Seat]
) -> list[Problem]:
    found = []
    if not facts.exact:
        found.append(
            Problem(
                "version_not_verified",
                "warning",
                f"SGLang {facts.version} is planned by the rules read from "
                + ("its source" if facts.examined else f"the source of {facts.version.base}")
                + "; they were not held against a running server of that release.",
                "Compare the first start with this plan.",
            )
        )
    cap = request.server.max_total_tokens
    if device.device == "cuda" and cap is not None and cap > device.max_total_num_tokens + device.page_size:
        found.append(
            Problem(
                "token_cap_not_reached",
                "warning",
                f"max_total_tokens is {format_count(cap)}, and the memory holds "
                f"{format_count(device.max_total_num_tokens)}.",
                "SGLang takes the smaller; drop the cap or raise mem_fraction_static.",
            )
        )
    context = request.server.context_length
    if context is not None and context > device.max_total_num_tokens:
        found.append(
            Problem(
                "context_exceeds_cache",
                "warning",
                f"context_length is {format_count(context)}, and the KV cache holds "
                f"{format_count(device.max_total_num_tokens)} tokens.",
                "A request of full length cannot be served; lower context_length or make room.",
            )
        )
    if not host.pools:
        return found
    if host.available_bytes is None:
        found.append(
            Problem(
                "host_memory_unknown",
                "warning",
                "The available host memory is not known, so nothing was checked against it.",
                "Give topology.host.memory_available_bytes.",
            )
        )
    if device.device == "cuda" and request.machine.nodes and any(seat.numa_node is None for seat in placed):
        found.append(
            Problem(
                "numa_affinity_unknown",
                "warning",
                "The NUMA node of a GPU is not known, so the host pools are not checked node by node.",
                "On a guest, ask for a virtual topology that exposes it.",
            )
        )
    # Where the machine as a whole is short, its nodes are no news.
    if host.numa_binding != "strict" and (host.left_bytes or 0) >= 0:
        found.extend(
            Problem(
                "numa_node_overflows",
                "warning",
                f"The ranks of NUMA node {share.node} pin {format_gb(share.pinned_bytes)} where "
                f"{format_gb(share.available_bytes or 0)} are available; the rest comes from other nodes.",
                "Lower hicache.ratio, or spread the ranks over the nodes.",
            )
            for share in host.nodes
            if share.ranks and share.left_bytes is not None and share.left_bytes < 0
        )
    guard = host.guard
    if guard is not None and host.available_bytes is not None:
        usable = host.available_bytes - host.held_by_device_bytes
        if guard.variant == "A" and guard.verdict(usable) == DEPENDS:
            found.append(
                Problem(
                    "guard_blind",
                    "warning",
                    f"SGLang {facts.version} checks one rank's request at a time and would let this start; the pools "
                    "do not fit.",
                    "Do not rely on the server's own check.",
                )
            )
    if device.device == "cpu" and host.io_backend != "direct":
        found.append(
            Problem(
                "io_backend_needs_gpu",
                "warning",
                f"hicache.io_backend is {host.io_backend}, whose copies are GPU kernels, and the device is cpu.",
                "Set hicache.io_backend to direct and hicache.mem_layout to layer_first.",
            )
        )
    return found


def _raised_largest_ratio(facts: VersionFacts, device: DevicePlan, host: HostPlan) -> float | None:
    if device.raised is None or not host.limits:
        return None
    return largest_ratio(
        facts,
        device.raised.max_total_num_tokens,
        device.page_size,
        device.bytes_per_token,
        host.limits[0].bytes_per_rank,
    )


def _explain_host(device: DevicePlan, host: HostPlan) -> list[str]:
    if not host.pools or host.guard is None:
        return ["HiCache is off"]
    pool = host.pools[0]
    of_device = ""
    if host.held_by_device_bytes:
        of_device = f" + {format_gb(host.held_by_device_bytes)} of the CPU's own KV cache and weights"
    lines = [
        f"host tokens a rank = {_asked(host)} of {format_count(device.max_total_num_tokens)} device tokens, in pages "
        f"of {device.page_size} = {format_count(pool.tokens)}",
        f"host bytes a rank = {format_count(pool.tokens)} x {pool.bytes_per_token:,} = "
        f"{format_gb(pool.bytes_per_rank)}",
        f"host bytes in all = {host.ranks} ranks x {format_gb(host.bytes_per_rank)} = {format_gb(host.bytes_total)}; "
        f"{host.copies} of them hold{'s' if host.copies == 1 else ''} a cache of "
        f"{'its' if host.copies == 1 else 'their'} own = {format_gb(host.unique_bytes)} unique",
        f"must be available = {format_gb(host.bytes_total)}{of_device} + {format_gb(host.reserve_bytes)} reserve = "
        f"{format_gb(host.required_available_bytes)}",
    ]
    guard = host.guard
    if guard.variant == "A":
        lines.append(f"guard A asks for one rank + 10 GiB = {format_gb(guard.required_bytes)}")
    elif guard.best_order_bytes == guard.worst_order_bytes:
        lines.append(f"guard {guard.variant} books all ranks against one snapshot = {format_gb(guard.required_bytes)}")
    else:
        lines.append(
            f"guard {guard.variant} asks, of the last rank to arrive, for (2 x {host.ranks} - 1) x "
            f"{format_gb(host.bytes_per_rank)} + 10 GiB = {format_gb(guard.required_bytes)}"
        )
    lines += [
        f"a rank may pin {format_gb(limit.bytes_per_rank)} by the {limit.name}: {limit.explanation}"
        for limit in host.limits
    ]
    return lines


def plan_as_dict(result: Plan) -> dict[str, Any]:
    """The documented form of a plan (RETURN of memory_plan)."""
    device, host = result.device, result.host
    usable = None if host.available_bytes is None else host.available_bytes - host.held_by_device_bytes
    raised = None
    if device.raised is not None:
        raised = {**asdict(device.raised), "largest_ratio": result.raised_largest_ratio}
    guard = None
    if host.guard is not None:
        guard = {
            "variant": host.guard.variant,
            "verdict": host.guard.verdict(usable),
            "required_bytes": host.guard.required_bytes,
            "best_order_bytes": host.guard.best_order_bytes,
            "worst_order_bytes": host.guard.worst_order_bytes,
        }
    return {
        "sglang_version": str(result.version.version),
        "model": {"name": result.model_name, "family": result.family},
        "machine": _machine_as_dict(result.machine),
        "device": {
            "device": device.device,
            "weights_bytes": device.weights_bytes,
            "reserved_bytes": device.reserved_bytes,
            "available_before_load_bytes": device.available_before_load_bytes,
            "kv_pool_bytes": device.kv_pool_bytes,
            "bytes_per_token": device.bytes_per_token,
            "page_size": device.page_size,
            "max_total_num_tokens": device.max_total_num_tokens,
            "mem_fraction_static": device.mem_fraction_static,
            "mem_fraction_source": device.fraction_source,
            "headroom_bytes": device.headroom_bytes,
            "raise": raised,
        },
        "host": {
            "enabled": bool(host.pools),
            "sizing": host.sizing.mode,
            "ratio": host.effective_ratio,
            "size_gb": host.sizing.size_gb,
            "host_memory_fraction": host.sizing.fraction,
            "pools": [
                {
                    "kind": pool.kind,
                    "tokens": pool.tokens,
                    "bytes_per_token": pool.bytes_per_token,
                    "bytes_per_rank": pool.bytes_per_rank,
                }
                for pool in host.pools
            ],
            "tokens": host.tokens,
            "ranks": host.ranks,
            "bytes_per_rank": host.bytes_per_rank,
            "bytes_total": host.bytes_total,
            "unique_bytes": host.unique_bytes,
            "duplication_factor": round(host.ranks / host.copies, 3),
            "numa": [
                {
                    "node": share.node,
                    "ranks": list(share.ranks),
                    "pinned_bytes": share.pinned_bytes,
                    "available_bytes": share.available_bytes,
                    "left_bytes": share.left_bytes,
                }
                for share in host.nodes
            ],
            "numa_binding": host.numa_binding,
            "reserve_bytes": host.reserve_bytes,
            "held_by_device_bytes": host.held_by_device_bytes,
            "required_available_bytes": host.required_available_bytes,
            "available_bytes": host.available_bytes,
            "guard": guard,
            "left_bytes": host.left_bytes,
            "limits": [
                {"name": limit.name, "bytes_per_rank": limit.bytes_per_rank, "explanation": limit.explanation}
                for limit in host.limits
            ],
            "largest_ratio": host.largest_ratio,
            "largest_size_gb": host.largest_size_gb,
            "meter": host.meter,
            "io_backend": host.io_backend,
            "mem_layout": host.mem_layout,
            "write_policy": host.write_policy,
        },
        "placement": [{"rank": seat.rank, "gpu": seat.gpu, "numa_node": seat.numa_node} for seat in result.seats],
        "timing": {
            "pin_seconds": result.timing.pin_seconds,
            "start_seconds": result.timing.start_seconds,
            "pin_bytes_per_second": result.timing.pin_bytes_per_second,
            "source": result.timing.source,
        },
        "unit": {
            "timeout_start_seconds": result.timing.timeout_start_seconds,
            "timeout_stop_seconds": result.timing.timeout_stop_seconds,
            "limit_memlock": MEMLOCK,
            "success_exit_status": list(result.version.clean_stop_exit_statuses),
            "environment": dict(result.environment),
        },
        "arguments": dict(result.arguments),
        "warnings": [problem.as_dict() for problem in result.warnings],
        "assumptions": list(result.assumptions),
        "explanation": list(result.explanation),
    }


def _machine_as_dict(machine: Machine) -> dict[str, Any]:
    boards: dict[tuple[str | None, int | None], int] = {}
    for gpu in machine.gpus:
        board = (gpu.name, gpu.memory_total_bytes)
        boards[board] = boards.get(board, 0) + 1
    return {
        "gpus": [
            {"name": name, "memory_total_bytes": size_bytes, "count": count}
            for (name, size_bytes), count in boards.items()
        ],
        "numa_nodes": [node.id for node in machine.nodes],
        "memory_available_bytes": machine.memory_available_bytes,
    }
