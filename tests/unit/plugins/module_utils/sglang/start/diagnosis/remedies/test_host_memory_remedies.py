# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.diagnosis import diagnose
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.result import Diagnosis
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import LogEvent
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import (
    CgroupReading,
    HostReading,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import founding, planned
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import (
    FAILED,
    GUARD,
    KILLED,
    MIB,
    PLAN,
    after,
    both,
    dead,
    died,
    pinning,
    raw_events,
    reading,
    seen,
)

# Enough for the last rank's check of 8 x 44.77 GB.
ROOMY = founding(
    sglang_version="0.5.23",
    topology={"host": {"memory_available_bytes": 700 * GB}},
)


def of(line: str, plan: dict[str, Any] | None = None, **others: Any) -> Diagnosis:
    return diagnose(died(line, **others), PLAN if plan is None else plan)


# The guard


def test_largest_ratio_and_size_that_pass_the_last_rank_s_check() -> None:
    # 1.50 GB a rank, less half of the last decimal, on 2 ranks leave 2 x 1.495 / 3 for each, as the last check counts
    # the peer's pool twice: of 16.78 MB at ratio 1.
    found = of(GUARD)
    assert found.values["largest_ratio"] == 59.4
    # Less than 1 GB, so no whole number of it.
    assert "largest_size_gb" not in found.values
    assert found.remedy == "Set hicache.ratio to 59.4 or less, or free host memory."
    assert found.evidence["lines"] == [GUARD]


def test_pool_that_peers_had_pinned_by_then_is_counted() -> None:
    held = both(MIB, 1000 * MIB)
    state = after(
        pinning(), seen(9.0, ranks=held), seen(10.0, events=raw_events([GUARD], 10.0), ranks=held, unit=KILLED)
    )
    more, alone = diagnose(state, PLAN).values, of(GUARD).values
    assert more["host_available_bytes"] - alone["host_available_bytes"] == 999 * MIB
    assert more["largest_ratio"] > alone["largest_ratio"]


def test_size_is_named_where_whole_gb_fit() -> None:
    plan = planned(ROOMY)
    found = of(GUARD.replace("8.00", "44.77").replace("1.50", "40.00"), plan)
    # (8 x 40.00 GB) / 15 = 21.3 GB a rank.
    assert found.values["largest_size_gb"] == 21
    assert "(or hicache.size_gb 21)" in found.remedy


def test_plan_s_own_bound_is_tighter() -> None:
    plan = {**PLAN, "host": {**PLAN["host"], "largest_ratio": 12.5}}
    assert of(GUARD, plan).values["largest_ratio"] == 12.5


def test_without_a_plan_a_share_is_named() -> None:
    assert of(GUARD, {}).remedy == "Ask for at most 19% of it, or free host memory."


def test_nothing_fits() -> None:
    assert of(GUARD.replace("1.50", "-2.00")).remedy.startswith("No ratio fits")


def test_nothing_is_left_for_a_share_of_the_host_memory() -> None:
    line = (
        "ValueError: No host memory is left for HiCache after the 10 GiB reserve; set --hicache-ratio or "
        "--hicache-size explicitly."
    )
    found = of(line, planned(ROOMY))
    assert (found.code, found.values.get("largest_ratio")) == ("host_memory_guard", None)
    assert "the pools of this plan need 682.3" in found.remedy


def test_memory_that_an_earlier_pool_still_holds_is_told_as_such() -> None:
    plan = planned(founding(sglang_version="0.5.23", hicache={"ratio": 2.0}))
    line = GUARD.replace("8.00", "22.39").replace("1.50", "15.00")
    held = HostReading(memory_available_bytes=130 * GB, shmem_bytes=245 * GB)
    state = after(
        pinning(),
        seen(9.0, ranks=both(MIB, MIB), host=held, cgroup=CgroupReading(shmem_bytes=GB)),
        seen(10.0, events=raw_events([line], 10.0), host=held, cgroup=CgroupReading(shmem_bytes=GB), unit=KILLED),
    )
    found = diagnose(state, plan)
    assert found.code == "previous_pool_still_pinned"
    assert found.values["held_bytes"] == 244 * GB
    assert "Wait until it is given back" in found.remedy
    # The same line where nobody else holds anything is a plan that does not fit.
    free = after(pinning(), seen(10.0, events=raw_events([line], 10.0), unit=KILLED))
    assert diagnose(free, plan).code == "host_memory_guard"


# Pinning

REGISTER = "RuntimeError: cudaHostRegister failed (rc={rc}, {reason}) at offset=0 size=1000000512 (total=1)"


@pytest.mark.parametrize(
    ("rc", "reason", "words"),
    [
        (2, "out of memory", "the NUMA node has the memory"),
        (800, "operation not permitted", "CAP_IPC_LOCK"),
        (1, "invalid argument", "SGLANG_HICACHE_HOST_REGISTER_CHUNK_GB"),
    ],
)
def test_registration_by_what_the_driver_answered(rc: int, reason: str, words: str) -> None:
    found = of(REGISTER.format(rc=rc, reason=reason))
    assert (found.code, found.values["return_code"]) == ("registration_failed", rc)
    assert words in found.remedy


def test_limit_of_locked_memory_that_is_below_the_pool() -> None:
    low = replace(KILLED, limit_memlock_bytes=8 * MIB)
    found = of(REGISTER.format(rc=2, reason="out of memory"), unit=low)
    assert (found.code, found.values["memlock_bytes"]) == ("memlock_too_low", 8 * MIB)
    assert found.values["needed_memlock_bytes"] == 1_000_000_512
    enough = replace(KILLED, limit_memlock_bytes=2 * GB)
    assert of(REGISTER.format(rc=2, reason="out of memory"), unit=enough).code == "registration_failed"


# The out-of-memory killer


def kill(constraint: str, **values: int) -> LogEvent:
    given = {"constraint": constraint, "dead_pid": 201, **values}
    return LogEvent(
        "failure", "Killed process 201", label="oom_killer", values=tuple(sorted(given.items())), timestamp=9.5
    )


def oom(constraint: str, cgroup: CgroupReading, plan: dict[str, Any], **host: Any) -> Diagnosis:
    look: dict[str, Any] = {"cgroup": cgroup, "host": HostReading(**host)}
    state = after(
        pinning(),
        seen(9.0, ranks=both(MIB, MIB), **look),
        seen(
            10.0,
            events=[kill(constraint, anon_bytes=GB, shmem_bytes=40 * GB)],
            ranks=(reading("TP0", MIB), dead("TP1", -9)),
            unit=KILLED,
            **look,
        ),
    )
    return diagnose(state, plan)


def test_limit_of_the_unit_leaves_the_largest_pools_that_fit_it() -> None:
    plan = planned(founding(sglang_version="0.5.15"))
    cgroup = CgroupReading(current_bytes=199 * GB, limit_bytes=200 * GB, anon_bytes=30 * GB, oom_kills=1)
    found = oom("CONSTRAINT_MEMCG", cgroup, plan)
    assert (found.code, found.rank, found.values["constraint"]) == ("oom_killer", "TP1", "memcg")
    # 200 GB less 30 GB of the processes and 2 %.
    assert found.values["room_bytes"] == 166 * GB
    ratio = found.values["largest_ratio"]
    # A page comes on top of the ratio in each of eight ranks.
    row = 8 * 11_192_713_344
    assert ratio * row <= 166 * GB < (ratio + 0.011) * row
    limited = founding(sglang_version="0.5.15", hicache={"ratio": ratio})
    limited["topology"]["host"]["cgroup_limit_bytes"] = 200 * GB
    assert planned(limited)["host"]["ratio"] == ratio
    assert "raise MemoryMax of the unit to" in found.remedy and "which held 41.00 GB" in found.message


def test_limit_of_a_unit_that_ended_before_it_was_looked_at() -> None:
    unit = replace(KILLED, memory_max_bytes=200 * GB)
    state = after(pinning(), seen(10.0, events=[kill("CONSTRAINT_MEMCG")], unit=unit))
    found = diagnose(state, planned(founding(sglang_version="0.5.15")))
    assert (found.values["limit_bytes"], found.rank) == (200 * GB, "TP1")
    assert found.values["largest_ratio"] < 4.0


def test_numa_node_that_ran_out() -> None:
    found = oom("CONSTRAINT_MEMORY_POLICY", CgroupReading(), PLAN, memory_available_bytes=50 * GB)
    assert "NUMA node that a rank is bound to" in found.message
    assert "relax the binding" in found.remedy


def test_whole_host_that_ran_out() -> None:
    found = oom("CONSTRAINT_NONE", CgroupReading(), PLAN, memory_available_bytes=2 * GB)
    assert found.values["constraint"] == "none"
    assert "what else holds memory" in found.remedy


def test_kill_that_only_the_control_group_counted() -> None:
    before, now = CgroupReading(oom_kills=0, limit_bytes=GB), CgroupReading(oom_kills=1, limit_bytes=GB)
    state = after(
        pinning(),
        seen(9.0, ranks=both(MIB, MIB), cgroup=before),
        seen(10.0, ranks=(reading("TP0", MIB), dead("TP1", -9)), cgroup=now),
        seen(17.0, ranks=(reading("TP0", MIB), dead("TP1", -9)), cgroup=now),
    )
    found = diagnose(state, PLAN)
    assert (found.code, found.rank, found.values["constraint"]) == ("oom_killer", "TP1", "memcg")


def test_bus_error_in_huge_pages_tells_how_many_are_needed() -> None:
    plan = {**PLAN, "host": {**PLAN["host"], "hugepage_size": "1GB"}}
    found = of("Fatal Python error: Bus error", plan, unit=FAILED)
    assert (found.code, found.values["needed_pages"]) == ("bus_error", 1)
    assert of("Fatal Python error: Bus error", unit=FAILED).values == {}


def test_no_more_memory_from_the_kernel() -> None:
    state = died("OSError: [Errno 12] Cannot allocate memory", host=HostReading(memory_available_bytes=20 * GB))
    found = diagnose(state, PLAN)
    assert found.code == "host_memory_exhausted"
    assert "hicache.ratio" in found.remedy
    assert found.values["largest_ratio"] <= PLAN["host"]["largest_ratio"]
