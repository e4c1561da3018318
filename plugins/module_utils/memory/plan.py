# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of one instance: device and host memory, placement, times, unit and arguments, or a refusal with reason.

Pure: the same request gives the same plan. The parts live in device.py, host_plan.py, seating.py, timing.py and
sglang/launch/arguments.py, the judgement in verdict.py; here they are put together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device import DevicePlan, plan_device
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_division import divide
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_remedy import (
    NO_ROOM,
    as_told,
    with_next,
    with_what_fits,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.draft.draft_problems import draft_problems
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.draft.speculation import check_draft_path
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.device_fraction import fraction_problems
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.goals.goals_device import device_for_goal
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.goals.goals_host import (
    sizing_for_goal,
    with_fewer_tokens,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host import BY_RATIO, Sizing
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_candidate import (
    candidate_of,
    largest_ratio_for,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_plan import HostPlan, plan_host
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_verdict import (
    judge_host,
    nothing_to_size,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_words import explain_host
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.remedies import (
    Remedy,
    explain_remedies,
    remedies,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.layout_check import check_layout, layout_problems
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.measured.accuracy import number
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.measured.observation import LastStart
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import (
    Observed,
    PlanRequest,
    ServerRequest,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request_checks import off_problems
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.seating import seat_server
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.timing import Timing, plan_timing
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.unit_limits import UnitLimits, unit_limits
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.verdict import warnings_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import GpuFacts, MachineFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.seats import Seat
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.arguments import (
    check_server,
    release_problems,
    resolve_arguments,
    resolve_sizing,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.combinations import combination_problems
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.extra_arguments import (
    settle_extra_arguments,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.ports import Ports, port_problems, ports_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.start_refusals import (
    refuse_what_ends_a_start,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.transfer import beside_of, resolve_transfer
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.unplanned_values import (
    refuse_unplanned_values,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.port_versions import port_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.stop_versions import stop_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import (
    VersionFacts,
    version_facts,
)


@dataclass(frozen=True)
class Plan:
    """The whole plan; plan_dict.py gives its documented, JSON-safe form."""

    version: VersionFacts
    settings: Mapping[str, Any]
    last_start: LastStart | None
    model_name: str
    family: str
    machine: MachineFacts
    device: DevicePlan
    raised_largest_ratio: float | None
    host: HostPlan
    remedies: tuple[Remedy, ...]
    seats: tuple[Seat, ...]
    timing: Timing
    limits: UnitLimits
    ports: tuple[Ports, ...]
    environment: Mapping[str, str]
    arguments: Mapping[str, Any]
    warnings: tuple[Problem, ...]
    assumptions: tuple[str, ...]
    explanation: tuple[str, ...]


def plan(request: PlanRequest) -> Plan:
    """Compute a plan, or raise Refusal with what was found, what was expected and the largest value that fits.

    A start that served had room. Where its figures leave none, they are wrong, and do not stand in the way of the next.
    """
    try:
        return _planned(request)
    except Refusal as refusal:
        last = request.last_start
        if refusal.code not in NO_ROOM or last is None or not last.observed:
            raise _whole(refusal, request) from refusal
        held: dict[str, Any] = dict.fromkeys(last.observed)
        kept = {name: none for name, none in held.items() if getattr(request.observed, name) == last.observed[name]}
        note = f"What the last start measured is not used, as with it no plan is possible: {refusal.message}"
        unmeasured = replace(last, observed={}, load_bytes_per_gpu=None, notes=(*last.notes, note))
        return _planned(replace(request, observed=replace(request.observed, **kept), last_start=unmeasured))


def _whole(refusal: Refusal, request: PlanRequest) -> Refusal:
    """The refusal, with what its own value would meet next."""
    told = as_told(refusal, request)
    if told is None:
        return refusal
    try:
        _planned(told)
    except Refusal as following:
        return with_next(refusal, following)
    return refusal


def _planned(request: PlanRequest) -> Plan:
    facts = version_facts(request.sglang_version)
    hicache = request.hicache
    check_server(facts, request.server)
    sizing = resolve_sizing(facts, hicache)
    extra = settle_extra_arguments(facts, request.server.extra_arguments, hicache.enabled)
    # From here on everybody reads the flags that the server will be given.
    server = replace(request.server, extra_arguments=extra.arguments)
    request = replace(request, server=server)
    refuse_unplanned_values(request.model, server, request.observed)
    beside = beside_of(request.model.attention, server.extra_arguments, request.speculative)
    transfer = resolve_transfer(facts, hicache, beside, request.model.attention) if hicache.enabled else (None, None)
    # Releases without a choice copy by themselves, as the direct backend of later ones does.
    copies = (transfer[0] or "direct") if hicache.enabled else None
    warnings = [*release_problems(facts), *extra.problems, *off_problems(hicache)]
    listening = port_facts(facts.version)
    ports = ports_of(listening, server.port, server.host, server.attention_data_parallel_size, server.extra_arguments)
    warnings += port_problems(listening, ports)
    placed = seat_server(request.machine, server, facts)
    check_layout(str(facts.version), request.model, server)
    check_draft_path(request.model, request.speculative)
    warnings += layout_problems(str(facts.version), request.model, server)
    refuse_what_ends_a_start(facts, request.model, server, transfer)

    def device_of(server: ServerRequest, observed: Observed) -> DevicePlan:
        return device_on(server, observed, placed.gpus)

    def device_on(server: ServerRequest, observed: Observed, gpus: tuple[GpuFacts, ...]) -> DevicePlan:
        return plan_device(
            facts,
            request.model,
            server,
            gpus,
            observed,
            request.margin_bytes,
            copies,
            request.speculative,
        )

    def host_of(asked: PlanRequest, device: DevicePlan, sizing: Sizing, said: list[str]) -> HostPlan:
        return plan_host(asked, facts, sizing, transfer, device, placed.seats, placed.binding.mode, said)

    def arguments_of(server: ServerRequest, sizing: Sizing) -> dict[str, Any]:
        path = server.model_path or request.model.path
        spoken = request.speculative
        return {
            **resolve_arguments(facts, server, hicache, sizing, transfer, path, spoken),
            **({"numa-node": list(placed.binding.numa_nodes)} if placed.binding.numa_nodes else {}),
        }

    def chosen_for(
        asked: PlanRequest, device: DevicePlan, current_ratio: float | None
    ) -> tuple[PlanRequest, Sizing, list[str]] | None:
        def attempt(asked: PlanRequest, sizing: Sizing) -> HostPlan:
            return host_of(asked, device, sizing, [])

        return sizing_for_goal(asked, facts, device, attempt, current_ratio, asked.change_threshold)

    def fits_with(tokens: int, sizing: Sizing) -> bool:
        capped = replace(request, server=replace(request.server, max_total_tokens=tokens))
        try:
            fewer = device_for_goal(capped, placed.gpus, device_of, request.change_threshold)[1]
            if chosen_for(capped, fewer, None) is not None:
                return True
            return judge_host(facts, fewer, host_of(capped, fewer, sizing, [])) is None
        except Refusal:
            return False

    last = request.last_start or LastStart()
    try:
        server, device = device_for_goal(request, placed.gpus, device_of, request.change_threshold)
    except Refusal as empty:
        raise with_what_fits(empty, str(facts.version), request, device_on, placed.gpus) from empty
    assumptions = [*request.machine.assumptions, *request.observed.assumptions, *device.assumptions]
    ratio_in_force = number(last.in_force.get("hicache-ratio"))
    # Where another argument differs there is a restart anyway, and nothing is gained by keeping the ratio.
    if ratio_in_force is not None and arguments_of(server, Sizing(BY_RATIO, ratio=ratio_in_force)) != last.in_force:
        ratio_in_force = None
    try:
        chosen = chosen_for(request, device, ratio_in_force)
    except Refusal as short:
        raise with_fewer_tokens(short, device.max_total_num_tokens, device.page_size, sizing, fits_with) from short
    host_lines: list[str] = []
    if chosen is not None:
        request, sizing, host_lines = chosen
    host = host_of(request, device, sizing, assumptions)
    warnings += draft_problems(device, request.observed, hicache.enabled)
    warnings += combination_problems(
        facts, request.model.attention, server, hicache, transfer[0], device.page_size, request.speculative
    )
    seen_idle = request.observed.idle_bytes_per_gpu is not None
    warnings += fraction_problems(
        device.mem_fraction_static, device.fraction_source, device.reserve, seen_idle, str(facts.version)
    )
    warnings += warnings_of(request, facts, device, host, placed.problems)
    refusal = judge_host(facts, device, host)
    if refusal is not None:
        # A share of nothing is no oversubscription: no server starts with it.
        if not request.allow_oversubscription or nothing_to_size(host):
            raise with_fewer_tokens(refusal, device.max_total_num_tokens, device.page_size, sizing, fits_with)
        warnings.append(Problem("oversubscribed", "error", refusal.message, f"Forced past the plan. {refusal.remedy}"))
    timing = plan_timing(host.pinned_bytes_total, server.ranks, request.model.weights_bytes, request.observed)
    if request.observed.pin_bytes_per_second is None and host.bytes_total:
        assumptions.append(f"Pages are pinned at {format_gb(timing.pin_bytes_per_second)}/s ({timing.source}).")
    bounds = unit_limits(
        timing,
        stop_facts(facts.version),
        host.pinned_bytes_total,
        max((group.pinned_per_rank for group in host.groups), default=0),
        last.timeout_start_seconds,
        last.timeout_stop_seconds,
    )
    against = remedies(facts, device, host)
    return Plan(
        version=facts,
        settings=request.settings,
        last_start=request.last_start,
        model_name=request.model.name,
        family=device.division.attention.family,
        machine=request.machine,
        device=device,
        raised_largest_ratio=_raised_largest_ratio(device, host),
        host=host,
        remedies=against,
        seats=placed.seats,
        timing=timing,
        limits=bounds,
        ports=ports,
        environment={**placed.environment, **(host.room.allocation.environment if host.pools else {})},
        arguments=arguments_of(server, sizing),
        warnings=tuple(warnings),
        assumptions=tuple(assumptions),
        explanation=(
            *last.notes,
            *device.explanation,
            *host_lines,
            *explain_host(device, host),
            *explain_remedies(host, against),
            *timing.explanation,
            *bounds.explanation,
        ),
    )


def _raised_largest_ratio(device: DevicePlan, host: HostPlan) -> float | None:
    """The largest ratio that would still fit beside the device pools of the higher fraction."""
    if device.raised is None or not host.limits:
        return None
    pools, _lines = divide(device.division, device.raised.budget_bytes)
    candidate = candidate_of(host.room, device, pools.stages or (pools.pools,))
    return largest_ratio_for(candidate, host.limits[0].bytes_per_rank)
