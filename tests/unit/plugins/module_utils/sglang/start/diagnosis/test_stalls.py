# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which suspects a stall has, and in what order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.diagnosis import diagnose
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.stalls import WEIGHTS, suspects
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import LogEvent
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import (
    CgroupReading,
    HostReading,
    NumaReading,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import (
    MIB,
    PLAN,
    after,
    both,
    pinning,
    raw_events,
    reading,
    seen,
    start,
)

PLENTY: dict[str, Any] = {"memory_available_bytes": 500 * GB}


def codes(plan: dict[str, Any] | None = None, ranks: Any = None, events: Any = (), **host: Any) -> list[str]:
    cgroup = host.pop("cgroup", CgroupReading())
    look = seen(
        40.0,
        events=list(events),
        ranks=both(MIB, MIB) if ranks is None else ranks,
        host=HostReading(**{**PLENTY, **host}),
        cgroup=cgroup,
    )
    return [one.code for one in suspects(after(pinning(3.0), look), PLAN if plan is None else plan)]


USUAL = ["usual", "usual", "usual"]


def test_without_any_evidence_only_what_is_usual_is_named() -> None:
    assert codes() == USUAL


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ({"memory_available_bytes": 100_000_000}, ["host_memory_short"]),
        ({"cgroup": CgroupReading(current_bytes=GB - 1000, limit_bytes=GB)}, ["control_group_short"]),
        ({"memory_full_avg10": 12.0}, ["memory_pressure"]),
        ({"memory_some_avg10": 45.0, "swap_used_bytes": 2 * GB}, ["swapping"]),
        # Swap that lies there and moves nothing is no cause.
        ({"swap_used_bytes": 20 * GB}, []),
        (
            {"numa_nodes": (NumaReading(0, 100 * GB, 50 * GB, 100_000_000),)},
            [],
        ),
        (
            {"numa_nodes": (NumaReading(0, 100 * GB, 50 * GB, 10_000_000),)},
            ["fragmented"],
        ),
        # Not where there is plenty of memory beside what others hold.
        ({"shmem_bytes": 60 * GB, "cgroup": CgroupReading(shmem_bytes=10 * GB)}, []),
        (
            {
                "memory_available_bytes": GB,
                "shmem_bytes": 60 * GB,
                "cgroup": CgroupReading(shmem_bytes=10 * GB),
            },
            ["earlier_pool"],
        ),
        (
            {"memory_available_bytes": 100_000_000, "memory_full_avg10": 60.0, "swap_used_bytes": 2 * GB},
            ["host_memory_short", "swapping"],
        ),
    ],
)
def test_what_was_measured_comes_before_what_is_usual(host: dict[str, Any], expected: list[str]) -> None:
    assert codes(**host) == [*expected, *USUAL]


def test_log_that_cannot_be_read_comes_before_what_is_usual() -> None:
    blind = replace(start(), log_unreadable=True)
    assert [one.code for one in suspects(blind, {})][:2] == ["log_unreadable", "usual"]
    answers = suspects(replace(blind, probe_doubted=True), {})[0]
    assert "which answers" in answers.words and "become root" in answers.words


def test_processes_come_first() -> None:
    stopped = (reading("TP0", 2 * MIB), reading("TP1", 2 * MIB, state="T"))
    assert codes(ranks=stopped, memory_available_bytes=100_000_000)[:2] == ["stopped_by_signal", "host_memory_short"]
    waiting = (reading("TP0", 2 * MIB), reading("TP1", 2 * MIB, state="D"))
    assert codes(ranks=waiting)[0] == "waiting_in_kernel"
    assert codes(ranks=waiting, io_full_avg10=30.0)[0] == "waiting_for_disk"
    # Whoever waits in the kernel while memory is short waits for memory.
    assert codes(ranks=waiting, memory_full_avg10=50.0)[:2] == ["memory_pressure", "waiting_in_kernel"]


def test_numa_node_of_a_rank_that_is_bound_to_it() -> None:
    numa = [{"node": 0, "ranks": [0]}, {"node": 1, "ranks": [1]}]
    plan = {**PLAN, "host": {**PLAN["host"], "numa": numa, "numa_binding": "strict"}}
    nodes = (NumaReading(0, 100 * GB, 90 * GB, 90 * GB), NumaReading(1, 100 * GB, 100_000_000, 100_000_000))
    look = seen(40.0, ranks=both(MIB, MIB), host=HostReading(**PLENTY, numa_nodes=nodes))
    found = suspects(after(pinning(3.0), look), plan)
    assert (found[0].code, found[0].rank) == ("numa_node_short", "TP1")
    assert found[0].words == "NUMA node 1 has 0.10 GB free, and TP1 still pins 0.41 GB there"
    loose = {**plan, "host": {**plan["host"], "numa_binding": "preferred"}}
    assert codes(loose, numa_nodes=nodes) == USUAL


def test_hardware_and_hints() -> None:
    xid = LogEvent("failure", "NVRM: Xid", label="gpu_error", values=(("pci_address", "0000:3b:00"), ("xid", 79)))
    noise = LogEvent("failure", "NVRM: Xid", label="gpu_error", values=(("xid", 45),))
    hint = raw_events(["n1:1:1 [0] transport/p2p.cc:287 NCCL WARN Cuda failure 'peer access is not supported'"], 5.0)
    assert codes(events=[xid]) == ["gpu_error", *USUAL]
    assert codes(events=[noise]) == USUAL
    assert codes(events=hint) == ["nccl_warning", *USUAL]


def test_rank_that_is_behind_is_named_last() -> None:
    found = codes(ranks=(reading("TP0", 300 * MIB), reading("TP1", 2 * MIB)))
    assert found == [*USUAL, "rank_behind"]


def test_weights_put_what_cannot_pass_first() -> None:
    order = sorted(WEIGHTS, key=lambda code: -WEIGHTS[code])
    assert order[:5] == [
        "stopped_by_signal",
        "gpu_error",
        "host_memory_short",
        "control_group_short",
        "numa_node_short",
    ]
    assert order[-2:] == ["usual", "rank_behind"]
    assert len(set(WEIGHTS.values())) == len(WEIGHTS)


def test_suspects_are_in_the_result_with_their_weights() -> None:
    look = seen(40.0, ranks=both(MIB, MIB), host=HostReading(memory_available_bytes=100_000_000))
    state = after(pinning(3.0), look)
    assert state.verdict == "stalled"
    found = diagnose(state, PLAN)
    assert found.values["suspects"][0] == {"code": "host_memory_short", "weight": 90}
    assert found.remedy == f"Most likely: {found.causes[0]}."


def test_slow_start_that_ran_out_of_time_names_what_was_measured() -> None:
    slow = HostReading(memory_available_bytes=500 * GB, memory_full_avg10=70.0)
    state = after(
        start(timeout_seconds=20.0, stall_seconds=600.0),
        *(seen(float(at), ranks=both(at * 30 * MIB, at * 30 * MIB), host=slow) for at in (1, 10, 20, 900)),
    )
    assert (state.verdict, state.reason) == ("failed", "timeout")
    found = diagnose(state, PLAN)
    assert found.code == "timeout"
    assert found.values["suspects"][0]["code"] == "memory_pressure"
    assert found.remedy.startswith("Most likely it is slow because the kernel looks for memory")
