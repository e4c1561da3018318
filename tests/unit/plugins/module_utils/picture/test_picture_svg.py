# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.picture.svg import (
    element,
    escaped,
    number,
    round_steps,
    text_width,
)


@pytest.mark.parametrize(
    "raw", ["<script>alert(1)</script>", "a & b", "\"quoted\" 'too'", "]]>", "x\x00y\x1bz\ufffe\ud800"]
)
def test_text_cannot_become_markup(raw: str) -> None:
    parsed = ElementTree.fromstring(element("text", raw, title=raw))
    shown = "".join(mark if mark.isprintable() else " " for mark in raw)
    assert (parsed.text, parsed.get("title"), list(parsed)) == (shown, shown, [])


def test_elements_within_are_kept() -> None:
    parsed = ElementTree.fromstring(element("g", [element("rect", width=2.5), element("text", "a<b")], class_="bar"))
    assert [child.tag for child in parsed] == ["rect", "text"]
    assert (parsed.get("class"), parsed[0].get("width"), parsed[1].text) == ("bar", "2.5", "a<b")
    assert element("rect", stroke_width=1) == '<rect stroke-width="1"/>'
    assert escaped("a&b") == "a&amp;b"


@pytest.mark.parametrize(("value", "told"), [(0, "0"), (12.0, "12"), (0.1234, "0.123"), (1.2, "1.2"), (100, "100")])
def test_numbers_are_short(value: float, told: str) -> None:
    assert number(value) == told


@pytest.mark.parametrize(
    ("largest", "steps"),
    [
        (95.6, [0, 20, 40, 60, 80]),
        (396, [0, 100, 200, 300]),
        (7, [0, 1, 2, 3, 4, 5, 6, 7]),
        (0.5, [0, 0.1, 0.2, 0.3, 0.4, 0.5]),
        (3000, [0, 500, 1000, 1500, 2000, 2500, 3000]),
        (0, [0]),
    ],
)
def test_axes_count_in_round_steps(largest: float, steps: list[float]) -> None:
    assert round_steps(largest, 7) == pytest.approx(steps)


def test_wider_text_takes_more() -> None:
    assert text_width("wider", 11) > text_width("wide", 11) > 0
