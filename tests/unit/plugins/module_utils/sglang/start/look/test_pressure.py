# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.control_group import (
    read_control_group,
    read_cpu_seconds,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.pressure import (
    parse_large_free,
    parse_pressure,
    read_host,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import (
    CgroupReading,
    HostReading,
    NumaReading,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.start.look.fake_node import (
    GROUP,
    FakeNode,
)

GIB = 1 << 30
BUDDY = """Node 0, zone      DMA      0      0      0      0      0      0      0      0      1      1      3
Node 0, zone   Normal   2519    797    128     89    843   6886   5604   2811   1171    568   1920
Node 1, zone   Normal   2519    797    128     89    843   6886   5604   2811   1171      0      0
"""


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


def test_pressure_is_that_of_the_last_ten_seconds() -> None:
    text = "some avg10=1.25 avg60=0.50 avg300=0.00 total=7\nfull avg10=0.75 avg60=0.10 avg300=0.00 total=3\n"
    assert parse_pressure(text) == {"some": 1.25, "full": 0.75}
    assert parse_pressure("") == {}


def test_large_blocks_are_those_of_two_mebibytes_and_more() -> None:
    two, four = 2 << 20, 4 << 20
    assert parse_large_free(BUDDY, 4096) == {0: (1 + 568) * two + (3 + 1920) * four, 1: 0}


def test_memory_of_the_machine(node: FakeNode) -> None:
    node.write("proc/meminfo", "MemAvailable: 100 kB\nShmem: 7 kB\nSwapTotal: 50 kB\nSwapFree: 20 kB\n")
    node.write("proc/pressure/memory", "some avg10=1.25 avg60=0 avg300=0 total=7\n")
    node.write("proc/pressure/io", "some avg10=9.00 avg60=0 avg300=0 total=7\nfull avg10=3.00 avg60=0 total=3\n")
    node.write("proc/buddyinfo", BUDDY)
    for number, free in ((0, 10), (1, 20), (10, 5)):
        folder = f"sys/devices/system/node/node{number}"
        node.write(f"{folder}/meminfo", f"Node {number} MemTotal: 99 kB\nNode {number} MemFree: {free} kB\n")
    node.write("sys/devices/system/node/possible", "0-10\n")
    found = read_host(node.part, 4096)
    assert (found.memory_available_bytes, found.shmem_bytes, found.swap_used_bytes) == (102_400, 7168, 30_720)
    assert (found.memory_some_avg10, found.memory_full_avg10, found.io_full_avg10) == (1.25, None, 3.0)
    assert [(one.node, one.total_bytes, one.free_bytes) for one in found.numa_nodes] == [
        (0, 101_376, 10_240),
        (1, 101_376, 20_480),
        (10, 101_376, 5_120),
    ]
    assert [one.large_free_bytes is None for one in found.numa_nodes] == [False, False, True]


def test_what_is_not_told_is_unknown(node: FakeNode) -> None:
    (node.root / "proc/meminfo").unlink()
    assert read_host(node.part, 4096) == HostReading()
    node.write("sys/devices/system/node/node0/meminfo", "")
    assert read_host(node.part, 4096).numa_nodes == (NumaReading(0),)
    assert read_control_group(node.part, None) == CgroupReading()
    assert read_control_group(node.part, GROUP) == CgroupReading()
    assert read_cpu_seconds(node.part, GROUP, (), 100) is None


def test_group_of_version_2_with_the_tightest_limit_above_it(node: FakeNode) -> None:
    folder = f"sys/fs/cgroup{GROUP}"
    node.write(f"{folder}/memory.current", f"{3 * GIB}\n")
    node.write(f"{folder}/memory.max", "max\n")
    node.write(f"{folder}/memory.high", f"{9 * GIB}\n")
    node.write("sys/fs/cgroup/system.slice/memory.max", f"{8 * GIB}\n")
    node.write(f"{folder}/memory.stat", f"anon {GIB}\nfile 5\nshmem {2 * GIB}\n")
    node.write(f"{folder}/memory.events", "low 0\nhigh 4\nmax 0\noom 1\noom_kill 2\n")
    node.write(f"{folder}/cpu.stat", "usage_usec 2500000\nuser_usec 2000000\n")
    assert read_control_group(node.part, GROUP) == CgroupReading(3 * GIB, 8 * GIB, 2 * GIB, GIB, 2)
    assert read_cpu_seconds(node.part, GROUP, (), 100) == 2.5


def test_group_of_version_1(node: FakeNode) -> None:
    folder = f"sys/fs/cgroup/memory{GROUP}"
    node.write(f"{folder}/memory.usage_in_bytes", f"{3 * GIB}\n")
    node.write(f"{folder}/memory.limit_in_bytes", "9223372036854771712\n")
    node.write("sys/fs/cgroup/memory/system.slice/memory.limit_in_bytes", f"{8 * GIB}\n")
    node.write(f"{folder}/memory.stat", f"cache 5\nrss 1\nshmem 1\ntotal_rss {GIB}\ntotal_shmem {2 * GIB}\n")
    node.write(f"{folder}/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    node.write(f"sys/fs/cgroup/cpu,cpuacct{GROUP}/cpuacct.usage", "2500000000\n")
    assert read_control_group(node.part, GROUP) == CgroupReading(3 * GIB, 8 * GIB, 2 * GIB, GIB, 2)
    assert read_cpu_seconds(node.part, GROUP, (), 100) == 2.5


def test_cpu_time_of_the_processes_where_no_group_tells(node: FakeNode) -> None:
    for pid in (201, 202):
        fields = " ".join(str(number) for number in range(4, 51))
        node.write(f"proc/{pid}/stat", f"{pid} (a b) c) S {fields} 51 0\n")
    # Fields 14 and 15 of both.
    assert read_cpu_seconds(node.part, None, (201, 202, 203), 100) == 2 * (14 + 15) / 100
