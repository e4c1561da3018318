# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a node tells, from its ledger and its ranks to an alert: real node_exporter, real Prometheus, real systemd.

The stand-in release: what SGLang itself tells is for test_live_metrics.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.tests.integration.release_node import ReleaseNode
from ansible_collections.gpufleet.sglang.tests.integration.scraping import Prometheus, panels
from ansible_collections.gpufleet.sglang.tests.integration.scripted_release import VALUES, scripted_node

ADDRESS = "10.213.77.131"
UNIT = "sglang-main.service"
DECLARED: dict[str, Any] = {
    "sglang_host": "0.0.0.0",
    "sglang_tensor_parallel_size": 2,
    "sglang_hicache_ratio": 2,
    "sglang_burn_in_requests": 1,
    "sglang_canary": False,
    "sglang_chat_check": False,
    **VALUES,
}
TELLS: dict[str, Any] = {
    # The node has no way out; it is laid there below.
    "monitoring_node_exporter_packages": [],
    "monitoring_interval_seconds": 1,
}
# A restart by systemd comes after half a minute, and is the same after one second.
QUICK = "/etc/systemd/system/sglang-main.service.d"


@pytest.fixture(scope="module", name="node")
def _node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReleaseNode]:
    made = scripted_node("gpufleet-monitoring-node", ADDRESS)
    debian = tmp_path_factory.mktemp("node_exporter")
    for file in ("/usr/bin/prometheus-node-exporter", "/lib/systemd/system/prometheus-node-exporter.service"):
        shutil.copy(file, debian)
    node = ReleaseNode(made.name, made.address, {**made.mounts, "/srv/debian": debian})
    node.up()
    node.run(
        "useradd --system prometheus && cp /srv/debian/prometheus-node-exporter /usr/bin/ "
        "&& cp /srv/debian/prometheus-node-exporter.service /etc/systemd/system/ "
        "&& echo 'ARGS=\"\"' >/etc/default/prometheus-node-exporter && systemctl daemon-reload"
    )
    done = node.play("gpufleet.sglang.site", DECLARED)
    assert done.status == 0, done.output
    told = node.play("tests/integration/monitoring_node.yml", TELLS)
    assert told.status == 0, told.output
    yield node
    node.down()


