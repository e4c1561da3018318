# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.plain import plain


@dataclass(frozen=True)
class Leaf:
    name: str
    size: int | None


@dataclass(frozen=True)
class Tree:
    leaves: tuple[Leaf, ...]
    counts: dict[str, int]


def test_dataclasses_and_tuples_become_what_json_can_hold() -> None:
    assert plain(Tree((Leaf("a", 1), Leaf("b", None)), {"x": 1})) == {
        "leaves": [{"name": "a", "size": 1}, {"name": "b", "size": None}],
        "counts": {"x": 1},
    }
    assert plain((("a",), ())) == [["a"], []]


def test_texts_come_out_as_a_terminal_may_show_them() -> None:
    assert plain(Tree((Leaf("a\x1b[31m\0", None),), {"x\n": 1})) == {
        "leaves": [{"name": "a [31m ", "size": None}],
        "counts": {"x ": 1},
    }
