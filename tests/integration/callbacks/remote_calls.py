# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes down what a play asks of its nodes: tasks, and each call over ssh with its module and its bytes."""

from __future__ import annotations

DOCUMENTATION = r"""
name: remote_calls
type: notification
short_description: Writes each task and each call over ssh as lines of JSON
description:
  - For tests and benchmarks that count what a play costs. A line of a task has host, task and status; that of a call
    has host, call (exec, put or fetch), module (where one was piped) and bytes, which is what was sent with it.
requirements:
  - The environment variable REMOTE_CALLS_FILE names the file.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase
from ansible.plugins.connection import ssh

NAME = re.compile(rb"^module_fqn='([^']+)'", re.MULTILINE)


def _write(**row: Any) -> None:
    # One write of one line, since many workers append to the file at once.
    with Path(os.environ["REMOTE_CALLS_FILE"]).open("ab", buffering=0) as file:
        file.write(json.dumps(row).encode() + b"\n")


def _module_of(in_data: bytes | None) -> str | None:
    found = NAME.search(in_data or b"")
    if found is None:
        return None
    name = found[1].decode().replace("ansible.modules.", "ansible.builtin.")
    return name.replace("ansible_collections.", "").replace(".plugins.modules.", ".")


def count_calls(connection: type[ssh.Connection]) -> None:
    """Lets the real connection say what goes over it. Workers are forked from this process, and find it so."""
    execute, put, fetch = connection.exec_command, connection.put_file, connection.fetch_file

    def exec_command(self: Any, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> Any:
        sent = len(cmd) + len(in_data or b"")
        _write(host=self.get_option("host"), call="exec", module=_module_of(in_data), bytes=sent)
        return execute(self, cmd, in_data, sudoable)

    def put_file(self: Any, in_path: str, out_path: str) -> Any:
        _write(host=self.get_option("host"), call="put", module=None, bytes=Path(in_path).stat().st_size)
        return put(self, in_path, out_path)

    def fetch_file(self: Any, in_path: str, out_path: str) -> Any:
        _write(host=self.get_option("host"), call="fetch", module=None, bytes=0)
        return fetch(self, in_path, out_path)

    connection.exec_command, connection.put_file, connection.fetch_file = exec_command, put_file, fetch_file


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "remote_calls"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        count_calls(ssh.Connection)

    def _task(self, status: str, result: Any) -> None:
        _write(host=result.host.get_name(), task=result.task.get_name(), status=status)

    def v2_runner_on_ok(self, result: Any) -> None:
        self._task("changed" if result.result.get("changed") else "ok", result)

    def v2_runner_on_skipped(self, result: Any) -> None:
        self._task("skipped", result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._task("failed", result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._task("unreachable", result)
