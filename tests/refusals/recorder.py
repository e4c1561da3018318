# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A plugin of pytest that notes every refusal and problem that the plugins state, and the test that it was stated in.

GPUFLEET_STATED: the file, a line of JSON each. What a test makes up itself does not count.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.findings import Finding
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import Check
from ansible_collections.gpufleet.sglang.plugins.plugin_utils.patient_call import GaveUp

STATED = "GPUFLEET_STATED"
_running = [""]
# Of one code a test may state thousands.
_noted: set[tuple[str, str]] = set()


def _note(made: Refusal | Problem | Finding | GaveUp | Check) -> None:
    # Two frames up: past the initialiser that stands in for the genuine one.
    stated_in = Path(sys._getframe(2).f_code.co_filename).parts
    if "plugins" not in stated_in or "tests" in stated_in or (made.code, _running[0]) in _noted:
        return
    # A check that holds says nothing.
    message = (made.problem if made.ok is False else "") if isinstance(made, Check) else made.message
    if not message:
        return
    _noted.add((made.code, _running[0]))
    line = {"code": made.code, "message": str(message), "remedy": str(made.remedy), "test": _running[0]}
    with Path(os.environ[STATED]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _watch(kind: type) -> None:
    genuine = vars(kind)["__init__"]

    @functools.wraps(genuine)
    def noting(self: Any, *arguments: Any, **named: Any) -> None:
        genuine(self, *arguments, **named)
        _note(self)

    pytest.MonkeyPatch().setattr(kind, "__init__", noting)


def pytest_configure() -> None:
    for kind in (Problem, Refusal, Finding, Check, GaveUp):
        _watch(kind)


def pytest_runtest_logstart(nodeid: str) -> None:
    _running[0] = nodeid
