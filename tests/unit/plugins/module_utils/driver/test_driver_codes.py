# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Every code that a driver plan states has a meaning, and every meaning a code that is stated."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver import problem_codes
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import SEVERITIES

FOLDER = Path(problem_codes.__file__).resolve().parent
CODES = problem_codes.CODES


def calls() -> Iterator[tuple[str, str]]:
    """What Refusal and problem are called with first, in plain words."""
    for path in sorted(FOLDER.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args):
                continue
            first = node.args[0]
            if node.func.id in ("Refusal", "problem") and isinstance(first, ast.Constant):
                yield node.func.id, str(first.value)


def test_codes_and_meanings_are_the_same() -> None:
    stated = {code for _call, code in calls()}
    assert stated == set(CODES)


def test_refusals_are_errors_and_problems_before_the_change_are_not() -> None:
    for call, code in calls():
        if call == "Refusal":
            assert CODES[code].severity == "error", code
        elif not code.startswith("driver_verify_"):
            assert CODES[code].severity in ("info", "warning"), code


@pytest.mark.parametrize("code", sorted(CODES))
def test_meanings_and_remedies_are_sentences(code: str) -> None:
    entry = CODES[code]
    assert code.startswith("driver_")
    assert entry.severity in SEVERITIES
    for text in (entry.meaning, entry.remedy):
        assert text.endswith(".")
        assert "  " not in text
        assert "|" not in text
