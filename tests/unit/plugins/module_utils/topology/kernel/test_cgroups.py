# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.cgroups import (
    held_bytes,
    parse_cpu_max,
    read_limits,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.topology.trees import GIB, write

V2 = "sys/fs/cgroup"
V1 = {
    "proc/mounts": "\n".join(
        f"cgroup /sys/fs/cgroup/{folder} cgroup rw,{folder} 0 0" for folder in ("cpu", "cpuset", "memory")
    ),
    "sys/fs/cgroup/cpu/tasks": "",
    "sys/fs/cgroup/cpuset/tasks": "",
    "sys/fs/cgroup/memory/tasks": "",
}


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({f"{V2}/memory.max": "8589934592"}, 8 * GIB),
        ({f"{V2}/memory.max": "max"}, None),
        ({f"{V2}/memory.max": "-1"}, None),
        ({f"{V2}/memory.max": "max", f"{V2}/system.slice/memory.high": "4294967296"}, 4 * GIB),
        (
            {
                "proc/self/cgroup": "0::/machine.slice/box.scope",
                f"{V2}/machine.slice/memory.max": "2147483648",
                f"{V2}/machine.slice/box.scope/memory.max": "3221225472",
            },
            2 * GIB,
        ),
        # A session's limit is not a service's.
        (
            {
                "proc/self/cgroup": "0::/user.slice/user-0.slice/session-1.scope",
                f"{V2}/user.slice/memory.max": "1073741824",
            },
            None,
        ),
        # Nor is that of the service which this runs in.
        (
            {
                "proc/self/cgroup": "0::/system.slice/ansible-pull.service",
                f"{V2}/system.slice/ansible-pull.service/memory.max": "1073741824",
                f"{V2}/system.slice/memory.max": "2147483648",
            },
            2 * GIB,
        ),
        ({f"{V2}/memory/memory.limit_in_bytes": "9223372036854771712"}, None),
        (
            {
                "proc/self/cgroup": "5:cpuset:/x\n4:memory:/docker/abc\n",
                f"{V2}/memory/memory.limit_in_bytes": "9223372036854771712",
                f"{V2}/memory/docker/abc/memory.limit_in_bytes": "1073741824",
            },
            GIB,
        ),
        ({}, None),
    ],
)
def test_memory_limit_of_control_groups(tmp_path: Path, files: dict[str, str], limit: int | None) -> None:
    assert read_limits(write(tmp_path, files)).memory_limit_bytes == limit


def test_what_limits_leave_is_the_least_of_all(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            f"{V2}/cgroup.controllers": "memory",
            f"{V2}/system.slice/memory.max": "1000",
            f"{V2}/system.slice/memory.current": "300",
            f"{V2}/system.slice/memory.stat": "anon 100\ninactive_file 150\nactive_file 40\nslab_reclaimable 10\n",
            # Wider, but used up by others.
            f"{V2}/memory.max": "2000",
            f"{V2}/memory.current": "1900",
        },
    )
    limits = read_limits(root)
    assert (limits.memory_limit_bytes, limits.memory_available_bytes) == (1000, 100)
    write(root, {f"{V2}/memory.current": "200"})
    assert read_limits(root).memory_available_bytes == 900


def test_what_cannot_be_read_of_the_use_counts_as_none(tmp_path: Path) -> None:
    assert held_bytes(None, None, 2) == 0
    assert held_bytes("100", "inactive_file many\nbroken", 2) == 100
    assert held_bytes("100", "inactive_file 150", 2) == 0
    assert held_bytes("100", "total_inactive_file 30\ninactive_file 60", 1) == 70


@pytest.mark.parametrize(
    ("text", "quota"),
    [
        ("400000 100000", 4.0),
        ("50000 100000", 0.5),
        ("max 100000", None),
        ("-1 100000", None),
        ("400000", 4.0),
        ("400000 0", None),
        ("0 100000", None),
        ("", None),
        (None, None),
    ],
)
def test_cpu_max(text: str | None, quota: float | None) -> None:
    assert parse_cpu_max(text) == quota


