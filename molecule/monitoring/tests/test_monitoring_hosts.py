# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Debian's own Prometheus makes of what the role has written, seen from outside the role."""

from __future__ import annotations

import json
from typing import Any

import pytest
from testinfra.host import Host

# Of molecule/monitoring/inventory.
ADDRESSES = {"debian12": "10.213.77.136", "debian13": "10.213.77.137"}


def asked(host: Host, path: str) -> Any:
    return json.loads(host.check_output(f"curl -sf 'http://127.0.0.1:9090/api/v1/{path}'"))["data"]


@pytest.fixture(scope="module")
def targets(host: Host) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = asked(host, "targets?state=active")["activeTargets"]
    return found


def test_every_instance_exporter_and_router_is_a_target(targets: list[dict[str, Any]]) -> None:
    found = {(one["labels"]["job"], one["labels"]["instance"], one["labels"].get("sglang_instance")) for one in targets}
    expected = {("sglang-router", f"{ADDRESSES['debian12']}:29000", None), ("prometheus", "127.0.0.1:9090", None)}
    for address in ADDRESSES.values():
        expected |= {
            ("sglang", f"{address}:30020", "chat"),
            # The port that was arranged on the node.
            ("sglang", f"{address}:30007", "code"),
            ("gpufleet-node", f"{address}:9100", None),
            ("dcgm", f"{address}:9400", None),
        }
    assert found == expected


def test_labels_join_what_a_node_and_its_servers_tell(targets: list[dict[str, Any]]) -> None:
    for one in targets:
        if one["labels"]["job"] != "prometheus":
            assert one["labels"]["fleet"] == "molecule"
            assert ADDRESSES[one["labels"]["node"]] == one["labels"]["instance"].split(":")[0]


def test_exporters_answer(targets: list[dict[str, Any]]) -> None:
    health = {
        one["labels"]["instance"]: one["health"] for one in targets if one["labels"]["job"] in ("gpufleet-node", "dcgm")
    }
    assert set(health.values()) == {"up"}
    assert len(health) == 4


def test_all_rules_are_loaded_and_can_be_computed(host: Host) -> None:
    groups = asked(host, "rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len({rule["name"] for rule in rules if rule["type"] == "alerting"}) == 32
    assert [rule.get("lastError") for rule in rules if rule.get("lastError")] == []
    assert {rule["health"] for rule in rules} <= {"ok", "unknown"}


def test_the_dcgm_exporter_has_the_counters_that_the_rules_ask_for(host: Host) -> None:
    told = host.check_output("curl -sf http://127.0.0.1:9400/metrics")
    rules = host.check_output("cat /etc/prometheus/gpufleet/rules/gpu.yml")
    asked_for = {word for word in rules.replace("(", " ").replace("[", " ").split() if word.startswith("DCGM_FI_")}
    assert asked_for
    assert [name for name in asked_for if f"# TYPE {name} " not in told] == []


def test_what_a_node_without_servers_tells(host: Host) -> None:
    told = host.check_output("curl -sf http://127.0.0.1:9100/metrics")
    assert 'gpufleet_sglang_ledger_readable{sglang_instance="chat"} 0' in told
    assert "gpufleet_host_unaccounted_bytes" in told


def test_files_are_closed_and_those_of_others_kept(host: Host) -> None:
    for path in ("/etc/prometheus/prometheus.yml", "/etc/prometheus/gpufleet/rules/host.yml"):
        file = host.file(path)
        assert (file.user, file.group, file.mode) == ("root", "prometheus", 0o640)
    kept = host.file("/etc/prometheus/prometheus.yml.before-gpufleet").content_string
    assert "gpufleet" not in kept
    assert "scrape_configs" in kept


def test_the_configuration_holds_to_promtool_and_its_service_runs(host: Host) -> None:
    assert host.run("promtool check config /etc/prometheus/prometheus.yml").succeeded
    for unit in ("prometheus", "prometheus-node-exporter", "nvidia-dcgm-exporter", "gpufleet-sglang-textfile.timer"):
        assert host.service(unit).is_running
        assert host.service(unit).is_enabled


def test_the_dashboard_lies_where_grafana_looks(host: Host) -> None:
    board = json.loads(host.file("/srv/dashboards/gpufleet-sglang.json").content_string)
    assert board["uid"] == "gpufleet-sglang"
    assert "path: /srv/dashboards" in host.file("/srv/dashboards/provider.yaml").content_string
