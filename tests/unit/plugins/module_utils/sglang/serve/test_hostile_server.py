# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The whole check at a server that is right but for some answers, which are anything: it ends, and says why."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import SEVERITIES
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.answers import Answer
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.problem_codes import CODES
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.fake_server import NEVER, FakeServer
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.proofs import WANTED, Clock, proved

VALUES: list[Any] = [None, True, -1, 0, 1.5, float("nan"), float("inf"), 1 << 70, "", "x" * 5000, "\x1b[2J", []]
VALUES += [{}, [[]], [None, {"a": 1}], {"host": -1, "device": "3"}, {"type": 3}, [{"num_running_reqs": -3}], [0] * 64]
TEXTS = ["", "null", "{", "<html>", "[" * 5000, '{"data": 3}', "sglang:max_total_num_tokens NaN\n", "a{b=} 1 2 3\n"]
TEXTS += ['sglang:hicache_host_total_tokens{x="y"} -5\nsglang:num_running_reqs +Inf\n', "sglang:x 1e999\n", "\x00\xff"]


def spoilt(dice: random.Random, data: Any) -> Any:
    """The same with one value somewhere replaced."""
    if isinstance(data, dict) and data and dice.random() < 0.8:
        key = dice.choice(sorted(data))
        return {**data, key: spoilt(dice, data[key])}
    if isinstance(data, list) and data and dice.random() < 0.8:
        return [spoilt(dice, data[0]), *data[1:]]
    return dice.choice(VALUES)


class Hostile(FakeServer):
    """C(dice) says which answers are spoilt, and how."""

    dice: random.Random
    share: float

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None, key: str | None = None) -> Answer:
        answer = super().ask(method, path, body, key)
        if self.dice.random() >= self.share:
            return answer
        way = self.dice.random()
        if way < 0.5:
            try:
                return Answer(200, json.dumps(spoilt(self.dice, json.loads(answer.body))))
            except ValueError:
                pass
        if way < 0.8:
            return Answer(self.dice.choice([200, 200, 204, 302, 401, 404, 429, 500, 503]), self.dice.choice(TEXTS))
        return Answer(0, "no answer", NEVER if way > 0.95 else 0.0, late=way > 0.95)


@pytest.mark.parametrize("seed", range(300))
def test_any_answer_ends_in_a_verdict(seed: int) -> None:
    dice = random.Random(seed)
    server = Hostile(ranks=dice.choice([1, 1, 3]), accept=dice.choice([{}, {"cold": 3.0, "warm": 3.0, "hit": 2.0}]))
    server.dice, server.share = dice, dice.choice([0.02, 0.1, 0.5])
    clock = Clock()
    wanted = replace(WANTED, sglang_version=dice.choice([None, "0.4.7", "0.5.8", "0.5.23"]))
    proof = proved(server, wanted, clock=clock)
    # Within its time but for the health poll's own pause, and with bounded load.
    assert clock.at <= wanted.timeout_seconds + 15.0
    assert server.generated < 200
    failed = proof.failed
    if failed is not None:
        assert failed.code in CODES and failed.problem.endswith(".") and failed.remedy.endswith(".")
        assert len(failed.problem) < 2000 and failed.problem.isprintable()
    for problem in proof.problems:
        assert problem.code in CODES and problem.severity in SEVERITIES
        assert problem.message.isprintable()
    # What is returned is JSON that any reader takes: no NaN, nothing endless.
    checks = [check.as_dict() for check in proof.checks]
    shown = json.dumps([checks, proof.canaries, proof.burn_in, proof.server, proof.metrics], allow_nan=False)
    assert len(shown) < 40_000
