# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filters that work on sets give their members in another order in each run.

Where that reaches a node or a person, a run differs from the one before without a reason: peers are asked in another
order, packages are listed in another one. Whoever wants what one list has and another has not, says
C(reject('in', other)).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SETS = re.compile(r"\|\s*(?:ansible\.builtin\.)?(?:difference|intersect|symmetric_difference|union)\b")


def unordered(text: str) -> list[str]:
    """The uses whose order is left to chance, with what follows each."""
    by_chance = [found.start() for found in SETS.finditer(text) if not ordered(text[found.end() :])]
    return [" ".join(text[start : start + 80].split()) for start in by_chance]


def ordered(rest: str) -> bool:
    """Whether what follows the name of the filter begins with its arguments, and then sorts or counts."""
    depth = 0
    for place, sign in enumerate(rest):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return re.match(r"\s*\|\s*(sort|length)\b", rest[place + 1 :]) is not None
    return False


@pytest.mark.parametrize(
    "text, found",
    [
        ("{{ a | difference(b) | sort }}", []),
        ("{{ a | difference(b | map('split', ',') | list) | length > 0 }}", []),
        ("{{ a | difference(b) }}", ["| difference(b) }}"]),
        ("{{ a\n  | union(b) | first }}", ["| union(b) | first }}"]),
        ("{{ a | ansible.builtin.intersect(b | sort) | join }}", ["| ansible.builtin.intersect(b | sort) | join }}"]),
    ],
)
def test_a_use_whose_order_is_left_to_chance_is_found(text: str, found: list[str]) -> None:
    assert unordered(text) == found


def test_no_list_of_a_role_or_playbook_has_an_order_left_to_chance() -> None:
    files = [file for folder in ("roles", "playbooks") for file in (ROOT / folder).rglob("*.yml")]
    assert len(files) > 100
    assert {str(file.relative_to(ROOT)): told for file in files if (told := unordered(file.read_text("utf-8")))} == {}
