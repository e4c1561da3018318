# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import (
    one_line,
    plain_lines,
    without_controls,
)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("PowerEdge  R750 ", "PowerEdge R750"),
        ("\x1b[31mR750\x07\0", "[31mR750"),
        ("R750\r\nFAKE: line\u2028more", "R750 FAKE: line more"),
        ("\u202eR750\ud800", "R750"),
        ("", ""),
    ],
)
def test_one_line_that_a_terminal_may_show(text: str, line: str) -> None:
    assert one_line(text) == line


def test_a_line_is_no_longer_than_its_limit() -> None:
    assert one_line("abc def", 4) == "abc"
    assert len(one_line("x" * 5000, 256)) == 256


def test_what_cannot_be_shown_becomes_a_blank_in_its_place() -> None:
    assert without_controls("a\x1b  b") == "a   b"
    assert without_controls("a  b") == "a  b"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("\x1b[31mred\x1b[0m\tone\ntwo", "red\tone\ntwo"),
        ("a\x1b]0;title\x07b \x1b]8;;http://x\x1b\\link", "ab link"),
        ("\x1b[2K\x1b[?25l\x1b(B\x1bc\x9b31mx\x08\x07", "x"),
        ("one\u2028two \u202ethree\x85\ud800", "onetwo three"),
        ("é 日本 {{ x }}", "é 日本 {{ x }}"),
    ],
)
def test_lines_of_a_log_hold_nothing_that_a_terminal_obeys(text: str, lines: str) -> None:
    assert plain_lines(text) == lines
