# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.start.look.fake_node import (
    GROUP,
    FakeNode,
)

URL = "http://127.0.0.1:30000"
HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def listener(port: int, inode: int) -> str:
    state = "0A 00000000:00000000 00:00000000 00000000     0        0"
    return f"{HEADER}   0: 00000000:{port:04X} 00000000:0000 {state} {inode} 1\n"


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    found = FakeNode(tmp_path)
    found.write("proc/net/tcp", listener(30000, 4711))
    return found


def holds(node: FakeNode, pid: int, inode: int, name: str = "python3") -> None:
    node.write(f"proc/{pid}/comm", f"{name}\n")
    folder = node.root / f"proc/{pid}/fd"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "3").symlink_to(f"socket:[{inode}]")
    (folder / "4").symlink_to("/dev/null")


def test_port_is_held_by_the_unit(node: FakeNode) -> None:
    holds(node, 100, 4711)
    found = node.look(ready_url=URL)
    assert (found["listener_in_unit"], found["port_owner"]) == (True, None)


def test_port_is_held_by_another(node: FakeNode) -> None:
    holds(node, 7, 4711, "nginx")
    node.write("proc/7/cgroup", "0::/system.slice/nginx.service\n")
    found = node.look(ready_url=URL)
    assert found["listener_in_unit"] is False
    assert found["port_owner"] == {"pid": 7, "name": "nginx", "unit": "nginx.service"}


@pytest.mark.parametrize("name", ["conmon", "docker-proxy"])
def test_port_of_a_container_is_held_by_its_helper(node: FakeNode, name: str) -> None:
    holds(node, 7, 4711, name)
    found = node.look(ready_url=URL)
    assert (found["listener_in_unit"], found["port_owner"]) == (None, None)


def test_server_with_a_network_of_its_own(node: FakeNode) -> None:
    node.write("proc/net/tcp", HEADER)
    node.write("proc/100/net/tcp", listener(30000, 99))
    holds(node, 201, 99)
    node.write(f"sys/fs/cgroup{GROUP}/cgroup.procs", "100\n201\n")
    assert node.look(ready_url=URL)["listener_in_unit"] is True


@pytest.mark.parametrize("url", [URL.replace("30000", "30001"), "http://127.0.0.1", "http://[::1", None])
def test_nobody_listens_or_nobody_asks(node: FakeNode, url: str | None) -> None:
    holds(node, 7, 4711, "nginx")
    found = node.look(ready_url=url)
    assert (found["listener_in_unit"], found["port_owner"]) == (None, None)


def test_line_about_a_port_that_is_in_use_tells_who_holds_it(node: FakeNode) -> None:
    holds(node, 7, 4711, "nginx")
    node.write("proc/7/cgroup", "0::/system.slice/nginx.service\n")
    node.say("[2026-11-29 14:20:10] RuntimeError: HTTP at 30000 is not available in 30 seconds. This may be")
    values = [event["values"] for event in node.look()["events"] if event["label"] == "port_in_use"]
    assert values
    assert all(
        (one["owner_pid"], one["owner_command"], one["owner_unit"]) == (7, "nginx", "nginx.service") for one in values
    )
