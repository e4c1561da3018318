# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What rules and dashboard ask for, against the metrics that each release of SGLang has by its wheel."""

from __future__ import annotations

import json
import re

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import EXAMINED
from ansible_collections.gpufleet.sglang.tests.conformance.record_metrics import METRICS, metrics_of
from ansible_collections.gpufleet.sglang.tests.integration.scraping import panels
from ansible_collections.gpufleet.sglang.tools.alert_page import ROLE, first_release, rules, sources_of

RECORDS = {row["name"]: row for row in json.loads(METRICS.read_text(encoding="utf-8"))}
EXPRESSIONS = [rule["expr"] for rule in rules()] + [one for panel in panels().values() for one in panel]
ASKED = sorted(name for name in set().union(*map(sources_of, EXPRESSIONS)) if name.startswith("sglang:"))


@pytest.mark.parametrize("name", ASKED)
def test_the_newest_release_has_it(name: str) -> None:
    assert RECORDS[name]["releases"][-1][1] == str(EXAMINED[-1])
    forms = {
        suffix
        for expression in EXPRESSIONS
        for suffix in re.findall(rf"{name}(_bucket|_sum|_count)?\b(?!_)", expression)
    }
    histogram = RECORDS[name]["kind"] == "histogram"
    assert forms <= ({"_bucket", "_sum", "_count"} if histogram else {""}), forms
    # prometheus_client gives a counter its ending.
    assert name.endswith("_total") == (RECORDS[name]["kind"] == "counter")


def test_the_dcgm_exporter_is_told_every_field_that_is_asked_for() -> None:
    fields = {name for name in set().union(*map(sources_of, EXPRESSIONS)) if name.startswith("DCGM_FI_")}
    counters = (ROLE / "templates" / "dcgm-counters.csv.j2").read_text(encoding="utf-8")
    assert fields <= {line.split(",")[0] for line in counters.splitlines()}


def test_a_gap_counts_from_its_end() -> None:
    spans = {"sglang:a": [["0.4.7", "0.5.2"], ["0.5.9", "0.5.23"]], "sglang:b": [["0.5.10", "0.5.23"]]}
    assert first_release(["sglang:a"], spans) == "0.5.9"
    assert first_release(["sglang:a", "sglang:b", "node_load1"], spans) == "0.5.10"
    assert first_release(["node_load1"], spans) is None


def test_a_metric_is_read_in_whatever_way_it_is_made() -> None:
    source = """
self.a = Gauge(name="sglang:a", documentation="A.")
self.b = self._histogram_cls("sglang:b_seconds", "B.", labelnames=[])
C = prometheus_client.Counter("sglang:c_total", "C.")
d = print("sglang:d")
"""
    assert sorted(metrics_of(source)) == [("sglang:a", "gauge"), ("sglang:c_total", "counter")]
