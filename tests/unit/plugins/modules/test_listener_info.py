# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils import listeners

TABLE = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:7530 00000000:0000 0A 00000000:00000000 00:00000000 00000000   998        0 40011 1 0
   1: 0100007F:761C 00000000:0000 0A 00000000:00000000 00:00000000 00000000   998        0 40012 1 0
   2: 0200000A:761D 00000000:0000 0A 00000000:00000000 00:00000000 00000000   998        0 40013 1 0
"""


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp").write_text(TABLE)
    monkeypatch.setattr(listeners, "PROC", tmp_path)
    return tmp_path


def wanted(first: int, last: int, address: str = "127.0.0.1") -> dict[str, object]:
    return {"first": first, "last": last, "address": address}


def test_each_range_is_looked_at_under_its_own_address(proc: Path) -> None:
    assert proc.is_dir()
    found = listeners.find_listeners([wanted(30000, 30000, "10.0.0.2"), wanted(30234, 30239)])
    # The first is bound to another address, the last one of the range as well.
    assert [(one.port, one.address) for one in found] == [(30236, "127.0.0.1")]


def test_ranges_that_overlap_name_a_socket_once(proc: Path) -> None:
    assert proc.is_dir()
    found = listeners.find_listeners([wanted(30000, 30300), wanted(30236, 30236)])
    assert [one.port for one in found] == [30000, 30236]