def test_the_smallest_quota_on_the_way_down_counts(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/box.slice/box.scope",
        f"{V2}/cgroup.controllers": "cpu",
        f"{V2}/box.slice/cpu.max": "150000 100000",
        f"{V2}/box.slice/box.scope/cpu.max": "max 100000",
        f"{V2}/system.slice/cpu.max": "800000 100000",
    }
    assert read_limits(write(tmp_path, files)).cpu_quota == 1.5


def test_quota_of_version_1(tmp_path: Path) -> None:
    files = {
        **V1,
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
        "sys/fs/cgroup/cpu/system.slice/cpu.cfs_quota_us": "25000",
        "sys/fs/cgroup/cpu/system.slice/cpu.cfs_period_us": "50000",
    }
    limits = read_limits(write(tmp_path, files))
    assert (limits.version, limits.cpu_quota) == (1, 0.5)


def test_what_is_effective_of_a_cpuset_counts_at_the_group_closest_to_services(tmp_path: Path) -> None:
    files = {
        f"{V2}/cgroup.controllers": "cpuset",
        f"{V2}/cpuset.cpus.effective": "0-15",
        f"{V2}/cpuset.mems.effective": "0-1",
        # The setting alone may name what the groups above do not allow.
        f"{V2}/system.slice/cpuset.cpus": "0-63",
        f"{V2}/system.slice/cpuset.cpus.effective": "8-15",
    }
    limits = read_limits(write(tmp_path, files))
    assert (limits.version, limits.cpus, limits.memory_nodes) == (2, tuple(range(8, 16)), (0, 1))


def test_a_container_has_what_its_groups_and_the_slice_allow(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/box.scope",
        f"{V2}/cgroup.controllers": "cpuset",
        f"{V2}/cpuset.cpus.effective": "0-15",
        f"{V2}/system.slice/cpuset.cpus.effective": "0-7",
        f"{V2}/box.scope/cpuset.cpus.effective": "4-11",
    }
    assert read_limits(write(tmp_path, files)).cpus == (4, 5, 6, 7)
    write(tmp_path, {f"{V2}/box.scope/cpuset.cpus.effective": "12-15"})
    assert read_limits(tmp_path).cpus == tuple(range(8))


@pytest.mark.parametrize(
    ("mount", "prefix"),
    [
        ("cgroup /mnt/set cgroup rw,cpuset 0 0", "cpuset."),
        ("none /mnt/set cgroup rw,cpuset,noprefix 0 0", ""),
        ("none /mnt/set cpuset rw 0 0", ""),
    ],
)
def test_cpusets_of_old(tmp_path: Path, mount: str, prefix: str) -> None:
    files = {
        "proc/mounts": mount,
        "proc/self/cpuset": "/job",
        f"mnt/set/{prefix}cpus": "0-15",
        f"mnt/set/{prefix}mems": "0-1",
        f"mnt/set/job/{prefix}cpus": "0-7",
        f"mnt/set/job/{prefix}mems": "1",
    }
    limits = read_limits(write(tmp_path, files))
    assert (limits.version, limits.cpus, limits.memory_nodes) == (1, tuple(range(8)), (1,))
    write(tmp_path, {f"mnt/set/job/{prefix}effective_cpus": "0-3"})
    assert read_limits(tmp_path).cpus == (0, 1, 2, 3)


def test_no_groups_no_limits(tmp_path: Path) -> None:
    limits = read_limits(tmp_path)
    assert {limits.version, limits.memory_limit_bytes, limits.cpus, limits.memory_nodes, limits.cpu_quota} == {None}


def test_a_path_without_end_is_not_followed(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::" + "/deep" * 100_000, f"{V2}/memory.max": "1000"}
    assert read_limits(write(tmp_path, files)).memory_limit_bytes == 1000
