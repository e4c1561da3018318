# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules and dashboard against the real SGLang: the real Prometheus scrapes it, and every name is one that it prints."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.tests.integration.plays import NAME, ROOT, STATE, Node, play
from ansible_collections.gpufleet.sglang.tests.integration.scraping import Prometheus, free_port, panels
from ansible_collections.gpufleet.sglang.tools.alert_page import recorded, rules, sources_of

COLLECTOR = ROOT / "roles" / "monitoring" / "files" / "textfile_collector.py"
# Counters that are there once they have counted: nothing here takes a request back.
NOT_YET = {"sglang:num_retracted_requests_total"}
# A CPU that copies tells no time for it (load_back_duration_seconds stays 0), and there are no GPUs and no router.
SILENT = {"Speed of loading back", "Memory of GPUs in use", "Work", "Temperature and power"}
SILENT_ROUTERS = {"Healthy workers", "Workers that are not healthy"}


def asked_for() -> set[str]:
    """Every metric behind the rules and the dashboard."""
    expressions = [rule["expr"] for rule in rules()] + [one for panel in panels().values() for one in panel]
    return set().union(*map(sources_of, expressions))


@pytest.fixture(scope="module")
def served(node: Node) -> Node:
    done = play("--limit", "node")
    assert done.status == 0, done.output
    return node


@pytest.fixture(scope="module")
def prometheus(served: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    textfiles = folder / "textfiles"
    textfiles.mkdir()
    program = shlex.quote(COLLECTOR.read_text(encoding="utf-8"))
    told = served.run(f"python3 -c {program} --output /run/gpufleet_sglang.prom && cat /run/gpufleet_sglang.prom")
    (textfiles / "gpufleet_sglang.prom").write_text(f"{told}\n", encoding="utf-8")
    server, exporter = free_port(), free_port()
    # The node answers on its loopback alone, and its network has no way out.
    tunnel = ["ssh", "-F", str(STATE / "ssh_config"), "-N", "-L", f"127.0.0.1:{server}:127.0.0.1:30000", NAME]
    node_exporter = [
        "prometheus-node-exporter",
        f"--web.listen-address=127.0.0.1:{exporter}",
        f"--collector.textfile.directory={textfiles}",
    ]
    running = [
        subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for words in (tunnel, node_exporter)
    ]
    host = {
        "ansible_host": "127.0.0.1",
        "monitoring_node_exporter_port": exporter,
        "sglang_host": "0.0.0.0",
        "sglang_port": server,
    }
    # A scrape may take no longer than the time to the next, and this server shares two processors with everything.
    made = Prometheus(folder, {"node": host}, monitoring_scrape_interval_seconds=5)
    try:
        made.role()
        made.start()
        made.until(lambda: made.value('sum(up{job=~"sglang|gpufleet-node"})') == 2)
        for number in range(3):
            body = json.dumps({"text": f"Request {number} " * 40, "sampling_params": {"max_new_tokens": 2}})
            served.run(
                f"curl -sf http://127.0.0.1:30000/generate -H 'Content-Type: application/json' -d {shlex.quote(body)}"
            )
        made.until(lambda: (made.value("sum(sglang_instance:generation_tokens:rate5m)") or 0) > 0, 120)
        yield made
    finally:
        made.stop()
        for process in running:
            process.terminate()
            process.wait()


def test_every_metric_that_is_asked_for_is_one_that_the_server_prints(served: Node) -> None:
    told = served.run("curl -sf http://127.0.0.1:30000/metrics")
    printed = set(re.findall(r"^# TYPE (sglang:\S+) ", told, re.MULTILINE))
    asked = {name for name in asked_for() if name.startswith("sglang:")}
    # A family without a sample is announced as well.
    assert asked - printed <= NOT_YET
    assert {"sglang:cached_tokens_total", "sglang:hicache_host_total_tokens"} <= asked & printed


def test_every_recorded_rule_has_what_the_server_tells(prometheus: Prometheus) -> None:
    silent = {name for name in recorded() if not prometheus.query(name)}
    assert silent <= {
        "sglang_instance:load_back_speed_bytes_per_second:avg5m",
        "sglang_instance:rank_private_bytes:deriv2h",
    }
    for rule in prometheus.ask("rules")["groups"]:
        assert [one["lastError"] for one in rule["rules"] if one.get("lastError")] == []


def test_names_are_those_of_the_documentation_whatever_format_is_asked_for(prometheus: Prometheus) -> None:
    # As prometheus_client escapes them in OpenMetrics; curl, which asks for plain text, never sees that.
    assert prometheus.query('{__name__=~"sglang_[a-z_]+",job="sglang"}') == []
    assert prometheus.query('{__name__=~"sglang:[a-z_]+",job="sglang"}')


@pytest.mark.parametrize("title", panels())
def test_every_panel_shows_something(prometheus: Prometheus, title: str) -> None:
    rows: list[Any] = [row for expression in panels()[title] for row in prometheus.query(expression)]
    if title not in SILENT | SILENT_ROUTERS:
        assert rows, panels()[title]


def test_what_is_told_is_what_was_planned_pinned_and_proven(served: Node, prometheus: Prometheus) -> None:
    ledger = json.loads(served.run("cat /var/lib/sglang/main/ledger.json"))
    host = ledger["plan"]["host"]
    assert prometheus.value("gpufleet_sglang_planned_host_bytes") == host["bytes_total"]
    pinned = {labels["rank"]: value for labels, value in prometheus.query("gpufleet_sglang_rank_pinned_bytes")}
    assert sorted(pinned) == [f"TP{number}" for number in range(host["ranks"])]
    assert all(0 <= value - host["bytes_per_rank"] < (1 << 20) for value in pinned.values())
    # The server itself tells the same.
    assert prometheus.value("max(sglang:hicache_host_total_tokens)") == host["tokens"]
    assert prometheus.value("gpufleet_sglang_proven") == 1
    assert prometheus.value("gpufleet_sglang_declared_in_force") == 1


def test_a_healthy_server_fires_no_alert_of_its_own(prometheus: Prometheus) -> None:
    # This machine may be short of memory, and its own exporter tells of it.
    assert {name for name in prometheus.firing() if "Host" not in name} == set()
