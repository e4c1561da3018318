# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import socket
import subprocess
import sys

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.owner import (
    Holder,
    find_holders,
    judge_owner,
)


def test_listener_of_this_process_is_found_by_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        holders = find_holders(port, "127.0.0.1")
        assert [one.pid for one in holders] == [os.getpid()]
        assert os.getppid() in holders[0].ancestors
        assert find_holders(port, "127.0.0.2") == []
        assert [one.pid for one in find_holders(port, "localhost")] == [os.getpid()]
        assert judge_owner(holders, os.getpid(), port).ok is True
        # A worker that the main process has started.
        assert judge_owner(holders, os.getppid(), port).ok is True
    assert find_holders(port, "127.0.0.1") == []


def test_worker_that_inherits_the_socket_belongs_to_its_parent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = "import sys; sys.stdin.read()"
        with subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, pass_fds=[server.fileno()]
        ) as worker:
            holders = find_holders(server.getsockname()[1], "127.0.0.1")
            assert {one.pid for one in holders} == {os.getpid(), worker.pid}
            worker.communicate(b"")


def test_another_process_is_named() -> None:
    check = judge_owner([Holder(41, "nginx", (1,))], 40, 30000)
    assert check.ok is False and check.code == "listener_is_another"
    assert "Process 41 (nginx) listens on port 30000, and process 40 was started for it" in check.problem


def test_what_is_not_seen_is_not_judged() -> None:
    assert judge_owner([], 40, 30000).ok is None
