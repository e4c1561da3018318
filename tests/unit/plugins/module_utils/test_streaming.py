# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.sglang.plugins.module_utils.streaming import stream_command

RunCommand = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run_command() -> RunCommand:
    with patch_module_args({}):
        command: RunCommand = AnsibleModule(argument_spec={}).run_command
    return command


def test_command_is_fed_line_by_line_to_its_end(run_command: RunCommand) -> None:
    lines: list[str] = []

    def take(line: str) -> bool:
        lines.append(line)
        return True

    code, errors = stream_command(
        run_command,
        [sys.executable, "-c", "import sys; print('a\\nb'); print('e', file=sys.stderr); sys.exit(3)"],
        take,
    )
    assert (code, errors, lines) == (3, "e\n", ["a\n", "b\n"])


def test_command_is_ended_when_enough_was_read(run_command: RunCommand) -> None:
    lines: list[str] = []

    def take(line: str) -> bool:
        lines.append(line)
        return len(lines) < 2

    code, _unused = stream_command(run_command, [sys.executable, "-c", "while True: print('x', flush=True)"], take)
    assert (code, len(lines)) == (0, 2)
