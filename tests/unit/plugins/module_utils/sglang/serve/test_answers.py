# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.answers import (
    REDACTED,
    Answer,
    count,
    without_secrets,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import read_generation
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.identity import read_server_info

SECRET = "sk-sentinel-0123456789"


@pytest.mark.parametrize(
    ("value", "whole"),
    [(3, 3), (3.0, 3), (3.5, None), (-1, None), (True, None), ("3", None), (None, None), ([], None)]
    + [(float("nan"), None), (float("inf"), None), (1e300, None), (1 << 60, None)],
)
def test_counts(value: Any, whole: int | None) -> None:
    assert count(value) == whole


@pytest.mark.parametrize(
    "body",
    [
        f"Bearer {SECRET} was refused",
        json.dumps({"error": {"message": f"bad header: {SECRET}"}}),
        json.dumps({"error": f"{SECRET}"}),
        # At the end of what is shown, where half of it would be left.
        "x" * 290 + SECRET,
        f"\x1b[31m{SECRET}\r\n",
    ],
)
def test_words_hold_no_secret_and_no_part_of_one(body: str) -> None:
    words = Answer(400, body, hidden=(SECRET,)).words()
    assert SECRET[:6] not in words and words.startswith("400: ")
    assert words.isprintable() and len(words) < 320
    assert SECRET not in repr(Answer(400, "", hidden=(SECRET,)))


def test_longer_secret_goes_first() -> None:
    found = without_secrets({"a": [f"{SECRET}-and-more {SECRET}"], SECRET: 1}, (SECRET, f"{SECRET}-and-more"))
    assert found == {"a": [f"{REDACTED} {REDACTED}"], REDACTED: 1}


def test_numbers_are_left_alone() -> None:
    assert without_secrets({"n": 12, "f": 1.5, "b": True, "none": None}, ("12",)) == {
        "n": 12,
        "f": 1.5,
        "b": True,
        "none": None,
    }


HOSTILE: list[Any] = [None, True, -1, 1.5, float("nan"), float("inf"), 1 << 70, "x", "", [], [None], {}, {"a": {}}]


@pytest.mark.parametrize("seed", range(200))
def test_hostile_answers_are_read_without_an_exception(seed: int) -> None:
    dice = random.Random(seed)
    meta_keys = ("prompt_tokens", "cached_tokens", "completion_tokens", "finish_reason", "spec_verify_ct")
    meta: Any = {key: dice.choice(HOSTILE) for key in meta_keys}
    meta["cached_tokens_details"] = dice.choice([*HOSTILE, {"device": dice.choice(HOSTILE), "host": -3}])
    info_keys = ("version", "model_path", "dp_size", "page_size", "internal_states", "max_total_num_tokens")
    body = {
        "text": dice.choice(HOSTILE),
        "output_ids": dice.choice([*HOSTILE, [1, "2", None]]),
        "meta_info": dice.choice([meta, meta, meta, *HOSTILE]),
        **{key: dice.choice([*HOSTILE, [{"memory_usage": dice.choice(HOSTILE)}]]) for key in info_keys},
    }
    answer = Answer(200, json.dumps(body))
    done = read_generation(answer)
    if done is not None:
        numbers = (done.cached_tokens, done.completion_tokens, done.device, done.host, done.verified)
        assert all(number is None or number >= 0 for number in numbers)
    read_server_info(answer.mapping())
    answer.words()


@pytest.mark.parametrize("body", ["[" * 100_000, "null", "3", '"x"', "{", "", "<html>Welcome</html>"])
def test_body_that_is_no_object(body: str) -> None:
    assert Answer(200, body).mapping() == {}
    assert read_generation(Answer(200, body)) is None


def test_server_info_is_picked_by_name() -> None:
    facts = read_server_info(
        {
            "api_key": SECRET,
            "admin_api_key": SECRET,
            "launch_command": f"--api-key {SECRET}",
            "version": "0.5.23",
            "dp_size": 4,
            "page_size": 64,
            "disable_radix_cache": False,
            "internal_states": [{"memory_usage": {"token_capacity": 99}}, {}],
        }
    )
    assert SECRET not in repr(facts)
    assert (facts.ranks, facts.page_size, facts.radix_cache, facts.device_tokens) == (2, 64, True, (99,))
    # A server that was given its key as its model's name.
    assert SECRET not in repr(read_server_info({"model_path": "x" * 290 + SECRET}, (SECRET,)))
