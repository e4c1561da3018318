# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import Generation
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.same_text import judge_text


def said(text: str, cached: int = 511, ids: tuple[int, ...] = ()) -> Generation:
    return Generation(512, cached, 8, cached, 0, text, ids, "length", None, 0.1)


def judged(hit: str, again: Sequence[str]) -> tuple[bool | None, list[str], int]:
    asked: list[int] = []

    def ask() -> list[Generation]:
        asked.append(1)
        return [said(text) for text in again]

    found = judge_text(said("z", 0), [said("a"), said("a")], said(hit), ask, False, None)
    assert found.same == found.check.ok
    return found.same, [problem.code for problem in found.problems], len(asked)


def test_same_text_is_not_repeated() -> None:
    assert judged("a", []) == (True, [], 0)


def test_one_different_text_of_three_is_chance() -> None:
    assert judged("b", ["a", "a"]) == (True, ["text_varied"], 1)


@pytest.mark.parametrize("again", [["b", "b"], ["b", "c"]])
def test_same_other_text_again_is_what_was_loaded(again: list[str]) -> None:
    assert judged("b", again) == (False, [], 1)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"warm": ["a", "c"]}, "in more than one way"),
        ({"again": ["c", "d"]}, "differently each time"),
        # What is wrong in memory is wrong each time.
        ({"again": ["b", "a"]}, "the same text and others too"),
        ({"cold": "b"}, "computed anew"),
        ({"cached": 256}, "only 256 of 511 cached tokens came back"),
    ],
)
def test_texts_of_an_unsteady_server_prove_nothing(arguments: dict[str, Any], why: str) -> None:
    found = judge_text(
        said(arguments.get("cold", "z"), 0),
        [said(text) for text in arguments.get("warm", ["a", "a"])],
        said("b", arguments.get("cached", 511)),
        lambda: [said(text) for text in arguments.get("again", ["b", "b"])],
        False,
        None,
    )
    assert found.same is None and found.check.ok is None
    assert [problem.code for problem in found.problems] == ["text_unsteady"] and why in found.problems[0].message


def test_drafts_change_what_follows_the_first_token() -> None:
    def of(ids: tuple[int, ...]) -> Generation:
        return said(str(ids), ids=ids)

    def found(hit: tuple[int, ...], with_draft: bool) -> bool | None:
        return judge_text(of((9,)), [of((5, 6)), of((5, 6))], of(hit), lambda: [of(hit)] * 2, with_draft, None).same

    assert found((5, 7), with_draft=True) is None
    assert found((4, 6), with_draft=True) is False
    assert found((5, 7), with_draft=False) is False
