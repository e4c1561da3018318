# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""One tolerated call."""

from collections.abc import Sequence
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.calls import (
    LACKING,
    anything,
    asker,
    bit_mask,
    counted,
    flag,
    lost_gpus,
    named,
    required,
    set_bits,
    text,
    whole,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.reading import Failure

Reply = dict[str, Any]


def calls(replies: dict[str, Reply]) -> tuple[Any, list[Failure], list[str]]:
    """Something to ask, its failures, and the names of what was asked."""
    asked: list[str] = []
    failures: list[Failure] = []

    def call(name: str, _arguments: Sequence[Any]) -> Reply:
        asked.append(name)
        return replies[name]

    return asker(call, failures), failures, asked


@pytest.mark.parametrize(
    ("words", "numbers"), [([0], ()), ([5], (0, 2)), ([0, 1], (64,)), ([1 << 63, 1 << 63], (63, 127))]
)
def test_bits_of_a_mask(words: list[int], numbers: tuple[int, ...]) -> None:
    assert set_bits(words) == numbers
    assert bit_mask(words) == numbers


@pytest.mark.parametrize(
    ("shape", "value", "known"),
    [
        (text, " Tesla T4 ", "Tesla T4"),
        (text, "", None),
        (whole(0, 9), 9, 9),
        (whole(0, 9, unknown=(32,)), 32, None),
        (named({1: "one"}), 1, "one"),
        (named({1: "one"}), 2, None),
        (flag, 1, True),
        (flag, 0, False),
        (counted, [7, 8], 2),
    ],
)
def test_shapes_take_what_a_driver_says(shape: Any, value: Any, known: Any) -> None:
    assert shape(value) == known


@pytest.mark.parametrize(
    ("shape", "value"),
    [
        (text, 7),
        (text, None),
        (whole(0, 9), 10),
        (whole(0, 9), -1),
        (whole(0, 9), True),
        (whole(0, 9), 1.0),
        (whole(0, 9), "1"),
        (named({}), -1),
        (flag, 2),
        (counted, 3),
        (bit_mask, 3),
        (bit_mask, [-1]),
        (bit_mask, [1 << 64]),
    ],
)
def test_shapes_refuse_what_no_driver_says(shape: Any, value: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        shape(value)
    ask, failures, _asked = calls({"nvmlA": {"value": value}})
    assert ask(shape, "nvmlA", gpu=3) is None
    assert [(failure.function, failure.gpu, failure.error) for failure in failures] == [("nvmlA", 3, "implausible")]


def test_a_number_that_has_to_be_there() -> None:
    with pytest.raises(TypeError):
        required(None, 0, 9)


def test_what_is_quiet_is_no_failure() -> None:
    ask, failures, _asked = calls({"nvmlA": {"error": "not_supported", "text": "Not Supported"}})
    assert ask(anything, "nvmlA", quiet=LACKING) is None
    assert failures == []
    assert ask(anything, "nvmlA") is None
    assert failures == [Failure("nvmlA", None, "not_supported", "Not Supported")]


def test_a_long_answer_is_shown_in_part() -> None:
    ask, failures, _asked = calls({"nvmlA": {"value": "x" * 1000}})
    ask(whole(0, 9), "nvmlA")
    assert len(failures[0].text) < 100


def test_older_forms_of_a_question_are_for_libraries_that_are_too_old() -> None:
    too_old: Reply = {"error": "argument_version_mismatch"}
    older = [("nvmlB", ()), ("nvmlC", ())]

    ask, failures, asked = calls({"nvmlA": too_old, "nvmlB": {"value": 7}})
    assert (ask(anything, "nvmlA", older=older), failures, asked) == (7, [], ["nvmlA", "nvmlB"])

    ask, failures, asked = calls({"nvmlA": {"error": "timeout"}})
    assert (ask(anything, "nvmlA", older=older), asked) == (None, ["nvmlA"])

    # Where all are too new the first is the one to name.
    ask, failures, asked = calls({name: {"error": "function_not_found"} for name in ("nvmlA", "nvmlB", "nvmlC")})
    assert (ask(anything, "nvmlA", older=older), asked) == (None, ["nvmlA", "nvmlB", "nvmlC"])
    assert [failure.function for failure in failures] == ["nvmlA"]


def test_a_lost_gpu_is_not_asked_again() -> None:
    ask, failures, asked = calls({"nvmlA": {"error": "gpu_is_lost"}, "nvmlB": {"value": 7}})
    assert ask(anything, "nvmlA", gpu=3) is None
    assert (ask(anything, "nvmlB", gpu=3), ask(anything, "nvmlB", gpu=2, peer=3), ask(anything, "nvmlB", gpu=2)) == (
        None,
        None,
        7,
    )
    assert (asked, len(failures)) == (["nvmlA", "nvmlB"], 1)


def test_a_pair_does_not_make_a_gpu_lost() -> None:
    ask, _failures, asked = calls({"nvmlA": {"error": "gpu_is_lost"}})
    ask(anything, "nvmlA", gpu=0, peer=1)
    ask(anything, "nvmlA", gpu=0, peer=2)
    assert asked == ["nvmlA", "nvmlA"]


def test_what_nobody_answers_any_more_is_no_further_failure() -> None:
    ask, failures, _asked = calls({"nvmlA": {"error": "gone"}})
    assert (ask(anything, "nvmlA", gpu=1), failures) == (None, [])


def lost(gpu: int, peer: int | None = None, error: str = "gpu_is_lost") -> Failure:
    return Failure("nvmlA", gpu, error, "", peer)


@pytest.mark.parametrize(
    ("failures", "gpus"),
    [
        ([], []),
        ([lost(2), lost(2)], [2]),
        ([lost(2, error="reset_required")], [2]),
        ([lost(2, error="timeout")], []),
        ([lost(0, 2), lost(1, 2), lost(2, 3)], [2]),
        ([lost(2), lost(0, 2)], [2]),
        # One pair does not tell which of the two, and pairs of several lost GPUs have none in common.
        ([lost(0, 1)], []),
        ([lost(0, 1), lost(2, 3)], []),
        ([lost(0), lost(0, 1), lost(1, 2), lost(1, 3)], [0, 1]),
        ([Failure("nvmlInit", None, "gpu_is_lost", "")], []),
    ],
)
def test_which_gpus_are_lost(failures: list[Failure], gpus: list[int]) -> None:
    assert sorted(lost_gpus(failures)) == gpus
