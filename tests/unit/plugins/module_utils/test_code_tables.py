# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils import problems

PLUGINS = Path(problems.__file__).resolve().parent.parent
TABLES = [*PLUGINS.rglob("problem_codes.py"), *PLUGINS.rglob("refusal_codes.py")]
CODES: dict[str, problems.ProblemCode] = {
    code: entry
    for table in TABLES
    for code, entry in importlib.import_module(
        ".".join(
            (problems.__name__.rpartition(".")[0], *table.relative_to(PLUGINS / "module_utils").with_suffix("").parts)
        )
    ).CODES.items()
}


def stated_severities() -> set[tuple[str, str]]:
    """Code and severity of every Problem that is stated with both in plain words."""
    found: set[tuple[str, str]] = set()
    for path in PLUGINS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Problem":
                words = [word.value for word in node.args[:2] if isinstance(word, ast.Constant)]
                if len(words) == 2:
                    found.add((str(words[0]), str(words[1])))
    return found


@pytest.mark.parametrize("code", sorted(CODES))
def test_meaning_and_remedy_are_sentences(code: str) -> None:
    entry = CODES[code]
    assert entry.severity in problems.SEVERITIES
    for text in (entry.meaning, entry.remedy):
        assert text.endswith(".")
        assert "  " not in text
        assert "|" not in text


def test_a_problem_has_the_severity_of_its_table() -> None:
    stated = stated_severities()
    assert len(stated) > 20
    assert sorted(pair for pair in stated if CODES[pair[0]].severity != pair[1]) == []
