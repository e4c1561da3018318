# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import sys

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.sglang.plugins.module_utils.commands import NOT_FOUND
from ansible_collections.gpufleet.sglang.plugins.module_utils.streaming import LONGEST_LINE_BYTES, Child, LineBuffer


def child_of(command: list[str]) -> Child:
    with patch_module_args({}):
        return Child(AnsibleModule(argument_spec={}).run_command, command)


def python(code: str) -> Child:
    return child_of([sys.executable, "-u", "-c", code])


def read_all(child: Child) -> list[bytes]:
    lines: list[bytes] = []
    while not child.ended:
        lines += child.read(10)
    return lines


def test_command_is_read_to_its_end() -> None:
    child = python("import sys; print('a\\nb'); print('e', file=sys.stderr); sys.exit(3)")
    assert read_all(child) == [b"a", b"b"]
    assert child.close() == (3, "e\n")


def test_lines_come_while_the_command_runs_and_it_is_ended_in_the_end() -> None:
    child = python("import time; print('x', flush=True); time.sleep(1000)")
    lines: list[bytes] = []
    while not lines:
        lines = child.read(10)
    assert (lines, child.ended, child.read(0)) == ([b"x"], False, [])
    assert child.close() == (0, "")


def test_command_that_fills_its_stderr_is_not_stopped_by_it() -> None:
    child = python("import sys; sys.stderr.write('e' * 1000000); print('done')")
    assert read_all(child) == [b"done"]
    assert child.close()[0] == 0


def test_command_that_is_not_there() -> None:
    child = child_of(["/nonexistent/journalctl"])
    assert (child.ended, child.read(10)) == (True, [])
    code, errors = child.close()
    assert code == NOT_FOUND
    assert "No such file" in errors


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_lines_are_put_together_whatever_the_parts(size: int) -> None:
    data = b"one\n\ntwo\nthree"
    buffer = LineBuffer()
    found = [line for start in range(0, len(data), size) for line in buffer.feed(data[start : start + size])]
    assert found == [b"one", b"", b"two"]


def test_line_that_is_too_long_is_dropped_whole() -> None:
    buffer = LineBuffer()
    assert buffer.feed(b"one\n" + b"x" * (LONGEST_LINE_BYTES + 1)) == [b"one"]
    assert buffer.feed(b"x" * 10) == []
    assert buffer.feed(b"end\ntwo\n") == [b"two"]
