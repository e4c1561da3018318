# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.facts import fleet_facts, redacted_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.html import joined, prose, tag
from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.page import COLUMNS, fleet_page
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.fleet_report.simulated import (
    KINDS,
    answer,
    hosts,
    simulated,
)

EVIL = "</td></script><script>alert(1)</script><img src=x onerror=alert(2)>\"' onmouseover='alert(3)' x=\""


class Seen(HTMLParser):
    """Elements and their attributes as a browser takes them; what a script or a style holds is text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def named(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for found, attributes in self.elements if found == name]


def details_of(page: str) -> list[str]:
    stored = re.search(r'<script type="application/json" id="details">(.*?)</script>', page, re.DOTALL)
    assert stored
    kept = json.loads(stored[1])
    return ["".join(kept["pieces"][piece] for piece in row) for row in kept["rows"]]


@pytest.mark.parametrize("count", [1, 25, 26, 60])
def test_a_page_is_well_formed_and_has_a_row_for_each_node(count: int) -> None:
    seen = Seen(fleet_page(simulated(count)))
    assert (seen.wrong, seen.open) == ([], [])
    rows = [one for one in seen.named("tbody") if one.get("class") == "row"]
    assert len(rows) == count
    assert len({one["data-node"] for one in rows}) == count
    assert len([one for one in seen.named("th") if one.get("data-key")]) == len(COLUMNS)
    # What opens is in the table where there are few, and beside it where there are many.
    assert len([one for one in seen.named("tr") if one.get("class") == "more"]) == (count if count <= 25 else 0)


def test_what_rows_hold_is_the_same_beside_the_table() -> None:
    document = simulated(26)
    details = details_of(fleet_page(document))
    few = {**document, "nodes": document["nodes"][:25]}
    page = fleet_page(few)
    assert len(details) == 26
    assert sum(detail in page for detail in details) >= 25
    assert all(Seen(detail).wrong == [] for detail in details)


def test_a_page_costs_little_for_each_node() -> None:
    page = fleet_page(simulated(300))
    seen = Seen(page)
    assert len(page) / 300 < 2600
    assert len(seen.elements) / 300 < 25
    told = " ".join(seen.texts)
    assert "285 of 300 nodes serve." in told
    assert "6 have failed" in told


def test_nothing_comes_from_outside_and_only_its_own_script_runs() -> None:
    page = fleet_page(simulated(30))
    seen = Seen(page)
    for name in ("link", "img", "iframe", "object", "embed", "base"):
        assert seen.named(name) == []
    assert not re.search(r"url\(|@import|src=|https?://", page)
    assert not re.search(r"\son[a-z]+=", page)
    [policy] = [one["content"] for one in seen.named("meta") if one.get("http-equiv")]
    [script] = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy and "default-src 'none'" in policy and f"script-src 'sha256-{digest}'" in policy


def poisoned(value: Any) -> Any:
    """Every text of a document with markup behind it, but for the words that decide what is drawn."""
    kept = {
        "kind",
        "state",
        "severity",
        "stage",
        "load_state",
        "active_state",
        "sub_state",
        "result",
        "device",
        "meter",
    }
    if isinstance(value, dict):
        return {name: part if name in kept else poisoned(part) for name, part in value.items()}
    if isinstance(value, list):
        return [poisoned(part) for part in value]
    return f"{value}{EVIL}" if isinstance(value, str) else value


@pytest.mark.parametrize("state", ["serves", "failed", "degraded", "unproven", "unreachable"])
@pytest.mark.parametrize("count", [1, 26])
def test_texts_of_others_stay_texts(state: str, count: int) -> None:
    said = {"unreachable": True, "msg": f"no {EVIL}"}
    if state != "unreachable":
        said = poisoned(answer(KINDS[0], state, random.Random(1)))
    document = fleet_facts(
        [{"inventory_hostname": f"n{number}{EVIL}", "report_answer": said} for number in range(count)]
    )
    page = fleet_page(document, title=f"t{EVIL}")
    for part in [page] if count == 1 else [page, *details_of(page)]:
        seen = Seen(part)
        assert seen.wrong == []
        assert "alert(1)" in " ".join(seen.texts) or part is not page
        for name, attributes in seen.elements:
            assert name not in ("img", "svg", "iframe")
            assert not any(key.startswith("on") for key in attributes)
        assert len(seen.named("script")) == (0 if part is not page else 1 if count == 1 else 2)
    assert "</script><script>alert" not in page


def test_an_old_look_or_half_a_ledger_does_not_break_the_page() -> None:
    said = answer(KINDS[0], "serves", random.Random(1))
    for part in ("proof", "startup", "failed"):
        said["instances"][0]["ledger"].pop(part)
    said["topology"]["gpus"], said["stack"] = [], {}
    page = fleet_page(fleet_facts([{"inventory_hostname": "old", "report_answer": {**said, "stack": {}}}]))
    assert Seen(page).wrong == []


def test_memory_planned_and_in_fact_stands_side_by_side() -> None:
    said = answer(KINDS[0], "serves", random.Random(1))
    told = " ".join(Seen(fleet_page(fleet_facts([{"inventory_hostname": "a", "report_answer": said}]))).texts)
    for place in range(8):
        assert f"GPU {place}" in told
    assert "GiB in use of" in told
    assert re.search(r"NUMA node 1 .*?534\.5 GB of 1,024\.0 GB 534\.5 GB pinned, 511\.\d GB available", told), told
    assert "whole host" in told
    assert "in all" in told


def test_a_redacted_page_tells_no_name_and_no_address() -> None:
    fleet = hosts(40)
    document = redacted_facts(fleet_facts(fleet))
    assert document["redacted"] is True
    page = fleet_page(document)
    text = page + json.dumps(document)
    for host in fleet:
        assert host["inventory_hostname"] not in text
        assert host["ansible_host"] not in text
    assert not re.search(r"GPU-[0-9a-f]{8}-", text)
    assert "node-001" in page and "node-040" in page


def test_elements_escape_all_but_elements() -> None:
    assert tag("p", "<&>", tag("b", "'"), None, ["x", tag("i")], class_='a"b', data_x=1, hidden=True, no=False) == (
        '<p class="a&quot;b" data-x="1" hidden>&lt;&amp;&gt;<b>&#x27;</b>x<i></i></p>'
    )
    assert prose("run `a < b` now") == "run <code>a &lt; b</code> now"
    assert prose("an odd ` mark") == "an odd ` mark"
    assert joined(["a\x00b\u202e"]) == "a b "
