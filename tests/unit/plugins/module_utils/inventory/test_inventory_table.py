# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.findings import document, grave
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.table import table_lines
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.inventory.inventories import (
    found,
    node,
)

HOSTS = [
    *(node(f"gpu-{number:03}", sglang_hicache_rato=1) for number in range(1, 13)),
    node("gpu-013", probe_shw=True),
    node("bad\x1b[31m", sglang_device="rocm"),
]


def test_nothing_wrong() -> None:
    assert table_lines(document(found(node()), 1)) == ["1 host checked, none of them touched: nothing wrong"]


def test_a_row_for_each_kind_the_gravest_first_and_nothing_that_a_terminal_obeys() -> None:
    told = document(found(*HOSTS), len(HOSTS))
    lines = table_lines(told)
    rows = [line for line in lines if line.startswith(("error", "warning"))]
    assert [row.split()[:3] for row in rows] == [
        ["error", "variable_choice", "sglang_device"],
        ["error", "variable_unknown", "sglang_hicache_rato"],
        ["warning", "variable_unknown", "probe_shw"],
    ]
    assert rows[1].endswith("  12: gpu-001 to gpu-012")
    assert not any("\x1b" in line for line in lines)
    assert lines[-1] == "14 hosts checked, none of them touched: 2 errors, 1 warning on 14 of them"
    assert any("Found sglang_hicache_rato; expected a variable of sglang; the closest is" in line for line in lines)


def test_the_document_is_json_and_says_which_findings_fail_a_check() -> None:
    told = document(found(*HOSTS), len(HOSTS))
    assert json.loads(json.dumps(told)) == told
    assert told["summary"] == {"hosts": 14, "hosts_with_findings": 14, "error": 2, "warning": 1, "info": 0}
    assert set(told["findings"][0]) == {
        "code",
        "severity",
        "problem",
        "hosts",
        "variable",
        "found",
        "expected",
        "remedy",
    }
    assert grave(told, "error") == grave(told, "warning") == ["variable_choice", "variable_unknown"]
    assert grave(told, "never") == []
