# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.tools.markup import cell, code, to_markdown

MARKS = {
    "options and values are code": ("O(a_b=2), V(null), E(HOME), RV(x)", "`a_b=2`, `null`, `HOME`, `x`"),
    "an escaped parenthesis does not end a value": (r"V(f(x\)) is", "`f(x)` is"),
    "an option of another plugin is named without it": ("O(a.b.plan#module:host.ratio)", "`host.ratio`"),
    "a plugin is named without its type": ("P(a.b.c#filter) and M(d.e.f)", "`a.b.c` and `d.e.f`"),
    "letters": ("I(one) B(two) C(three)", "*one* **two** `three`"),
    "links": ("L(the guide, https://example.org/a_b) U(https://example.org)", None),
    "a mark inside of a word is none": ("GPIO(x) and VIEW(y)", "GPIO(x) and VIEW(y)"),
    "what is not marked stands for itself": ("1 * 2 < 3", r"1 \* 2 \< 3"),
    "signs inside of code stand for themselves": ("C(<a>*)", "`<a>*`"),
    "a reference has no page here": ("R(text, some_reference)", "text"),
}


@pytest.mark.parametrize("name", MARKS)
def test_markup(name: str) -> None:
    text, expected = MARKS[name]
    assert to_markdown(text) == (expected or "[the guide](https://example.org/a_b) <https://example.org>")


def test_code_holds_backticks() -> None:
    assert code("a `b` c") == "`` a `b` c ``"


def test_a_cell_is_one_line_and_has_no_bars() -> None:
    assert cell("one\n\ntwo `a|b`\nthree") == r"one<br>two `a\|b` three"
