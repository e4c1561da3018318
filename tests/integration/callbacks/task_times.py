# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes down when the controller got the result of each task, and what it was."""

from __future__ import annotations

DOCUMENTATION = r"""
name: task_times
type: notification
short_description: Writes the time and the result of each task as lines of JSON
description:
  - For tests that measure when a play knows something. Each line has host, task, at (UNIX seconds), status and result.
requirements:
  - The environment variable TASK_TIMES_FILE names the file.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "task_times"
    CALLBACK_NEEDS_ENABLED = True

    def _write(self, status: str, result: Any) -> None:
        row = {
            "host": result.host.get_name(),
            "task": result.task.get_name(),
            "at": time.time(),
            "status": status,
            "result": result.result,
        }
        with Path(os.environ["TASK_TIMES_FILE"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, default=str) + "\n")

    def v2_runner_on_ok(self, result: Any) -> None:
        self._write("ok", result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._write("failed", result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._write("unreachable", result)
