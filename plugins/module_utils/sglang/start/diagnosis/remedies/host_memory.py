# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Remedies for want of host memory: the guard, pinning, the out-of-memory killer. Pure."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_fit import (
    HostFit,
    available_from_check,
    facts_of,
    host_fit,
    needed_available,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB, format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.catalogue import (
    CATALOGUE,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.remedies.case import (
    Case,
    Finding,
    known,
    plain,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.pinning import (
    pinned_bytes,
    planned_bytes,
)

# What others hold is told as the cause where it is at least this share of what is missing, and this much.
HELD_SHARE = 0.5
HELD_BYTES = GB
# cudaError_t (CUDA Runtime API): invalid value, memory allocation, not permitted.
_INVALID, _NO_MEMORY, _NOT_PERMITTED = 1, 2, 800
# What processes of a server hold beside the pools, left out of what an enforced limit lets the pools have.
_CGROUP_MARGIN = 0.02


def guard(case: Case) -> Finding:
    """The release's own check of host memory."""
    requested, allowed = case.value("requested_bytes"), case.value("available_bytes")
    available = _before_pools(case, available_from_check(case.plan, allowed) if allowed is not None else None)
    if allowed is None and "No host memory is left" in case.text:
        # Its check found no more than what it keeps.
        facts = facts_of(case.plan)
        available = facts.guard_reserve_bytes if facts is not None else None
    fit = host_fit(case.plan, available)
    values = known(
        requested_bytes=requested,
        available_bytes=allowed,
        host_available_bytes=available,
        largest_ratio=fit.largest_ratio,
        largest_size_gb=fit.largest_size_gb,
    )
    held = _held_by_others(case, available)
    if held is not None:
        return held
    said = (
        f"it asks for {format_gb(requested)} and its check lets it have {format_gb(allowed)}."
        if requested is not None and allowed is not None
        else case.text
    )
    message = f"SGLang refused to allocate a host pool of {case.who}: {said}"
    return Finding(message, _size_remedy(case, fit), values)


def _size_remedy(case: Case, fit: HostFit) -> str:
    if fit.largest_ratio is not None:
        return f"Set hicache.ratio to {fit.largest_ratio} or less{_or_size(fit)}, or free host memory."
    if fit.largest_size_gb is not None:
        return f"Set hicache.size_gb to {fit.largest_size_gb} or less, or free host memory."
    requested, allowed = case.value("requested_bytes"), case.value("available_bytes")
    if requested and allowed and allowed > 0 and not case.plan:
        return f"Ask for at most {allowed / requested:.0%} of it, or free host memory."
    missing = needed_available(case.plan)
    needs = f", as the pools of this plan need {format_gb(missing)} available" if missing else ""
    return f"No ratio fits: free host memory{needs}, lower max_total_tokens, or set hicache.enabled to false."


def _or_size(fit: HostFit) -> str:
    return f" (or hicache.size_gb {fit.largest_size_gb})" if fit.largest_size_gb else ""


def _before_pools(case: Case, available: int | None) -> int | None:
    """What was available before any pool of this server was there: what was free with what its ranks held by then."""
    return None if available is None else available + (pinned_bytes(case.state) or 0)


def _others(case: Case) -> int | None:
    """Shared memory of the machine that is not the unit's: pools of other servers, or of one that is not quite gone."""
    everyone, own = case.state.host.shmem_bytes, case.state.cgroup.shmem_bytes
    if own is None and case.state.unit is not None and not case.state.unit.runs:
        # It ended before it was looked at, and what it held is given back.
        own = 0
    return None if everyone is None or own is None else max(0, everyone - own)


def _held_by_others(case: Case, available: int | None) -> Finding | None:
    """Whether the plan's pools would have passed on the memory it was made for, and somebody else holds what lacks."""
    needed, others = needed_available(case.plan), _others(case)
    planned_for = case.host.get("available_bytes")
    if available is None or needed is None or others is None or planned_for is None:
        return None
    missing = needed - available
    if needed > planned_for or missing <= 0 or others < max(HELD_BYTES, HELD_SHARE * missing):
        return None
    return Finding(
        f"The host lacks {format_gb(missing)} for the pools of {case.who} that were there when this was planned; "
        f"{format_gb(others)} are shared memory of processes outside of the unit, as the pool of an earlier server is.",
        CATALOGUE["previous_pool_still_pinned"].remedy,
        known(missing_bytes=missing, held_bytes=others, host_available_bytes=available, planned_for_bytes=planned_for),
        code="previous_pool_still_pinned",
    )


def registration(case: Case) -> Finding:
    """The driver did not pin memory that was already there."""
    size, rc, reason = case.value("requested_bytes"), case.value("rc"), case.value("reason")
    detail = f" {format_gb(size)}" if size else ""
    message = (
        f"The driver refused to pin{detail} of host memory for {case.who}" + (f" ({reason})" if reason else "") + "."
    )
    wanted = (case.plan.get("unit") or {}).get("limit_memlock_bytes")
    limit = case.state.unit.limit_memlock_bytes if case.state.unit is not None else None
    needed = max((one for one in (size, wanted) if one is not None), default=None)
    values = known(requested_bytes=size, return_code=rc, memlock_bytes=limit, needed_memlock_bytes=needed)
    if limit is not None and needed is not None and limit < needed:
        return Finding(
            f"{message} The unit may lock {format_gb(limit)}, and {format_gb(needed)} are needed.",
            CATALOGUE["memlock_too_low"].remedy,
            values,
            code="memlock_too_low",
        )
    if rc == _NOT_PERMITTED:
        remedy = "Give the unit the right to lock memory: LimitMEMLOCK=infinity, and CAP_IPC_LOCK in a container."
    elif rc == _INVALID:
        remedy = (
            "The driver takes no registration of this size or address: set SGLANG_HICACHE_HOST_REGISTER_CHUNK_GB lower "
            "where the release has it, or lower hicache.ratio."
        )
    else:
        available = case.state.host_available_bytes
        fit = host_fit(case.plan, _before_pools(case, available))
        values.update(known(largest_ratio=fit.largest_ratio, largest_size_gb=fit.largest_size_gb))
        lower = f"set hicache.ratio to {fit.largest_ratio} or less" if fit.largest_ratio else "lower hicache.ratio"
        remedy = (
            "Check that LimitMEMLOCK of the unit is infinity and that the NUMA node has the memory; "
            f"{lower} if it has not."
        )
    return Finding(message, remedy, values)


def smaller_than_device(case: Case) -> Finding:
    fit = host_fit(case.plan, None)
    found = plain(case)
    upto = f", up to {fit.largest_ratio} fits" if fit.largest_ratio else ""
    values = known(least_ratio=1.01, largest_ratio=fit.largest_ratio, largest_size_gb=fit.largest_size_gb)
    return Finding(found.message, f"Set hicache.ratio above 1{upto}.", values)


def exhausted(case: Case) -> Finding:
    """A process got no memory from the kernel."""
    found = plain(case)
    available = _before_pools(case, case.state.host_available_bytes)
    held = _held_by_others(case, available)
    if held is not None:
        return held
    fit = host_fit(case.plan, available)
    values = known(
        requested_bytes=case.value("requested_bytes"),
        host_available_bytes=available,
        largest_ratio=fit.largest_ratio,
        largest_size_gb=fit.largest_size_gb,
    )
    remedy = found.remedy if fit.largest_ratio is None else _size_remedy(case, fit)
    return Finding(found.message, remedy, values)


def oom_killer(case: Case) -> Finding:
    """The kernel's out-of-memory killer: which limit was met, and the largest pools under it."""
    constraint = str(case.value("constraint") or "").lower().removeprefix("constraint_")
    limit = _memory_limit(case)
    if not constraint and limit is not None and case.state.cgroup.oom_kills:
        constraint = "memcg"
    dead_anon, dead_shmem = case.value("anon_bytes"), case.value("shmem_bytes")
    where = {
        "memcg": "The memory limit of the unit was reached",
        "memory_policy": "The NUMA node that a rank is bound to ran out of memory",
        "cpuset": "The NUMA nodes that the unit may use ran out of memory",
    }.get(constraint, "The kernel ran out of memory")
    held = f", which held {format_gb((dead_anon or 0) + (dead_shmem or 0))}" if dead_anon or dead_shmem else ""
    message = (
        f"{where} and the kernel killed a process of the unit"
        + (f" (rank {case.rank})" if case.rank else "")
        + f"{held} while {case.doing}."
    )
    room: int | None
    if constraint == "memcg":
        room, fit = _under_limit(case, limit)
    else:
        room = _before_pools(case, case.state.host_available_bytes)
        fit = host_fit(case.plan, room)
    values = known(
        constraint=constraint or None,
        limit_bytes=limit,
        pinned_bytes=pinned_bytes(case.state),
        planned_bytes=planned_bytes(case.state),
        anon_bytes=dead_anon,
        shmem_bytes=dead_shmem,
        pid=case.value("dead_pid"),
        room_bytes=room,
        largest_ratio=fit.largest_ratio,
        largest_size_gb=fit.largest_size_gb,
    )
    lower = (
        f"Set hicache.ratio to {fit.largest_ratio} or less{_or_size(fit)}"
        if fit.largest_ratio
        else "Lower hicache.ratio"
    )
    if constraint == "memcg":
        wanted = _limit_wanted(case)
        raised = f"raise MemoryMax of the unit to {format_gb(wanted)}" if wanted else "raise MemoryMax of the unit"
        values.update(known(needed_limit_bytes=wanted))
        remedy = f"{lower}, or {raised}."
    elif constraint in ("memory_policy", "cpuset"):
        remedy = (
            f"{lower}, spread the ranks over more NUMA nodes, or relax the binding (SGLANG_AUTO_NUMA_BIND=false); the "
            "plan's host.numa tells what each node has."
        )
    else:
        remedy = f"{lower}, or end what else holds memory; `journalctl -k` lists who held what."
    return Finding(message, remedy, values)


def _memory_limit(case: Case) -> int | None:
    """The limit that was measured; of a unit that ended before it was looked at, its own setting."""
    if case.state.cgroup.limit_bytes is not None or case.state.unit is None:
        return case.state.cgroup.limit_bytes
    return case.state.unit.memory_max_bytes


def _beside_pools(case: Case) -> int:
    """What the unit's processes hold beside shared memory; what the killed one alone held where no more is known."""
    return int(case.state.cgroup.anon_bytes or case.value("anon_bytes") or 0)


def _under_limit(case: Case, limit: int | None) -> tuple[int | None, HostFit]:
    """What the pools may take of an enforced limit, and the largest that do.

    The planner keeps its reserve free of any limit. A limit below that is not of its making, and there only what the
    processes hold beside their pools is taken off.
    """
    if limit is None:
        return None, host_fit(case.plan, None)
    beside = int(_beside_pools(case) + limit * _CGROUP_MARGIN)
    reserve = max(case.host.get("reserve_bytes") or 0, beside)
    reserve = reserve if reserve < limit else beside
    return limit - reserve, host_fit(case.plan, None, limit, reserve)


def _limit_wanted(case: Case) -> int | None:
    planned = planned_bytes(case.state)
    return None if planned is None else int((planned + _beside_pools(case)) / (1 - _CGROUP_MARGIN)) + 1


def bus_error(case: Case) -> Finding:
    page = case.host.get("hugepage_size")
    found = plain(case)
    if page is None:
        return found
    wanted = planned_bytes(case.state)
    size = {"2MB": 2 << 20, "1GB": 1 << 30}.get(str(page))
    pages = -(-wanted // size) if wanted and size else None
    remedy = f"Reserve {pages:,} huge pages of {page} for the pools of all ranks." if pages else found.remedy
    return Finding(found.message, remedy, known(hugepage_size=page, needed_pages=pages, planned_bytes=wanted))
