# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.instances.entries import entry_problems

OPTIONS: dict[str, dict[str, Any]] = {
    "sglang_instance": {"type": "str", "default": "main"},
    "sglang_version": {"type": "str", "required": True},
    "sglang_port": {"type": "int", "default": 30000},
    "sglang_device": {"type": "str", "choices": ["cuda", "cpu"]},
    "sglang_gpus": {"type": "list", "elements": "int"},
    "sglang_api_key": {"type": "str", "no_log": True},
    "sglang_hicache_ratio": {"type": "float"},
}


def problems(*entries: Any) -> list[str]:
    return entry_problems(list(entries), OPTIONS, "sglang_", ["sglang_instance"])


def test_what_is_right_is_left_alone() -> None:
    assert problems({"instance": "chat", "port": 30000, "gpus": [0, 1]}, {"instance": "code", "port": None}) == []


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("chat", "expected a mapping"),
        ({"port": 30000}, "nothing for its name"),
        ({"instance": "../x"}, "letters, digits"),
        ({"instance": "a", "prot": 1}, "the closest is port"),
        ({"instance": "a", "sglang_port": 1}, "the closest is port"),
        ({"instance": "a", "zzzzzzzz": 1}, "without sglang_"),
        ({"instance": "a", "port": "http"}, "(a): "),
        ({"instance": "a", "device": "tpu"}, "cuda, cpu"),
        ({"instance": "a", "gpus": ["x"]}, "(a): "),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(entry: Any, said: str) -> None:
    (sentence,) = problems(entry)
    assert "sglang_instances[0]" in sentence
    assert said in sentence


def test_a_name_that_stands_twice_is_refused_once() -> None:
    (sentence,) = problems({"instance": "a"}, {"instance": "b"}, {"instance": "a"})
    assert "2 entries of the name a" in sentence


def test_no_list_is_said_so() -> None:
    (sentence,) = entry_problems({"a": 1}, OPTIONS, "sglang_", [])
    assert "expected a list" in sentence


def test_a_key_is_never_said() -> None:
    assert all("s3cret" not in sentence for sentence in problems({"instance": "a", "api_key": ["s3cret"], "prot": 1}))
