# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import random

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.answers import Answer
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import read_generation, unique_prompt


def test_prompts_differ() -> None:
    dice = random.Random("a")
    prompts = {tuple(unique_prompt(dice, 8)) for _unused in range(1000)}
    assert len(prompts) == 1000


@pytest.mark.parametrize("answer", [Answer(500, "{}"), Answer(200, "no json"), Answer(200, "[]"), Answer(0, "")])
def test_answer_that_is_no_generation(answer: Answer) -> None:
    assert read_generation(answer) is None
