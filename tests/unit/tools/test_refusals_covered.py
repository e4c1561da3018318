# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""No refusal without a scenario that shows it: `make refusals` runs them, this looks that there is one for each."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import ProblemCode
from ansible_collections.gpufleet.sglang.tests.refusals import shown
from ansible_collections.gpufleet.sglang.tests.refusals.codes import Statement
from ansible_collections.gpufleet.sglang.tests.refusals.role_tasks import cases, of_file

TASKS: list[dict[str, Any]] = [
    {
        "name": "Get the key",
        "when": "wanted",
        "vars": {"expected": "a"},
        "block": [{"name": "Refuse another", "ansible.builtin.assert": {"that": "x", "fail_msg": "It is {{ x }}."}}],
        "rescue": [{"name": "Give up", "ansible.builtin.fail": {"msg": "No."}, "when": "never", "vars": {"y": 1}}],
    },
    {
        "name": "Refuse what no node can do",
        "ansible.builtin.assert": {"that": "item.holds", "fail_msg": "{{ item.found }}"},
        "loop": [{"holds": True, "found": "a is {{ a }}"}, {"holds": True, "found": "b"}],
    },
    {"name": "Go on", "ansible.builtin.debug": {"msg": "on"}},
]


def test_each_code_has_a_test_that_states_it() -> None:
    assert shown.codes_without_test() == []


def test_each_task_that_refuses_has_a_case() -> None:
    assert shown.tasks_without_case() == []


def test_tasks_are_found_in_blocks_and_for_each_demand_of_a_list() -> None:
    found = list(of_file("role", "file", TASKS))
    assert [one.name for one in found] == [
        "role/file: Refuse another",
        "role/file: Give up",
        "role/file: Refuse what no node can do [a is …]",
        "role/file: Refuse what no node can do [b]",
    ]
    # With the variables around it, and asked whatever the conditions around it are.
    assert [one.alone["vars"] for one in found[:2]] == [{"expected": "a"}, {"expected": "a", "y": 1}]
    assert not [one for one in found if "when" in one.alone]


def test_what_is_not_shown_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    here = "tests/unit/tools/test_refusals_covered.py::test_what_is_not_shown_is_named"
    known = {"a": here, "b": here, "gone": f"{here}_at_all", "old": here}
    monkeypatch.setattr(shown, "listed_tests", lambda: known)
    monkeypatch.setattr(shown, "tables", lambda: dict.fromkeys(("a", "b", "gone", "new"), ProblemCode("error", "", "")))
    missing = shown.codes_without_test()
    assert [line.split(" ")[0] for line in missing[:2]] == ["new", "old"]
    assert f"{here}_at_all, which showed gone, is not there." in missing[2]
    stated = [Statement("a", "No end", "Do.", here), Statement("b", "An end.", "", here)]
    assert [line for line in shown.codes_not_shown(stated) if line.startswith(("a ", "b "))] == [
        "b says 'An end.' and no remedy.",
        "a says 'No end', which is no sentence.",
    ]
    monkeypatch.setattr(shown, "refusals", lambda: list(of_file("role", "file", TASKS)))
    lines = shown.tasks_without_case()
    assert "role/file: Give up refuses, and no host of tests/refusals/hosts.yml shows it." in lines
    assert len(lines) == 4 + len(cases())


def test_a_case_shows_the_task_and_the_words_that_it_names() -> None:
    case = {"refused_by": "role/file: Refuse another [x is …]", "says": "It is\n  2."}
    assert shown.task_not_shown(case, {"task": "Refuse another", "says": "It is 2. Mend it."}) is None
    for said in (None, {"task": "Another", "says": "It is 2."}, {"task": "Refuse another", "says": "It is 3."}):
        assert shown.task_not_shown(case, said) is not None
