# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.tools.alert_page import metrics_of, page, rules, sources_of


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('sum by (node, sglang_instance) (rate(sglang:a_total{x="node_b"}[5m]))', {"sglang:a_total"}),
        ("histogram_quantile(0.5, rate(sglang:a_seconds_bucket[5m]))", {"sglang:a_seconds"}),
        ("a:b * on (node) group_left (model) gpufleet_sglang_info", {"gpufleet_sglang_info"}),
        ("sglang_instance:a:sum > 0 unless node_c == 1", {"sglang_instance:a:sum", "node_c"}),
        ("DCGM_FI_DEV_GPU_TEMP > 85 or smg_worker_health == 0", {"DCGM_FI_DEV_GPU_TEMP", "smg_worker_health"}),
        ('up{job="sglang"} == 0', set()),
    ],
)
def test_metrics_are_found_and_labels_are_not(expression: str, expected: set[str]) -> None:
    assert metrics_of(expression) == expected


def test_what_is_recorded_leads_to_what_is_scraped() -> None:
    assert sources_of("sglang_instance:cache_hits:ratio5m") == {
        "sglang:cached_tokens_total",
        "sglang:prompt_tokens_total",
    }


def test_the_page_has_every_alert_under_the_name_that_its_link_has() -> None:
    names = [rule["alert"] for rule in rules() if "alert" in rule]
    text = page()
    assert [name for name in names if f"\n### {name}\n" not in text] == []
    assert "{{" not in text
    assert "from SGLang 0.5.18 on" in text
