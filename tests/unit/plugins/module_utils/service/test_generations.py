# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.service.generations import (
    Generation,
    checked_digest,
    read_kept,
    to_go_back_to,
    unused_folders,
    with_proven,
    written,
)

A, B, C = (Generation(letter * 64, f"{letter}-1") for letter in "abc")
A_AGAIN = Generation(A.digest, "a-2")


@pytest.mark.parametrize(
    ("before", "proven", "after"),
    [
        ((), A, (A,)),
        ((A,), B, (B, A)),
        ((B, A), C, (C, B)),
        ((B, A), A, (A, B)),
        ((A, B), A, (A, B)),
        ((B, A), A_AGAIN, (A_AGAIN, B)),
    ],
)
def test_the_last_proven_comes_first_and_the_oldest_goes(
    before: tuple[Generation, ...], proven: Generation, after: tuple[Generation, ...]
) -> None:
    assert with_proven(before, proven, 2) == after


def test_one_is_always_kept() -> None:
    assert with_proven((A, B), C, 1) == (C,)
    with pytest.raises(Refusal, match="0 generations"):
        with_proven((), A, 0)


@pytest.mark.parametrize(
    ("kept", "left", "back"), [((A, B), A, B), ((A, B), C, A), ((A, B), None, A), ((A,), B, A), ((A, B), B, A)]
)
def test_back_is_what_was_proven_last_but_for_what_is_left(
    kept: tuple[Generation, ...], left: Generation | None, back: Generation
) -> None:
    assert to_go_back_to(kept, left.digest if left else None) == back


@pytest.mark.parametrize(("kept", "left"), [((), None), ((), A.digest), ((A,), A.digest)])
def test_without_another_there_is_no_way_back(kept: tuple[Generation, ...], left: str | None) -> None:
    with pytest.raises(Refusal) as refused:
        to_go_back_to(kept, left)
    assert refused.value.code == "nothing_to_go_back_to"
    assert refused.value.evidence == {"kept": [one.digest for one in kept], "left": left}


def test_the_record_is_read_as_it_was_written() -> None:
    assert read_kept(written((A, B))) == (A, B)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"schema": 2, "generations": []}', '{"schema": 1}', '{"schema": 1, "generations": [1]}']
)
def test_a_record_that_cannot_be_read_keeps_nothing(text: str) -> None:
    assert read_kept(text) == ()


def test_folders_of_let_go_and_interrupted_generations_are_unused() -> None:
    assert unused_folders((A, C), [A.folder, B.folder, C.folder, "a-half"]) == ("a-half", B.folder)


@pytest.mark.parametrize("digest", ["", "abc", "../../etc/passwd/abc", "A" * 64, "g" * 64, "a" * 64 + "\n"])
def test_only_a_digest_names_a_generation(digest: str) -> None:
    with pytest.raises(Refusal, match="digest"):
        checked_digest(digest)
