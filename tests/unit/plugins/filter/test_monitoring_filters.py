# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.filter.prometheus_lacks import prometheus_lacks
from ansible_collections.gpufleet.sglang.plugins.filter.scrape_targets import scrape_targets


class Variables(Mapping[str, Any]):
    """As hostvars: what is taken out is templated then, and some of it cannot be."""

    def __getitem__(self, name: str) -> Any:
        values: dict[str, Any] = {"ansible_host": "10.0.0.1", "sglang_host": "0.0.0.0", "sglang_port": "30100"}
        if name == "sglang_model_path":
            raise AssertionError("nobody's business here")
        return values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(("ansible_host", "sglang_host", "sglang_port", "sglang_model_path"))

    def __len__(self) -> int:
        return 4


def test_targets_of_hostvars() -> None:
    found = scrape_targets({"n1": Variables()}, nodes=["n1"], ports={"node_exporter": "9101"}, labels={"rack": 7})
    assert found == {
        "jobs": {
            "sglang": [
                {"targets": ["10.0.0.1:30100"], "labels": {"rack": "7", "node": "n1", "sglang_instance": "main"}}
            ],
            "gpufleet-node": [{"targets": ["10.0.0.1:9101"], "labels": {"rack": "7", "node": "n1"}}],
            "dcgm": [],
            "sglang-router": [],
        },
        "unknown_ports": [],
        "problems": [],
    }


def test_an_empty_configuration_lacks_everything() -> None:
    lacks = prometheus_lacks(None, "/etc/prometheus", ["/r.yml"], "/s.yml", {"sglang": "/t.json"})
    assert lacks == ["rule_files", "scrape_configs"]
