# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.inventory import workers_of_hosts


def host(**values: Any) -> dict[str, Any]:
    return {"inventory_hostname": "node-1", "ansible_host": "10.0.0.1", "sglang_host": "0.0.0.0", **values}


@pytest.mark.parametrize(
    ("given", "urls"),
    [
        (host(), ["http://10.0.0.1:30000"]),
        (host(sglang_port=30010), ["http://10.0.0.1:30010"]),
        (host(ansible_host="fd00::1"), ["http://[fd00::1]:30000"]),
        ({"inventory_hostname": "node-2", "sglang_host": "10.0.0.2"}, ["http://node-2:30000"]),
        (host(sglang_worker_url="https://node-1.example:443/"), ["https://node-1.example:443"]),
        (
            host(
                sglang_instances=[
                    {"instance": "a", "port": 30001},
                    {"instance": "b", "port": 30002, "host": "10.0.0.1"},
                ]
            ),
            ["http://10.0.0.1:30001", "http://10.0.0.1:30002"],
        ),
    ],
)
def test_every_instance_is_where_the_inventory_puts_it(given: dict[str, Any], urls: list[str]) -> None:
    assert [row["url"] for row in workers_of_hosts([given])] == urls


def test_one_instance_of_one_host() -> None:
    several = host(sglang_instances=[{"instance": "a", "port": 30001}, {"instance": "b", "port": 30002}])
    assert [row["url"] for row in workers_of_hosts(several, only="b")] == ["http://10.0.0.1:30002"]
    assert [row["url"] for row in workers_of_hosts(host(), only="main")] == ["http://10.0.0.1:30000"]


def test_halves_of_a_disaggregated_server_are_of_their_kind() -> None:
    prefill = host(sglang_extra_arguments={"disaggregation-mode": "prefill", "disaggregation-bootstrap-port": 9000})
    decode = host(sglang_extra_arguments={"disaggregation_mode": "decode"})
    assert [(row["kind"], row["bootstrap_port"]) for row in workers_of_hosts([prefill, decode])] == [
        ("prefill", 9000),
        ("decode", None),
    ]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"sglang_host": "127.0.0.1"}, "sglang_host is 127.0.0.1, which no router on another host reaches"),
        ({"sglang_port": None}, "sglang_port is null, so that the port is found on the node"),
        ({"sglang_instances": [{"instance": "a", "port": None}]}, "node-1, instance a"),
    ],
)
def test_what_no_router_could_reach_is_named(values: dict[str, Any], said: str) -> None:
    with pytest.raises(Refusal) as refused:
        workers_of_hosts([host(**values)])
    assert said in str(refused.value)
    assert "or sglang_worker_url" in str(refused.value)
