# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ports of a plan against those that the wheels' own code gives, for every release from 0.4.7 to 0.5.23."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.ports import HIGHEST, ports_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.port_versions import NEAR, port_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import parse_version
from ansible_collections.gpufleet.sglang.tests.conformance.record_ports import ANSWERS

RELEASES: list[dict[str, Any]] = json.loads(ANSWERS.read_text(encoding="utf-8"))


def test_every_release_was_asked() -> None:
    assert len(RELEASES) == 27
    assert all(len(release["answers"]) == 39 for release in RELEASES)


@pytest.mark.parametrize("release", RELEASES, ids=[release["sglang_version"] for release in RELEASES])
def test_the_plan_knows_every_port(release: dict[str, Any]) -> None:
    facts = port_facts(parse_version(release["sglang_version"]))
    for case in release["answers"]:
        try:
            found = ports_of(facts, case["port"], None, case["attention_dp"], {})
        except Refusal as refused:
            assert refused.code == "port_out_of_range"
            assert max(case["taken"]) > HIGHEST, case
            continue
        planned = {port for one in found if one.fixed and one.name != "http" for port in range(one.first, one.last + 1)}
        # To 0.5.4 nothing binds the port that the others are counted from; it is kept free all the same.
        planned -= {one.first for one in found if one.name == "dist_init" and one.first not in case["taken"]}
        assert planned == set(case["taken"]), case
        (meeting,) = [one for one in found if not one.fixed]
        # Near the end the first free port is sought downwards, step by step.
        if facts.rendezvous != NEAR or case["port"] < 60000:
            assert meeting.first <= case["nccl"] <= meeting.last, case
