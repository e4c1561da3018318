# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import RankReading
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.kernel_log import KernelLog
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.start.look.fake_node import (
    GROUP,
    FakeNode,
)

SUMMARY = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset={group},mems_allowed=0-1,oom_memcg={group},"
    "task_memcg={group},task=sglang::schedul,pid={pid},uid=997"
)
KILLED = (
    "Memory cgroup out of memory: Killed process {pid} (sglang::schedul) total-vm:98304000kB, anon-rss:2048kB, "
    "file-rss:512kB, shmem-rss:262144000kB, UID:997 pgtables:514000kB oom_score_adj:0"
)
RANKS = (RankReading("TP0", 201, True), RankReading("TP1", 202, True))


def heard(*messages: str, pids: tuple[int, ...] = (100, 201, 202), living: tuple[int, ...] = ()) -> list[Any]:
    kernel = KernelLog()
    for message in messages:
        kernel.take(message, 5.0)
    return [
        (event.label, event.rank, dict(event.values), event.timestamp)
        for event in kernel.events(GROUP, pids, RANKS, lambda pid: pid in living)
    ]


@pytest.mark.parametrize("group", [GROUP, f"/machine.slice/box{GROUP}", f"{GROUP}/payload"])
def test_kill_within_the_group_of_the_unit(group: str) -> None:
    values = {
        "anon_bytes": 2048 * 1024,
        "constraint": "CONSTRAINT_MEMCG",
        "dead_pid": 999,
        "limit_group": group,
        "shmem_bytes": 262144000 * 1024,
    }
    found = heard(SUMMARY.format(group=group, pid=999), KILLED.format(pid=999))
    assert found == [("oom_killer", None, values, 5.0)]


def test_kill_of_a_rank_whose_group_the_kernel_did_not_name() -> None:
    found = heard(KILLED.format(pid=202))
    values = {
        "anon_bytes": 2048 * 1024,
        "constraint": "CONSTRAINT_MEMCG",
        "dead_pid": 202,
        "shmem_bytes": 262144000 * 1024,
    }
    assert found == [("oom_killer", "TP1", values, 5.0)]


@pytest.mark.parametrize("group", ["/system.slice/other.service", f"{GROUP}x", "/"])
def test_kill_of_somebody_else(group: str) -> None:
    assert heard(SUMMARY.format(group=group, pid=999), KILLED.format(pid=999)) == []


def test_kill_because_the_machine_is_full() -> None:
    found = heard(
        "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,global_oom,"
        f"task_memcg={GROUP},task=python3, the one,pid=999,uid=0",
        "Out of memory: Killed process 999 (python3, the one) total-vm:1kB, anon-rss:1kB, file-rss:0kB, "
        "shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0",
    )
    values = {"anon_bytes": 1024, "constraint": "CONSTRAINT_NONE", "dead_pid": 999, "shmem_bytes": 0}
    assert found == [("oom_killer", None, values, 5.0)]


@pytest.mark.parametrize(
    "killed",
    [
        # Linux 4.14 to 4.18, RHEL 8, and before shared memory was told apart.
        "Killed process 202 (sglang::schedul) total-vm:7296kB, anon-rss:96kB, file-rss:164kB, shmem-rss:0kB",
        "Killed process 202 (sglang::schedul), UID 0, total-vm:7296kB, anon-rss:96kB, file-rss:164kB, shmem-rss:0kB",
        "Killed process 202 (sglang::schedul) total-vm:7296kB, anon-rss:96kB, file-rss:164kB",
    ],
)
def test_kernels_of_before(killed: str) -> None:
    assert [one[:2] for one in heard(killed)] == [("oom_killer", "TP1")]


def test_errors_of_the_driver() -> None:
    assert heard(
        "NVRM: Xid (PCI:0000:41:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:C1:00): 31, pid=202, name=sglang::schedul, Ch 00000008, intr 00000000. MMU Fault",
        "NVRM: Xid (PCI:0000:c1:00): 94, pid=777, name=other, Contained: CE User Channel",
        living=(777,),
    ) == [
        ("gpu_error", None, {"xid": 79, "pci_address": "0000:41:00"}, 5.0),
        ("gpu_error", "TP1", {"xid": 31, "pci_address": "0000:c1:00", "pid": 202}, 5.0),
    ]


def test_other_lines_mean_nothing() -> None:
    assert heard("usb 1-1: new device", "NVRM: loading NVIDIA UNIX x86_64 Kernel Module", "oom_reaper: reaped") == []


def test_kernel_is_read_once_since_the_start_and_then_on(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    node.ranks()
    node.say("hello")
    node.kernel(KILLED.format(pid=202))
    first = node.look()
    assert [event["label"] for event in first["events"]] == ["oom_killer"]
    assert [word for word in node.streams[-1] if word.startswith("--since")] == ["--since=@1795961899.000000"]
    node.streams.clear()
    node.kernel(KILLED.format(pid=201))
    second = node.look(cursor=first["cursor"])
    # The journal of the unit carries the kernel's from now on, whose record lies behind the last one of the unit.
    assert [(event["label"], event["rank"]) for event in second["events"]] == [("oom_killer", "TP0")]
    assert len(node.streams) == 1
    assert node.look(cursor=second["cursor"])["events"] == []
