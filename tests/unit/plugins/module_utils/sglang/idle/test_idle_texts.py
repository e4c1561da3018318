# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.texts import (
    boot_time,
    container_of,
    mapped_files,
    shared_segments,
    slice_path,
    unaccounted_bytes,
    user_id,
)

ID = "4f1f5a3c7f6e1b6e0c6c3a5d0f5c8e2d7f3b1a9c0e4d6f8a2b4c6e8f0a1b2c3d"
# The kernel's columns (ipc/shm.c: sysvipc_shm_proc_show), without its padding.
SEGMENTS = """\
key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime rss swap
0 32769 600 209715200 101 101 0 0 0 0 0 1795973106 1795973106 1795973106 104857600 0
1234567 32770 600 419430400 102 103 2 1000 1000 1000 1000 1795973106 0 1795973106 419430400 0
"""


@pytest.mark.parametrize(
    ("cgroup", "container"),
    {
        "none": ("0::/system.slice/sglang-main.service\n", None),
        "docker under systemd": (f"0::/system.slice/docker-{ID}.scope\n", ID[:12]),
        "docker with cgroupfs": (f"12:memory:/docker/{ID}\n0::/docker/{ID}\n", ID[:12]),
        "podman": (f"0::/machine.slice/libpod-{ID}.scope/container\n", ID[:12]),
        "kubernetes": (f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope\n", ID[:12]),
        "nspawn": ("0::/machine.slice/machine-box.scope\n", "box"),
        "lxc": ("0::/lxc.payload.inference/system.slice/x.service\n", "inference"),
        "a unit with a hash that is too short": ("0::/system.slice/run-u12.service\n", None),
    }.values(),
)
def test_container_is_told_by_the_control_group(cgroup: str, container: str | None) -> None:
    assert container_of(cgroup) == container


def test_segments_say_what_lies_in_memory_and_who_has_them_attached() -> None:
    table = SEGMENTS
    large, small = shared_segments(table, {0: "root", 1000: "ana"})
    assert (large.id, large.bytes, large.attached, large.user) == (32770, 419430400, 2, "ana")
    assert (small.id, small.bytes, small.size_bytes, small.attached) == (32769, 104857600, 209715200, 0)
    assert (small.creator_pid, small.user) == (101, "root")


@pytest.mark.parametrize(
    "table", ["", "no table", SEGMENTS.splitlines()[0], "a b\n1 2\n", SEGMENTS.replace("32769", "x")]
)
def test_a_table_that_is_none_has_no_segments(table: str) -> None:
    assert 32769 not in [segment.id for segment in shared_segments(table, {})]


def test_mapped_files_are_known_by_device_and_inode() -> None:
    maps = (
        "7f0000000000-7f0000001000 rw-s 00000000 00:1b 77                         /dev/shm/psm_1\n"
        "7f0000001000-7f0000002000 rw-p 00000000 00:00 0 \n"
        "7f0000002000-7f0000003000 rw-s 00000000 00:01 5                          /memfd:x (deleted)\n"
        "7f0000003000-7f0000004000 r-xp 00000000 fe:01 9                          /usr/lib/libc.so.6\n"
    )
    assert mapped_files(maps) == {(0, 0x1B, 77), (0, 1, 5), (0xFE, 1, 9)}


def test_what_no_counter_names_is_what_is_left_of_the_whole() -> None:
    memory = {"MemTotal": 100, "MemFree": 20, "Cached": 30, "AnonPages": 10, "Slab": 5, "Hugetlb": 5}
    assert unaccounted_bytes(memory) == 30
    assert unaccounted_bytes({**memory, "MemFree": 90}) == 0
    assert unaccounted_bytes({"MemTotal": 100, "MemFree": 20}) is None


def test_small_texts() -> None:
    assert user_id("Name:\tx\nUid:\t1000\t1000\t1000\t1000\n") == 1000
    assert user_id("Name:\tx\n") is None
    assert boot_time("cpu  1 2 3\nbtime 1795973106\n") == 1795973106.0
    assert boot_time("") is None
    assert slice_path("system.slice") == "system.slice"
    assert slice_path("a-b.slice") == "a.slice/a-b.slice"
    assert slice_path("-.slice") == ""