@pytest.fixture(scope="module")
def prometheus(node: ReleaseNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    hosts = {"n1": {"ansible_host": node.address, "sglang_host": "0.0.0.0"}}
    made = Prometheus(tmp_path_factory.mktemp("prometheus"), hosts)
    made.role()
    made.start()
    try:
        made.until(lambda: made.value('sum(up{job=~"sglang|gpufleet-node"})') == 2)
        made.until(lambda: made.value("sglang_instance:pinned_bytes:sum"))
        yield made
    finally:
        made.stop()


def ledger(node: ReleaseNode) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(node.run("cat /var/lib/sglang/main/ledger.json"))
    return found


def test_what_is_told_holds_to_promtool(node: ReleaseNode) -> None:
    told = node.run("cat /var/lib/prometheus/node-exporter/gpufleet_sglang.prom")
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=f"{told}\n", capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_plan_ledger_and_what_is_in_force_are_scraped(node: ReleaseNode, prometheus: Prometheus) -> None:
    host = ledger(node)["plan"]["host"]
    labels = '{node="n1",sglang_instance="main"}'
    assert prometheus.value(f"gpufleet_sglang_planned_host_bytes{labels}") == host["bytes_total"]
    pinned = {row["rank"]: value for row, value in prometheus.query(f"gpufleet_sglang_rank_pinned_bytes{labels}")}
    assert set(pinned) == {"TP0", "TP1"}
    assert all(0 <= value - host["bytes_per_rank"] < (1 << 20) for value in pinned.values())
    planned = prometheus.query(f'gpufleet_sglang_planned_pool_bytes{{pool="kv",{labels[1:]}')
    assert {row["rank"]: value for row, value in planned} == dict.fromkeys(pinned, host["bytes_per_rank"])
    for name in ("proven", "declared_in_force", 'unit_state{state="active"}'):
        assert prometheus.value(f"gpufleet_sglang_{name}") == 1, name
    assert {name for name in prometheus.firing() if "Host" not in name} == set()


def test_every_expression_of_rules_and_dashboard_is_one(prometheus: Prometheus) -> None:
    for group in prometheus.ask("rules")["groups"]:
        assert [rule["lastError"] for rule in group["rules"] if rule.get("lastError")] == []
    # What cannot be computed is refused by the server with a status of its own.
    for expressions in panels().values():
        for expression in expressions:
            prometheus.query(expression)
    shown = (
        "Pinned against planned",
        "Pinned by rank",
        "Time of the proven start",
        "Shared memory",
        "Instances that run",
    )
    for title in shown:
        assert all(prometheus.query(one) for one in panels()[title]), title


def test_a_second_run_changes_nothing(node: ReleaseNode, prometheus: Prometheus) -> None:
    again = node.play("tests/integration/monitoring_node.yml", TELLS)
    assert (again.status, again.changed) == (0, 0), again.output
    assert "changed=0" in prometheus.role("--check", "--diff")


def test_it_says_nothing_in_the_journal_and_runs_confined(node: ReleaseNode) -> None:
    assert node.run("journalctl -u gpufleet-sglang-textfile.service -o cat --no-pager --priority=info") in (
        "",
        "-- No entries --",
    )
    exposure = node.run("systemd-analyze security --no-pager gpufleet-sglang-textfile.service | tail -n 1")
    assert float(exposure.split(":")[1].split()[0]) <= 2.5, exposure


def test_files_that_are_not_in_force_are_seen(node: ReleaseNode, prometheus: Prometheus) -> None:
    unit = f"/etc/systemd/system/{UNIT}"
    node.run(f"cp {unit} /root/unit && sed -i 's/GPUFLEET_GENERATION=..../GPUFLEET_GENERATION=0000/' {unit}")
    try:
        prometheus.until(lambda: prometheus.value("gpufleet_sglang_declared_in_force") == 0)
    finally:
        node.run(f"cp /root/unit {unit}")
    prometheus.until(lambda: prometheus.value("gpufleet_sglang_declared_in_force") == 1)


def test_a_server_that_dies_is_told_by_an_alert_until_it_is_proven(node: ReleaseNode, prometheus: Prometheus) -> None:
    node.run(f"mkdir {QUICK} && printf '[Service]\\nRestartSec=1\\n' >{QUICK}/10-quick.conf && systemctl daemon-reload")
    node.run(f"systemctl kill --signal=KILL --kill-whom=main {UNIT}")
    prometheus.until(lambda: "SGLangInstanceRestarted" in prometheus.firing())
    assert prometheus.value("gpufleet_sglang_unit_restarts_total") == 1
    # It serves again, and nobody has looked whether it does so well.
    prometheus.until(lambda: prometheus.value('up{job="sglang"}') == 1)
    assert prometheus.value("gpufleet_sglang_proven") == 0
    node.run(f"rm -r {QUICK} && systemctl daemon-reload")
    proven = node.play("gpufleet.sglang.site", DECLARED)
    assert proven.status == 0, proven.output
    prometheus.until(lambda: prometheus.value("gpufleet_sglang_proven") == 1)


def test_a_server_that_is_stopped_is_told(node: ReleaseNode, prometheus: Prometheus) -> None:
    node.run(f"systemctl stop {UNIT}")
    prometheus.until(lambda: prometheus.value('gpufleet_sglang_unit_state{state="inactive"}') == 1)
    assert prometheus.value("gpufleet_sglang_ranks") == 0
    assert prometheus.query("gpufleet_sglang_rank_pinned_bytes") == []


def test_what_was_put_there_is_taken_away(node: ReleaseNode, prometheus: Prometheus) -> None:
    gone = node.play("tests/integration/monitoring_node.yml", {**TELLS, "monitoring_state": "absent"})
    assert gone.status == 0, gone.output
    places = "/etc/systemd/system /opt/gpufleet /var/lib/prometheus"
    assert node.run(f"find {places} -name '*gpufleet*' -o -name 'textfile_collector*'", check=False) == "/opt/gpufleet"
    again = node.play("tests/integration/monitoring_node.yml", {**TELLS, "monitoring_state": "absent"})
    assert (again.status, again.changed) == (0, 0), again.output
    prometheus.role("-e", json.dumps({"monitoring_state": "absent"}))
    assert not prometheus.config.exists()
    assert not (prometheus.folder / "gpufleet").exists()


def test_the_configuration_of_others_is_left_alone_and_put_back(tmp_path: Path) -> None:
    hosts = {"n1": {"ansible_host": ADDRESS, "sglang_host": "0.0.0.0"}}
    others = "# Of others.\nscrape_configs: []\n"
    advised = Prometheus(tmp_path, hosts, monitoring_prometheus_config_managed=False)
    advised.config.write_text(others, encoding="utf-8")
    said = advised.role()
    assert f"Add to rule_files: {tmp_path}/gpufleet/rules/*.yml" in said
    assert f"add to scrape_config_files: {tmp_path}/gpufleet/scrape.yml" in said
    assert advised.config.read_text(encoding="utf-8") == others
    managed = Prometheus(tmp_path, hosts)
    managed.role()
    assert "gpufleet" in managed.config.read_text(encoding="utf-8")
    managed.role("-e", json.dumps({"monitoring_state": "absent"}))
    assert managed.config.read_text(encoding="utf-8") == others


def test_rules_that_promtool_refuses_are_not_put_in_place(tmp_path: Path) -> None:
    hosts = {"n1": {"ansible_host": ADDRESS, "sglang_host": "0.0.0.0"}}
    wrong = Prometheus(tmp_path, hosts)
    with pytest.raises(AssertionError, match="failed to validate"):
        wrong.role("-e", json.dumps({"monitoring_runbook_url": 'https://example.org/": ['}))
    assert list((tmp_path / "gpufleet" / "rules").glob("sglang.yml")) == []


def test_what_cannot_be_scraped_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    refused = Prometheus(tmp_path, {"n1": {"ansible_host": ADDRESS}})
    with pytest.raises(AssertionError, match="n1 binds 127.0.0.1, where scraper cannot scrape it"):
        refused.role()
    assert not (tmp_path / "gpufleet").exists()
