# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of one instance: device and host memory, placement, times, unit and arguments, or a refusal with reason.

Pure: the same request gives the same plan. The parts live in device.py, host_plan.py, seating.py, timing.py and
sglang/arguments.py, the judgement in verdict.py; here they are put together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device import DevicePlan, plan_device
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device_division import divide
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host_plan import HostPlan, explain_host, plan_host
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host_pools import largest_ratio_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import PlanRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.seating import seat_server
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.timing import Timing, plan_timing
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.verdict import (
    check_tensor_parallel,
    judge_host,
    warnings_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import MachineFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.seats import Seat
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.arguments import (
    check_extra_arguments,
    check_server,
    resolve_arguments,
    resolve_sizing,
    resolve_transfer,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.versions import VersionFacts, version_facts


@dataclass(frozen=True)
class Plan:
    """The whole plan; plan_dict.py gives its documented, JSON-safe form."""

    version: VersionFacts
    model_name: str
    family: str
    machine: MachineFacts
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
    placed = seat_server(request.machine, server, facts)
    check_tensor_parallel(request.model.attention, server.tensor_parallel_size)

    device = plan_device(
        facts, request.model, server, placed.gpus, request.observed, request.margin_bytes, hicache.enabled
    )
    assumptions = [*request.machine.assumptions, *device.assumptions]
    host = plan_host(request, facts, sizing, transfer, device, placed.seats, placed.binding.mode, assumptions)
    warnings += warnings_of(request, facts, device, host, placed.problems)
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
        family=device.division.attention.family,
        machine=request.machine,
        device=device,
        raised_largest_ratio=_raised_largest_ratio(facts, device, host),
        host=host,
        seats=placed.seats,
        timing=timing,
        environment=placed.environment,
        arguments={
            **resolve_arguments(server, hicache, sizing, transfer, server.model_path or request.model.path),
            **({"numa-node": list(placed.binding.numa_nodes)} if placed.binding.numa_nodes else {}),
        },
        warnings=tuple(warnings),
        assumptions=tuple(assumptions),
        explanation=(*device.explanation, *explain_host(device, host)),
    )


def _raised_largest_ratio(facts: VersionFacts, device: DevicePlan, host: HostPlan) -> float | None:
    if device.raised is None or not host.limits:
        return None
    pools, _lines = divide(device.division, device.raised.budget_bytes)
    return largest_ratio_of(facts, pools.pools, device.page_size, host.limits[0].bytes_per_rank)
