# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import json
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.rolling.asked import rolling_order, rolling_outcome

PLAN = {"device": {"max_total_num_tokens": 159277}, "host": {"tokens": 637109}, "timing": {"start_seconds": 200.0}}

LEDGER = {"schema": 2, "plan": PLAN, "startup": {"elapsed_seconds": 170.0}}


def host(number: int, ledger: object = None, **values: Any) -> dict[str, Any]:
    text = json.dumps(
        ledger if ledger is not None else {"schema": 2, "plan": PLAN, "startup": {"elapsed_seconds": 170.0}}
    )
    read = {"content": base64.b64encode(text.encode()).decode()}
    return {
        "inventory_hostname": f"kimi-{number}",
        "ansible_host": f"10.0.0.{number}",
        "sglang_host": "0.0.0.0",
        "sglang_routers": ["edge"],
        "rolling_ledgers": {"results": [read]},
        **values,
    }


def edge(*numbers: int, **values: Any) -> dict[str, Any]:
    urls = [f"http://10.0.0.{number}:30000" for number in numbers]
    return {"item": "edge", "running": True, "in_service": urls, "minimum_in_service": 1, "members": [], **values}


def test_the_order_is_told_with_what_serves_and_how_long_it_takes() -> None:
    found = rolling_order([host(1), host(2), host(3)], [edge(1, 2, 3)], 1, "50%")
    assert found["sizes"] == [1, 1, 1]
    assert found["order"] == ["kimi-1", "kimi-2", "kimi-3"]
    assert found["refusal"] is None
    assert found["lines"] == [
        "1. canary: kimi-1; 2 of 3 nodes serve meanwhile, 66.7 % of the cached tokens; starts take 2 min 50 s",
        "2. batch: kimi-2; 2 of 3 nodes serve meanwhile, 66.7 % of the cached tokens; starts take 2 min 50 s",
        "3. batch: kimi-3; 2 of 3 nodes serve meanwhile, 66.7 % of the cached tokens; starts take 2 min 50 s",
        "router edge: 3 in service, at least 1 at any moment",
        "3 nodes in 3 batches; the starts alone take 8 min 30 s, requests that end and checks come to that",
    ]


def test_a_node_without_a_ledger_goes_all_the_same_and_nothing_is_made_up() -> None:
    found = rolling_order([host(1, ledger={}), host(2)], [edge(1, 2)], 1, 1)
    assert found["batches"][0]["seconds"] == 0.0
    assert found["batches"][0]["tokens_left"] is None
    assert found["lines"][-1] == "2 nodes in 2 batches"


def test_a_ledger_that_is_no_text_is_none() -> None:
    broken = host(1, rolling_ledgers={"results": [{"content": "%%%"}, {"failed": True}]})
    assert rolling_order([broken], [edge(1, minimum_in_service=0)], 1, 1)["refusal"] is None


def test_a_router_that_does_not_answer_ends_it_before_anything_begins() -> None:
    found = rolling_order([host(1)], [{"item": "edge", "running": False, "problem": "no answer"}], 1, 1)
    assert found["refusal"]["code"] == "router_unknown"
    assert found["sizes"] == []
    assert found["lines"][0].startswith("Router edge: no answer")


def test_routers_of_instances_count() -> None:
    entries = [{"instance": "a", "port": 30000, "routers": ["edge"]}, {"instance": "b", "port": 30001}]
    several = host(1, sglang_routers=[], sglang_instances=entries)
    assert rolling_order([several], [edge(1, minimum_in_service=1)], 1, 1)["refusal"]["code"] == "nobody_may_leave"


def test_the_outcome_names_who_failed_and_who_was_not_begun() -> None:
    hosts: list[dict[str, Any]] = [
        {"inventory_hostname": "a", "rolling_result": {"failed": False}},
        {"inventory_hostname": "b", "rolling_result": {"failed": True, "task": "Follow", "message": "it\ndied"}},
        {"inventory_hostname": "c"},
    ]
    found = rolling_outcome(hosts)
    assert (found["done"], found["failed"], found["left"]) == (["a"], ["b"], ["c"])
    assert found["lines"] == [
        "1 of 3 nodes are as declared and in service",
        "failed, out of service: b: Follow: it died",
        "not begun, or lost on the way: c",
    ]


def test_who_is_out_of_our_own_comes_back_and_who_is_held_by_others_does_not() -> None:
    members = [{"url": "http://10.0.0.3:30000", "held_by": "gpufleet"}]
    hosts = [host(number) for number in (1, 2, 3)]
    found = rolling_order(hosts, [edge(1, 2, minimum_in_service=2, members=members)], 1, 1)
    assert found["order"] == ["kimi-3", "kimi-1", "kimi-2"]
    members[0]["held_by"] = "operator"
    refused = rolling_order(hosts, [edge(1, 2, minimum_in_service=2, members=members)], 1, 1)
    assert refused["refusal"]["code"] == "nobody_may_leave"
