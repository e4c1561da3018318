# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.anchors import (
    SHORTEST,
    anchors_of,
    by_common_word,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.grammar import GRAMMAR


@pytest.mark.parametrize(
    ("pattern", "anchors"),
    [
        (r"Load weight begin\.", ("Load weight begin.",)),
        (r"Init (?:torch )?distributed", ("distributed",)),
        (r"CUDA out of memory|OutOfMemoryError: ", ("CUDA out of memory", "OutOfMemoryError: ")),
        (r"^(?P<label>(?:\w+\.)*\w+(?:Error|Exception))(?:: .*)?$", ("Error", "Exception")),
        (r"abcdefg?", ("abcdef",)),
        (r"abcdefg+h", ("abcdefg",)),
        (r"abcdefg??hijklmn", ("hijklmn",)),
        (r"map={abcde", ("abcde",)),
        (r"[]abcd]efghi", ("efghi",)),
        (r"[^]abcd]efghi", ("efghi",)),
        (r"[\]abcd]efghi", ("efghi",)),
        (r"abcdef{0,2}gh", ("abcde",)),
        (r"[abc(]defgh\d+ijklmno", ("ijklmno",)),
        (r"(?=lookahead)abcd", ("abcd",)),
        (r"(?:a|b)c", ()),
        (r"\d+ tokens|\d+", ()),
        (r"(?i)Load weight begin", ()),
        (r"", ()),
    ],
)
def test_anchors_of_a_pattern(pattern: str, anchors: tuple[str, ...]) -> None:
    assert anchors_of(pattern) == anchors


def test_rows_have_anchors_that_a_match_holds() -> None:
    without = [row.regex for row in GRAMMAR if not anchors_of(row.regex)]
    # Each of these is tried on every line.
    assert len(without) <= len(GRAMMAR) // 20, without
    assert min(len(anchor) for row in GRAMMAR for anchor in anchors_of(row.regex)) >= SHORTEST


def test_plain_text_is_its_own_anchor() -> None:
    for words in ("a line (with 100%) of [text]?", "back\\slash and {braces}", "x" * 50):
        assert anchors_of(re.escape(words)) == (words,)


def test_anchors_share_a_word_in_each_group() -> None:
    anchors = [anchor for row in GRAMMAR for anchor in anchors_of(row.regex)]
    groups = by_common_word(anchors)
    assert all(word in anchor for word, held in groups.items() for anchor in held)
    assert sorted(anchor for held in groups.values() for anchor in held) == sorted(set(anchors))
    print(f"{len(set(anchors))} anchors in {len(groups)} groups")
    assert len(groups) * 2 < len(set(anchors))
    assert by_common_word(["a-b", "a.b"]) == {"a-b": ("a-b",), "a.b": ("a.b",)}
