# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Edits of shared files, and taking them out again when others have edited them since."""

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning import fstab, sysctl_files
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.merge import take_out

FSTAB = (
    "# <file system>\nUUID=1 /  ext4 errors=remount-ro 0 1\nUUID=2 none swap sw 0 0\n/swap.img  none  swap  sw 0 0\n"
)


def test_lines_of_swap_become_comments_once() -> None:
    once = fstab.without_swap(FSTAB)
    assert fstab.swap_lines(FSTAB) == ["UUID=2", "/swap.img"]
    assert fstab.swap_lines(once) == []
    assert fstab.without_swap(once) == once
    assert once.replace(fstab.MARK, "") == FSTAB


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "tmpfs /dev/shm tmpfs nosuid,nodev,size=1048576k 0 0\n"),
        ("UUID=1 / ext4 x 0 1", "UUID=1 / ext4 x 0 1\ntmpfs /dev/shm tmpfs nosuid,nodev,size=1048576k 0 0\n"),
        ("tmpfs  /dev/shm\ttmpfs rw,size=64m 0 0\n", "tmpfs  /dev/shm\ttmpfs rw,size=1048576k 0 0\n"),
        ("none /dev/shm/ tmpfs nosuid\n", "none /dev/shm/ tmpfs nosuid,size=1048576k\n"),
        (
            "#tmpfs /dev/shm tmpfs x 0 0\n",
            "#tmpfs /dev/shm tmpfs x 0 0\ntmpfs /dev/shm tmpfs nosuid,nodev,size=1048576k 0 0\n",
        ),
    ],
)
def test_the_size_goes_into_the_line_that_is_there(before: str, after: str) -> None:
    assert fstab.with_shm_size(before, 1 << 30) == after
    assert fstab.with_shm_size(after, 1 << 30) == after


@pytest.mark.parametrize(
    ("current", "left"),
    [
        (fstab.without_swap(FSTAB), FSTAB),
        # Somebody added a line at the end, or in the midst of ours.
        (fstab.without_swap(FSTAB) + "nfs:/x /x nfs ro 0 0\n", FSTAB + "nfs:/x /x nfs ro 0 0\n"),
        ("# new head\n" + fstab.without_swap(FSTAB), "# new head\n" + FSTAB),
        # Somebody took the comment sign away again.
        (FSTAB, FSTAB),
        # Somebody changed the very line.
        (fstab.without_swap(FSTAB).replace("sw 0 0", "sw,pri=5 0 0"), None),
    ],
)
def test_only_our_part_is_taken_out(current: str, left: str | None) -> None:
    assert take_out(FSTAB, fstab.without_swap(FSTAB), current) == left


def test_a_line_of_ours_that_is_gone_is_no_conflict() -> None:
    ours = fstab.with_shm_size(FSTAB, 1 << 30)
    assert take_out(FSTAB, ours, FSTAB + "more\n") == FSTAB + "more\n"


@pytest.mark.parametrize(
    ("written", "name", "path"),
    [
        ("vm.swappiness", "vm.swappiness", "/proc/sys/vm/swappiness"),
        ("vm/swappiness", "vm.swappiness", "/proc/sys/vm/swappiness"),
        ("-net.core.somaxconn", "net.core.somaxconn", "/proc/sys/net/core/somaxconn"),
        ("net/ipv4/conf/enp3s0.200/forwarding", "net.ipv4.conf.enp3s0/200.forwarding", None),
    ],
)
def test_both_spellings_are_one_setting(written: str, name: str, path: str | None) -> None:
    assert sysctl_files.normal_name(written) == name
    assert path is None or sysctl_files.proc_path(name) == path


def test_dots_in_names_come_back_as_dots() -> None:
    assert (
        sysctl_files.proc_path("net.ipv4.conf.enp3s0/200.forwarding") == "/proc/sys/net/ipv4/conf/enp3s0.200/forwarding"
    )


def test_the_last_assignment_decides_and_ours_does_not_count() -> None:
    files = [
        ("/usr/lib/sysctl.d/50-a.conf", "vm.swappiness=60\n"),
        ("/etc/sysctl.d/70-b.conf", "# x\n; y\nvm.swappiness = 30\n-vm/max_map_count = 5\n"),
        (sysctl_files.OURS, "vm.swappiness=10\n"),
        ("/etc/sysctl.conf", "net.*.somaxconn=1\n"),
    ]
    found = sysctl_files.deciding("vm.swappiness", files)
    assert found is not None
    assert (found.value, found.place, found.by_person) == ("30", "/etc/sysctl.d/70-b.conf:3", True)
    assert sysctl_files.deciding("kernel.numa_balancing", files) is None
    pattern = sysctl_files.deciding("net.core.somaxconn", files)
    assert pattern is not None and pattern.place == "/etc/sysctl.conf:1"
