# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.holders import BY_FOLDER, Process
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.judge import HOST, NODE, PROCESS, Hold
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.needs import Bounds, Needs, needs_of_plan
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.remedies import remedies_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.waiting import WaitState, advance
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.words import (
    below_plan_problem,
    live_line,
    message_of,
    refusal_of,
    sentence,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.systemd import UnitStatus
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.idle.idle_cases import (
    GB,
    RANK,
    RESTARTING,
    RUNNING,
    STOPPED,
    STOPPING,
    STRANGER,
    gpu,
    plan,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.idle.test_idle_waiting import (
    after,
    seen,
)

LEAKED = replace(RANK, pid=300, unit="session-3.scope", belongs=BY_FOLDER)
FILE = {"path": "/dev/shm/psm_1", "kind": "tmpfs", "bytes": 2 * GB, "user": "ana", "used_by": []}
SEGMENT = {"id": 32769, "bytes": GB, "size_bytes": GB, "attached": 0, "creator_pid": 1, "user": "ana"}
USER = {"pid": 9, "name": "postgres", "user": "pg", "unit": "pg.service", "container": None, "held_bytes": 60 * GB}


def held(kind: str, missing: int, available: int, node: int | None = None) -> Hold:
    return Hold(kind, missing, numa_node=node, required_bytes=missing + available, available_bytes=available)


def stalled(*processes: Process, available: int = 100 * GB, gpus: Sequence[Any] = (), needs: Any = None) -> WaitState:
    known = needs or needs_of_plan(plan(numa=[]))
    return after(*(seen(at, available, processes, gpus, needs=known) for at in (0.0, 31.0)))


def codes(holds: Sequence[Hold], details: dict[str, Any], **host: Any) -> list[str]:
    return [remedy.code for remedy in remedies_of(holds, plan(**host), details)]


# The live line --------------------------------------------------------------------------------------------------------


def test_live_line_has_bytes_rate_and_time_left() -> None:
    state = after(seen(0, 10 * GB), seen(2, 20 * GB), seen(4, 30 * GB))
    assert live_line(state) == "waiting for memory 20.00 of 40.00 GB given back 5.00 GB/s ETA 4 s"


def test_live_line_tells_host_from_gpu_and_names_the_holders() -> None:
    state = after(seen(0, 50 * GB, [RANK], [gpu(0, 40 * GB, (RANK, 40 * GB))]))
    assert live_line(state) == (
        "waiting for memory 0.00 of 41.00 GB given back (host 0.00/1.00, GPU 0.00/40.00), "
        "held by sglang::scheduler_TP0 201"
    )


def test_live_line_of_many_holders_stays_a_line() -> None:
    state = after(seen(0, processes=[replace(RANK, pid=pid) for pid in range(200, 216)], unit=STOPPING))
    assert live_line(state).startswith("stopping 0.00 of 16.00 GB given back, held by sglang::scheduler_TP0 200, ")
    assert live_line(state).endswith(" and 13 more")


def test_live_line_names_no_time_that_is_none() -> None:
    state = after(seen(0, 10 * GB), seen(10, 10 * GB + 20_000_000))
    assert "GB/s" in live_line(state) and "ETA" not in live_line(state)


def test_last_line_tells_the_outcome() -> None:
    assert live_line(after(seen(0, 10 * GB), seen(4, 60 * GB))) == "memory is free after 4.0 s, 50.00 GB given back"
    assert live_line(stalled(RANK)) == "memory is not free (stalled) after 31.0 s"


# Failures -------------------------------------------------------------------------------------------------------------


def test_a_leaked_rank_is_named_with_what_to_kill() -> None:
    refusal = refusal_of(stalled(LEAKED, gpus=[gpu(0, 40 * GB, (LEAKED, 40 * GB))]), "sglang-main.service", plan(), {})
    assert refusal.code == "old_server_alive"
    assert message_of(refusal) == (
        "The memory for sglang-main.service is not free after 31.0 s, and for 31.0 s none has come back.\n"
        "  sglang::scheduler_TP0 (pid 300, user sglang, session-3.scope) of the old server is still there, outside of "
        "sglang-main.service; it holds 1.00 GB of host memory.\n"
        "  40.00 GB of GPU 0 are held by sglang::scheduler_TP0 (pid 300, user sglang, session-3.scope).\n"
        "What to do:\n"
        "  Kill pid 300 (sglang::scheduler_TP0 of user sglang), which the old server left behind: `kill -KILL 300`."
    )
    holds: Any = refusal.evidence["holds"]
    assert [hold["pid"] for hold in holds] == [300, 300]
    assert refusal.evidence["held_gpu_bytes"] == 40 * GB


def test_someone_elses_server_is_named_with_its_container() -> None:
    refusal = refusal_of(stalled(gpus=[gpu(2, 40 * GB, (STRANGER, 40 * GB))]), "sglang-main.service", plan(), {})
    assert refusal.code == "gpu_memory_held"
    assert "python3 -m vllm (pid 4711, user bob, container 0123456789ab)" in refusal.message
    assert refusal.remedy == (
        "Stop pid 4711 (python3 -m vllm of user bob in container 0123456789ab), or choose other GPUs than GPU 2."
    )


def test_missing_host_memory_names_leftovers_users_and_the_ratio_that_fits() -> None:
    details = {"files": [FILE], "segments": [SEGMENT], "memory_users": [USER]}
    refusal = refusal_of(stalled(available=30 * GB), "sglang-main.service", plan(numa=[]), details)
    assert refusal.code == "host_memory_held"
    assert "30.00 GB available, the plan counts on 50.00 GB, 20.00 GB are missing." in refusal.message
    assert refusal.remedy.splitlines() == [
        "Remove /dev/shm/psm_1 (2.00 GB of user ana), which no process uses: `rm /dev/shm/psm_1`.",
        "  Remove the shared memory segment 32769 (1.00 GB), which no process has attached: `ipcrm -m 32769`.",
        "  Most host memory is held by postgres (pid 9, user pg, pg.service) 60.00 GB.",
        # The last rank's check: twice its 5 GB a ratio beside its peer's, out of 30 GB less 10 GiB.
        "  Or set hicache.ratio to 1.28 or less, which fits now.",
    ]
    assert refusal.evidence["largest_ratio"] == 1.28
    assert refusal.evidence["missing_host_bytes"] == 20 * GB


def test_memory_that_nothing_names_is_the_drivers() -> None:
    state = stalled(available=9 * GB, needs=Needs(host=Bounds(15 * GB, 15 * GB)))
    refusal = refusal_of(state, None, {}, {"files": [], "segments": [], "memory_users": []})
    assert refusal.message.startswith("The memory for the instance is not free")
    assert "The driver may still be giving it back" in refusal.remedy


@pytest.mark.parametrize(("unit", "words"), [(RUNNING, "runs"), (RESTARTING, "waits to be started again by systemd")])
def test_a_unit_that_runs_is_to_be_stopped(unit: UnitStatus, words: str) -> None:
    refusal = refusal_of(after(seen(0, processes=[RANK], unit=unit)), "sglang-main.service", plan(), {})
    assert refusal.code == "unit_active"
    assert message_of(refusal) == (
        f"sglang-main.service {words}, so its memory does not come back. Stop it first "
        "(`systemctl stop sglang-main.service`)."
    )


def test_more_holders_than_a_message_holds_are_counted() -> None:
    ranks = [replace(RANK, pid=pid) for pid in range(200, 216)]
    refusal = refusal_of(stalled(*ranks), "x.service", plan(), {})
    assert refusal.message.splitlines()[-1] == "  And 10 more."
    remedies: Any = refusal.evidence["remedies"]
    assert len(remedies) == 16


def test_a_time_limit_is_told_as_one() -> None:
    state = after(*(seen(20.0 * step, 10 * GB + step * GB) for step in range(10)))
    state = advance(state, seen(200, 30 * GB, unit=STOPPED))
    assert refusal_of(state, "x.service", plan(), {}).message.startswith(
        "The memory for x.service is not free after 3 min 20 s.\n"
    )


def test_less_than_planned_is_a_warning() -> None:
    problem = below_plan_problem([held(HOST, 2 * GB, 48 * GB)])
    assert (problem.code, problem.severity) == ("host_memory_below_plan", "warning")
    assert "48.00 GB available" in problem.message


def test_every_hold_is_a_sentence() -> None:
    holds = [
        Hold(PROCESS, None, pid=7),
        Hold(PROCESS, GB, pid=7, name="x", state="D", belongs="unit"),
        Hold("gpu", None, gpu=1, pid=7, unit="a.service"),
        Hold("gpu", GB, gpu=1),
        held(HOST, GB, GB),
        held(NODE, GB, GB, 1),
        held("huge_pages", GB, GB),
        held("huge_pages", GB, GB, 0),
    ]
    said = [sentence(hold) for hold in holds]
    assert all(text.endswith(".") and "None" not in text for text in said), said
    assert "in its control group and waits in the kernel; it holds 1.00 GB" in said[1]
    assert said[3] == "1.00 GB of GPU 1 are held by no process that is named."


# Remedies -------------------------------------------------------------------------------------------------------------


def test_a_process_in_the_kernel_is_not_to_be_killed() -> None:
    (remedy,) = remedies_of([Hold(PROCESS, GB, pid=7, name="x", state="D")], {}, {})
    assert (remedy.code, remedy.pid) == ("wait_for_kernel", 7)


def test_files_in_use_and_small_ones_are_left_alone() -> None:
    short = [held(HOST, 20 * GB, 30 * GB)]
    files = [{**FILE, "used_by": [7]}, {**FILE, "bytes": 1000}, {**FILE, "kind": "memfd"}, {**FILE, "used_by": None}]
    assert codes(short, {"files": files, "segments": [{**SEGMENT, "attached": 1}]}) == ["set_ratio"]
    assert codes(short, {"files": [FILE]}) == ["remove_file", "set_ratio"]


def test_leftovers_are_no_matter_where_memory_is_not_short() -> None:
    assert codes([Hold("gpu", GB, gpu=0)], {"files": [FILE], "memory_users": [USER]}) == ["find_gpu_user"]


@pytest.mark.parametrize(
    ("holds", "host", "ratio"),
    {
        # Two pools of 5 GB a ratio and a page of 5 MB each, in 30 - 25 GB; the check would let 1.28 pass.
        "the host": ([held(HOST, 20 * GB, 30 * GB)], {"numa": [], "reserve_bytes": 25 * GB}, 0.49),
        "the check, which keeps 10 GiB": ([held(HOST, 20 * GB, 30 * GB)], {"numa": []}, 1.28),
        "what a server on a CPU takes before": (
            [held(HOST, 20 * GB, 30 * GB)],
            {"numa": [], "held_by_device_bytes": 3 * GB},
            1.08,
        ),
        "a node, less its part of the reserve": ([held(NODE, 10 * GB, 15 * GB, 1)], {}, 1.99),
        "a node that is not bound to strictly": (
            [held(NODE, 10 * GB, 15 * GB, 1)],
            {"numa_binding": "preferred"},
            None,
        ),
        "a plan that does not say what its pools are": ([held(HOST, 20 * GB, 30 * GB)], {"ranks": None}, None),
        "nothing is left": ([held(HOST, 41 * GB, 9 * GB)], {"numa": []}, None),
        "what the plan allows at most": ([held(HOST, GB, 49 * GB)], {"numa": [], "largest_ratio": 2.5}, 2.5),
    }.values(),
)
def test_ratio_that_fits_is_computed(holds: list[Hold], host: dict[str, Any], ratio: float | None) -> None:
    found = [remedy.value for remedy in remedies_of(holds, plan(**host), {}) if remedy.code == "set_ratio"]
    assert found == ([] if ratio is None else [ratio])


def test_a_size_is_answered_with_a_size() -> None:
    by_size = plan(sizing="size", size_gb=20, ratio=None, numa=[])
    (remedy,) = remedies_of([held(HOST, 20 * GB, 30 * GB)], by_size, {})
    assert (remedy.code, remedy.value) == ("set_size", 6)


def test_a_release_that_insists_on_a_larger_host_pool_gets_no_ratio_below_one() -> None:
    old = {**plan(numa=[]), "sglang_version": "0.5.9"}
    assert [remedy.code for remedy in remedies_of([held(HOST, 35 * GB, 15 * GB)], old, {})] == ["wait_for_driver"]
    new = {**old, "sglang_version": "0.5.23"}
    assert [remedy.value for remedy in remedies_of([held(HOST, 35 * GB, 15 * GB)], new, {})] == [0.28]
