# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.monitoring import targets as core


def scraped(
    nodes: dict[str, dict[str, Any]], routers: dict[str, dict[str, Any]] | None = None, **said: Any
) -> tuple[dict[str, list[str]], list[str]]:
    """(job: target{labels}, problems)"""
    values: dict[str, Any] = {"here": "", "ports": core.Ports(), "labels": {}, "arranged": {}, **said}
    jobs, problems = core.targets(nodes, routers or {}, **values)
    shown = {
        job: [f"{group['targets'][0]} {' '.join(group['labels'].values())}" for group in groups]
        for job, groups in jobs.items()
    }
    return shown, problems


def test_every_instance_of_every_node_its_exporters_and_routers() -> None:
    jobs, problems = scraped(
        {
            "n1": {"ansible_host": "10.0.0.1", "sglang_host": "0.0.0.0"},
            "n2": {
                "ansible_host": "10.0.0.2",
                "monitoring_address": "fd00::2",
                "sglang_host": "::",
                "sglang_port": 30100,
                "sglang_instances": [
                    {"instance": "chat"},
                    {"instance": "code", "port": 30200, "host": "10.9.9.9"},
                ],
                "monitoring_dcgm": True,
                "monitoring_dcgm_port": 9401,
                "monitoring_node_exporter_port": 9101,
            },
        },
        {"r1": {}, "r2": {"monitoring_router_metrics_port": 29001}},
        labels={"fleet": "blue"},
    )
    assert problems == []
    assert jobs == {
        "sglang": ["10.0.0.1:30000 blue n1 main", "[fd00::2]:30100 blue n2 chat", "10.9.9.9:30200 blue n2 code"],
        "gpufleet-node": ["10.0.0.1:9100 blue n1", "[fd00::2]:9101 blue n2"],
        "dcgm": ["[fd00::2]:9401 blue n2"],
        "sglang-router": ["r1:29000 blue r1", "r2:29001 blue r2"],
    }


def test_a_server_on_loopback_is_scraped_from_its_own_host_alone() -> None:
    jobs, problems = scraped({"n1": {}}, here="n1")
    assert (jobs["sglang"], problems) == (["127.0.0.1:30000 n1 main"], [])
    jobs, problems = scraped({"n1": {"sglang_host": "::1"}}, here="other")
    assert jobs["sglang"] == []
    assert problems == [
        "Instance main on n1 binds ::1, where other cannot scrape it; expected an address that others reach. Set "
        "sglang_host to one of the node's, or to 0.0.0.0."
    ]


def test_a_host_that_is_reached_over_a_tunnel_is_not_meant_by_that() -> None:
    jobs, problems = scraped({"n1": {"ansible_host": "127.0.0.1", "sglang_host": "0.0.0.0"}}, here="other")
    assert (jobs["sglang"], problems) == (["127.0.0.1:30000 n1 main"], [])


def test_a_port_that_was_arranged_is_asked_of_the_node() -> None:
    nodes = {"n1": {"sglang_host": "0.0.0.0", "sglang_instances": [{"instance": "a", "port": None}]}}
    assert core.unknown_ports(nodes) == [{"node": "n1", "instance": "a"}]
    assert core.unknown_ports({"n1": {"sglang_port": None}}) == [{"node": "n1", "instance": "main"}]
    jobs, problems = scraped(nodes, arranged={"n1": {"a": 30007}})
    assert (jobs["sglang"], problems) == (["n1:30007 n1 a"], [])
    jobs, problems = scraped(nodes)
    assert jobs["sglang"] == []
    assert "The port of instance a on n1 is arranged on the node, and it has none there yet" in problems[0]


def test_ports_come_out_of_what_nodes_keep_and_out_of_nothing_else() -> None:
    kept = {"schema": 1, "gpus": [], "ports": {"http": {"address": "0.0.0.0", "first": 30007, "last": 30007}}}

    def read(content: bytes, instance: str) -> dict[str, Any]:
        return {"item": {"node": "n1", "instance": instance}, "content": b64encode(content).decode()}

    rows = [
        read(json.dumps(kept).encode(), "a"),
        read(b"{}", "b"),
        read(b"no JSON", "c"),
        {"item": {"node": "n2", "instance": "d"}, "unreachable": True},
    ]
    assert core.arranged_ports(rows) == {"n1": {"a": 30007}}


@pytest.mark.parametrize("name", ["node", "a-b", "__x", "1st", "instance"])
def test_labels_that_cannot_be_set_are_named(name: str) -> None:
    _jobs, problems = scraped({"n1": {"sglang_host": "0.0.0.0"}}, labels={name: "x", "fleet": "blue"})
    assert len(problems) == 1
    assert f"'{name}'" in problems[0]
