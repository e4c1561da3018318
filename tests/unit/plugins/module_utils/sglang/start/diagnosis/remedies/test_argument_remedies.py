# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.diagnosis import diagnose
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.result import Diagnosis
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import FAILED, died, start

BEFORE = "launch_server.py: error: "


def found(line: str, version: str = "0.5.23") -> Diagnosis:
    return diagnose(died(line, unit=FAILED, state=start()), {"sglang_version": version})


@pytest.mark.parametrize(
    ("line", "version", "code", "values", "remedy"),
    [
        (
            "ambiguous option: --cuda-graph-max-bs could match --cuda-graph-max-bs-decode, --cuda-graph-max-bs-prefill",
            "0.5.20",
            "flag_ambiguous",
            {
                "flag": "cuda-graph-max-bs",
                "closest_flag": "cuda-graph-max-bs-decode",
                "candidates": ["cuda-graph-max-bs-decode", "cuda-graph-max-bs-prefill"],
            },
            "Write --cuda-graph-max-bs-decode",
        ),
        (
            "unrecognized arguments: --hicache-rato 2",
            "0.5.23",
            "flag_unknown",
            {"flag": "hicache-rato", "closest_flag": "hicache-ratio"},
            "Write --hicache-ratio instead.",
        ),
        (
            "unrecognized arguments: --attn-dp-size 2",
            "0.5.9",
            "flag_unknown",
            {"flag": "attn-dp-size"},
            "",
        ),
        (
            "unrecognized arguments: --zzzz",
            "0.5.23",
            "flag_unknown",
            {"flag": "zzzz"},
            "Leave --zzzz out.",
        ),
        (
            "argument --hicache-io-backend: invalid choice: 'kernal' (choose from 'direct', 'kernel', 'kernel_ascend')",
            "0.5.23",
            "flag_value_invalid",
            {
                "flag": "hicache-io-backend",
                "given": "kernal",
                "closest_value": "kernel",
                "choices": ["direct", "kernel", "kernel_ascend"],
            },
            "Set --hicache-io-backend to kernel.",
        ),
        (
            "argument --hicache-io-backend: invalid choice: 'cuda' (choose from direct, kernel)",
            "0.5.23",
            "flag_value_invalid",
            {"flag": "hicache-io-backend", "given": "cuda", "choices": ["direct", "kernel"]},
            "Choose one of direct, kernel.",
        ),
        (
            "argument --hicache-size: invalid int value: '96.5'",
            "0.5.23",
            "flag_value_invalid",
            {"flag": "hicache-size", "given": "96.5", "closest_value": "96"},
            "Set --hicache-size to 96.",
        ),
        (
            "the following arguments are required: --model-path/--model",
            "0.5.23",
            "flag_missing",
            {"flag": "model-path"},
            "Give --model-path.",
        ),
        (
            "argument --a: not allowed with argument --b",
            "0.5.23",
            "flags_exclude_each_other",
            {"flag": "--a", "other": "--b"},
            "Leave one of the two that the line names out.",
        ),
        ("something --odd is wrong", "0.5.23", "bad_argument", {"flag": "odd"}, "Correct the variable"),
    ],
)
def test_flag_and_what_is_right_for_the_release(
    line: str, version: str, code: str, values: dict[str, Any], remedy: str
) -> None:
    told = found(BEFORE + line, version)
    assert (told.code, told.rank) == (code, None)
    assert {name: told.values[name] for name in values} == values
    assert remedy in told.remedy


def test_closest_flag_is_one_of_the_release() -> None:
    told = found(BEFORE + "unrecognized arguments: --enable-dp-attentoin", "0.5.9")
    assert told.values["closest_flag"] == "enable-dp-attention"


def test_flags_without_a_plan_are_named_as_the_line_has_them() -> None:
    told = diagnose(died(BEFORE + "unrecognized arguments: --hicache-rato 2", unit=FAILED, state=start()), {})
    assert told.code == "flag_unknown"
    assert "--hicache-rato" in told.message
