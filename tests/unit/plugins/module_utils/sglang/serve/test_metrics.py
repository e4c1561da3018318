# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.metrics import parse_metrics, values


def test_metrics_text() -> None:
    text = (
        "# TYPE sglang:x gauge\n"
        'sglang:x{model="a \\"b\\" }",tp_rank="0"} 8192.0\n'
        "sglang:x 1e3 1795971202000\n"
        'sglang:x{tp_rank="1"} NaN\n'
        "broken line here now\n"
        'sglang:y_bucket{le="+Inf"} +Inf\n'
    )
    samples = parse_metrics(text)
    assert [sample.name for sample in samples] == ["sglang:x", "sglang:x", "sglang:x", "sglang:y_bucket"]
    assert dict(samples[0].labels) == {"model": 'a \\"b\\" }', "tp_rank": "0"}
    assert values(samples, "sglang:x", tp_rank="0") == [8192.0]
    assert values(samples, "sglang:x")[1] == 1000.0
    assert values(samples, "sglang:z") == []
