# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.anchors import anchors_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.grammar import (
    GRAMMAR,
    START_ROWS,
    grammar_is_read,
    grammar_of,
    grammar_read_as,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.rows import CONVERTERS


def test_every_group_of_a_row_has_a_meaning() -> None:
    """A name without one would become a text where a number is meant."""
    fields = {"size", "size2", "size3", "size4", "size5", "size6", "tokens", "seconds", "label"}
    words = {"architecture", "tree", "pool"}
    for row in START_ROWS:
        for name in row.pattern.groupindex:
            ending = name.rpartition("_")[2]
            assert name in fields | words or ending in {*CONVERTERS, "gb", "gib", "mib", "phases"}, (name, row.regex)


def test_rows_say_where_they_come_from() -> None:
    """But for those of uvicorn, which is no part of SGLang."""
    foreign = [row.regex for row in START_ROWS if row.source is None]
    assert len(foreign) == 3
    assert all("INFO:" in regex for regex in foreign)


@pytest.mark.parametrize(
    ("version", "is_read", "read_as"),
    [
        ("0.5.23", True, "0.5.23"),
        ("0.4.7", True, "0.4.7"),
        ("0.5.0rc2", True, "0.5.0rc2"),
        ("0.5.9.post1", False, "0.5.9"),
        ("0.5.0", False, "0.5.0rc2"),
        ("0.5.24", False, "0.5.23"),
        ("1.0.0", False, "0.5.23"),
        ("0.4.1", False, "0.4.7"),
    ],
)
def test_release_that_was_not_read_is_known_as_such(version: str, is_read: bool, read_as: str) -> None:
    assert (grammar_is_read(version), grammar_read_as(version)) == (is_read, read_as)


def test_newer_release_has_exactly_the_open_rows() -> None:
    rows = grammar_of("0.9.0").rows
    assert set(rows) == {row for row in GRAMMAR if row.until is None}
    assert set(rows) == set(grammar_of("0.5.23").rows)


def test_most_lines_have_no_candidates() -> None:
    grammar = grammar_of("0.5.23")
    noise = (
        "Decode batch, #running-req: 1, #token: 61, token usage: 0.00, cuda graph: True, gen throughput (token/s): 8.1",
        'INFO:     127.0.0.1:36800 - "POST /generate HTTP/1.1" 200 OK',
        "gpu-01:1234:1300 [0] NCCL INFO Channel 00/24 : 0 1 2 3 4 5 6 7",
    )
    assert [grammar.candidates(line) for line in noise] == [[], [], []]
    assert len(grammar.candidates("Memory pool end. avail mem=18.06 GB")) == 1


def test_candidates_leave_no_match_out() -> None:
    """Whatever a row matches, it is a candidate for: tried on lines made of the rows' own anchors."""
    grammar = grammar_of(None)
    lines = [anchor for row in GRAMMAR for anchor in anchors_of(row.regex)]
    for line in lines:
        matching = [row for row in grammar.rows if row.pattern.search(line)]
        assert set(matching) <= set(grammar.candidates(line))
