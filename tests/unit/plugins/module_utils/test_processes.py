# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import (
    RankReading,
    cgroup_procs_paths,
    environment_value,
    exit_code,
    parse_cgroup_procs,
    parse_io,
    parse_stat,
    parse_status,
    reading_from_dict,
    title_of,
)

TAIL = " ".join(str(number) for number in range(4, 51))  # fields 4 to 50 of proc(5)


def stat(command: str = "sglang::schedul", state: str = "S", status: int = 0) -> str:
    return f"4242 ({command}) {state} {TAIL} 51 {status}\n"


def test_stat_of_a_living_process() -> None:
    found = parse_stat(stat())
    assert found is not None
    assert (found.pid, found.command, found.state, found.parent) == (4242, "sglang::schedul", "S", 4)
    assert (found.start_ticks, found.exit_status) == (22, None)


def test_command_may_hold_brackets_and_spaces() -> None:
    found = parse_stat(stat("a) R (b c"))
    assert found is not None
    assert (found.command, found.state, found.start_ticks) == ("a) R (b c", "S", 22)


def test_zombie_tells_its_end() -> None:
    found = parse_stat(stat(state="Z", status=9))
    assert found is not None and found.exit_status == 9
    assert exit_code(9) == -9
    assert exit_code(1 << 8) == 1


@pytest.mark.parametrize("text", ["", "4242", "4242 (x", "4242 (x) S 1", "x (y) S 1 2"])
def test_stat_that_cannot_be_read(text: str) -> None:
    assert parse_stat(text) is None


def test_status() -> None:
    text = "Name:\tpython\nVmRSS:\t 1270732 kB\nRssAnon:\t  714688 kB\nRssShmem:\t  400004 kB\nThreads:\t9\n"
    found = parse_status(text)
    assert (found["RssShmem"], found["RssAnon"]) == (409_604_096, 731_840_512)
    assert "Threads" not in found


def test_io() -> None:
    assert parse_io("rchar: 220131411\nwchar: 12\n") == 220_131_411
    assert parse_io("") is None


def test_cgroup() -> None:
    assert parse_cgroup_procs("11\n12\n\n") == [11, 12]
    assert cgroup_procs_paths("/system.slice/a.service")[0] == "sys/fs/cgroup/system.slice/a.service/cgroup.procs"


def test_title_is_freed_of_its_padding() -> None:
    assert title_of(b"sglang::scheduler_TP0\0\0\0\0") == "sglang::scheduler_TP0"
    assert title_of(b"python\0-m\0sglang.launch_server\0") == "python -m sglang.launch_server"


def test_environment() -> None:
    environ = b"HOME=/var/lib\0XGPUFLEET_GENERATION=wrong\0GPUFLEET_GENERATION=abc=1\0"
    assert environment_value(environ, "GPUFLEET_GENERATION") == "abc=1"
    assert environment_value(environ, "NONE") is None


def test_meter_chooses_the_reading() -> None:
    one = RankReading("TP0", 7, True, shmem_bytes=1, anon_bytes=2, hugetlb_bytes=3)
    assert [one.pinned_bytes(meter) for meter in ("shmem", "anon", "hugetlb", "available")] == [1, 2, 3, None]


def test_reading_survives_the_wire() -> None:
    one = RankReading("TP0", 7, False, 22, "Z", 1, 2, 3, -9)
    assert reading_from_dict(one.as_dict("shmem")) == one
