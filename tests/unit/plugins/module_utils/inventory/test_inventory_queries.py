# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory import queries
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.findings import Finding
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.inventory.inventories import found, node

HOSTS = (node("gpu-1", rack="a"), node("gpu-2", rack="b", sglang_api_key="hunter2"))


def asked(query: str, **more: Any) -> list[Finding]:
    told = found(*HOSTS, queries=[{"name": "racks", "query": query, **more}])
    return [one for one in told if one.variable != "sglang_api_key"]


@pytest.mark.parametrize(
    ("query", "more"),
    [
        ("length(hosts)", {"expect": 2}),
        ("hosts[?contains(groups, 'sglang')].variables.rack", {"expect": ["a", "b"]}),
        ("groups.sglang", {"expect": ["gpu-1", "gpu-2"]}),
        ("hosts[?variables.rack == 'c'].name", {"expect": []}),
        ("hosts[?variables.rack == 'a']", {}),
        ("length(groups.sglang) > `1`", {}),
    ],
)
def test_what_is_met(query: str, more: dict[str, Any]) -> None:
    assert asked(query, **more) == []


def test_what_is_not_met_is_shown_with_what_was_expected() -> None:
    [one] = asked("hosts[?variables.rack != 'a'].name", expect=[], remedy="Move it.", severity="warning")
    assert (one.code, one.severity, one.found, one.expected, one.remedy) == (
        "query_not_met",
        "warning",
        'racks: ["gpu-2"]',
        "[]",
        "Move it.",
    )
    [one] = asked("hosts[?variables.rack == 'c']")
    assert (one.code, one.severity) == ("query_not_met", "error")


@pytest.mark.parametrize("query", ["hosts[?", "no_function(hosts)", "length(`1`)"])
def test_what_cannot_be_asked(query: str) -> None:
    [one] = asked(query)
    assert (one.code, one.severity) == ("query_impossible", "error")
    assert one.found.startswith("racks: ")


def test_keys_are_not_to_be_had_by_a_query() -> None:
    [one] = asked("hosts[].variables.sglang_api_key", expect=["x"])
    assert one.found == "racks: []"


def test_without_jmespath_it_is_said_with_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "HAS_JMESPATH", False)
    [one] = asked("length(hosts)")
    assert (one.code, one.variable) == ("python_library_missing", "validate_queries")
    assert "pip install jmespath" in one.remedy
    assert found(*HOSTS[:1]) == []
