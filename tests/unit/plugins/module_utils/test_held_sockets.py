# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.held_sockets import holders_of, text_of


def process(proc: Path, pid: int, *links: str) -> None:
    descriptors = proc / str(pid) / "fd"
    descriptors.mkdir(parents=True)
    for number, link in enumerate(links):
        (descriptors / str(number)).symlink_to(link)


def found(proc: Path, *inodes: int) -> list[tuple[int, int]]:
    return [(inode, int(folder.name)) for inode, folder in holders_of(proc, inodes)]


def test_every_process_that_holds_a_wanted_socket_is_told_by_number(tmp_path: Path) -> None:
    process(tmp_path, 1000, "socket:[7]", "socket:[7]", "socket:[8]")
    process(tmp_path, 99, "/dev/null", "pipe:[7]", "socket:[7]")
    process(tmp_path, 5, "socket:[9]")
    (tmp_path / "net").mkdir()
    assert found(tmp_path, 7, 8) == [(7, 99), (7, 1000), (8, 1000)]


def test_processes_that_may_not_be_seen_hold_nothing(tmp_path: Path) -> None:
    (tmp_path / "4").mkdir()
    (tmp_path / "5" / "fd").mkdir(parents=True)
    (tmp_path / "5" / "fd" / "0").write_text("no link")
    assert found(tmp_path, 7) == []


def test_without_a_wanted_socket_no_process_is_looked_at(tmp_path: Path) -> None:
    assert found(tmp_path / "missing") == []


def test_file_that_is_gone_is_empty(tmp_path: Path) -> None:
    (tmp_path / "comm").write_bytes(b"ngi\xffnx\n")
    assert (text_of(tmp_path / "comm"), text_of(tmp_path / "gone")) == ("ngi\ufffdnx\n", "")
