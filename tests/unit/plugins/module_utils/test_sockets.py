# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sockets import (
    Listener,
    in_the_way,
    listening,
    overlapping,
    socket_inode,
    unit_of,
)

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
V4 = HEADER + (
    "   0: 0100007F:7530 00000000:0000 0A 00000000:00000000 00:00000000 00000000   998        0 40011 1 0\n"
    "   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 40012 1 0\n"
    "   2: 0100007F:7530 0100007F:9C40 01 00000000:00000000 00:00000000 00000000   998        0 40013 1 0\n"
)
V6 = HEADER + (
    "   0: 00000000000000000000000001000000:7530 00000000000000000000000000000000:0000 0A "
    "00000000:00000000 00:00000000 00000000     0        0 50001 1 0\n"
)


def test_only_listening_sockets_of_the_port_count() -> None:
    assert list(listening(V4, 30000)) == [Listener(address="127.0.0.1", port=30000, inode=40011)]
    assert list(listening(V4, 40000)) == []


def test_a_range_of_ports_is_looked_at_as_one() -> None:
    assert [one.port for one in listening(V4, 29990, 30010)] == [30000]
    assert list(listening(V4, 30001, 30010)) == []


def test_ipv6_addresses_are_read_word_by_word() -> None:
    assert [one.address for one in listening(V6, 30000)] == ["::1"]


@pytest.mark.parametrize("text", ["", HEADER, HEADER + "garbage\n", HEADER + "0: x 0A\n"])
def test_a_table_with_nothing_to_read_holds_no_listener(text: str) -> None:
    assert list(listening(text, 22)) == []


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        ("0::/system.slice/sglang-main.service\n", "sglang-main.service"),
        ("0::/system.slice/sglang-main.service/worker\n", "sglang-main.service"),
        ("12:memory:/x\n1:name=systemd:/system.slice/nginx.service\n", "nginx.service"),
        ("12:memory:/other.service\n1:name=systemd:/user.slice\n", None),
        ("0::/user.slice/user-0.slice/session-3.scope\n", "session-3.scope"),
        ("", None),
    ],
)
def test_the_unit_is_read_from_any_cgroup_layout(cgroup: str, unit: str | None) -> None:
    assert unit_of(cgroup) == unit


@pytest.mark.parametrize(
    ("bound", "wanted", "blocks"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "0.0.0.0", True),
        ("0.0.0.0", "10.0.0.5", True),
        ("::", "10.0.0.5", True),
        ("127.0.0.1", "10.0.0.5", False),
    ],
)
def test_a_wildcard_on_either_side_blocks_a_bind(bound: str, wanted: str, blocks: bool) -> None:
    assert bool(overlapping([Listener(address=bound, port=1, inode=1)], wanted)) is blocks


def test_socket_links() -> None:
    assert socket_inode("socket:[4711]") == 4711
    assert socket_inode("/dev/null") is None


def test_of_all_listeners_those_on_a_range_are_in_the_way_each_once() -> None:
    found = [
        {"port": port, "address": address} for port, address in ((30000, "127.0.0.1"), (30001, "10.0.0.2"), (80, "::"))
    ]
    ranges: list[dict[str, Any]] = [
        {"first": 30000, "last": 30009, "address": "127.0.0.1"},
        {"first": 30000, "last": 30000},
    ]
    assert in_the_way(found, ranges) == [found[0]]
    assert in_the_way(found, [{"first": 1, "last": 65535, "address": "10.0.0.2"}]) == [found[1], found[2]]
