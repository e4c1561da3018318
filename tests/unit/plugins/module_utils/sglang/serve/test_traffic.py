# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.serving_versions import serving_facts_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.answers import Answer
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.traffic import Traffic, busy, read_traffic
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.proofs import Clock, client_of

GAUGES = (
    'sglang:num_running_reqs{dp_rank="0",tp_rank="0"} 3.0\n'
    'sglang:num_running_reqs{dp_rank="0",tp_rank="1"} 3.0\n'
    'sglang:num_running_reqs{dp_rank="1",tp_rank="2"} 2.0\n'
    'sglang:num_queue_reqs{dp_rank="0",tp_rank="0"} 1.0\n'
)


def traffic(version: str, **answers: str) -> tuple[Traffic | None, list[str]]:
    asked: list[str] = []
    paths = {"/" + path.replace("_v1_", "v1/"): body for path, body in answers.items()}

    def ask(path: str) -> Answer:
        asked.append(path)
        return Answer(200, paths[path]) if path in paths else Answer(404, "")

    return read_traffic(client_of(lambda call: ask(call.path), Clock()), serving_facts_of(version)), asked


@pytest.mark.parametrize(
    ("version", "answers", "expected"),
    [
        (
            "0.5.23",
            {"_v1_loads": json.dumps({"loads": [{"num_running_reqs": 3, "num_waiting_reqs": 1}] * 2})},
            Traffic(6, 2, "/v1/loads"),
        ),
        ("0.5.3", {"get_load": json.dumps([{"num_reqs": 5, "num_waiting_reqs": 1}])}, Traffic(4, 1, "/get_load")),
        # The ranks of one data parallel rank have the same requests.
        ("0.5.2", {"metrics": GAUGES}, Traffic(5, 1, "/metrics")),
        ("0.5.23", {"metrics": GAUGES}, Traffic(5, 1, "/metrics")),
        (
            "0.5.23",
            {"_v1_loads": '{"loads": [{"num_running_reqs": -1}]}', "metrics": GAUGES},
            Traffic(5, 1, "/metrics"),
        ),
        ("0.5.23", {"_v1_loads": "[3]"}, None),
        ("0.4.7", {}, None),
    ],
)
def test_traffic_by_release(version: str, answers: dict[str, str], expected: Traffic | None) -> None:
    assert traffic(version, **answers)[0] == expected


def test_release_without_loads_is_not_asked_for_them() -> None:
    assert traffic("0.5.2")[1] == ["/metrics"]
    assert traffic("0.5.3")[1] == ["/get_load", "/metrics"]


def test_bound_is_one_of_others_requests() -> None:
    assert busy(None, 0, "canary") is None
    assert busy(Traffic(2, 2, "x"), 4, "canary") is None
    problem = busy(Traffic(2, 3, "/metrics"), 4, "canary")
    assert problem is not None
    assert "The canary was skipped, as the server is busy: 2 requests of others run and 3 wait" in problem.message
