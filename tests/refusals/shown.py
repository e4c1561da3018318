# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which scenario shows each refusal, and what it says there: as one table, and what is wrong with it in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.tests.refusals.codes import (
    MADE_BEFORE,
    Statement,
    is_there,
    listed_tests,
    tables,
)
from ansible_collections.gpufleet.sglang.tests.refusals.role_tasks import HOSTS, ROOT, cases, in_words, refusals

_FIND = "Write a test that states it, then run tools/refusals-shown --find FILE"


def codes_without_test() -> list[str]:
    """What the list of tests lacks or holds for nothing, without running any."""
    known, wanted = listed_tests(), tables()
    return [
        *(f"{code} is stated by no test that is known. {_FIND}." for code in wanted if code not in known),
        *(
            f"{code} is in no table of problems, and {Path(known[code]).name} is listed for it."
            for code in known
            if code not in wanted
        ),
        *(f"{test}, which showed {code}, is not there. {_FIND}." for code, test in known.items() if not is_there(test)),
    ]


def codes_not_shown(statements: Iterable[Statement]) -> list[str]:
    """What the listed tests did not state when they ran, or not as a sentence with what to do."""
    known = listed_tests()
    shown = {one.code: one for one in statements if known.get(one.code) == one.test}
    return [
        *(f"{known[code]} does not state {code}. {_FIND}." for code in known if code not in {*shown, *MADE_BEFORE}),
        *(f"{code} says {one.message!r} and no remedy." for code, one in shown.items() if not one.remedy.strip()),
        *(
            f"{code} says {one.message!r}, which is no sentence."
            for code, one in shown.items()
            if not _closed(one.message)
        ),
    ]


def _closed(message: str) -> bool:
    return message.rstrip().endswith((".", "…", ")", "'"))


def tasks_without_case() -> list[str]:
    wanted = [one.name for one in refusals()]
    given = {name: case["refused_by"] for name, case in cases().items()}
    where = HOSTS.relative_to(ROOT)
    return [
        *(f"{task} refuses, and no host of {where} shows it." for task in wanted if task not in given.values()),
        *(
            f"{name} of {where} is of no task that there is: {task}."
            for name, task in given.items()
            if task not in wanted
        ),
        *(f"{task} stands twice in its file." for task in sorted({task for task in wanted if wanted.count(task) > 1})),
        *(f"{name} of {where} does not say what is said." for name, case in cases().items() if not case.get("says")),
    ]


def task_not_shown(case: Mapping[str, Any], said: Mapping[str, str] | None) -> str | None:
    """Why a case does not show what it should; None where it does."""
    if said is None:
        return f"{case['refused_by']} was not refused."
    task = case["refused_by"].partition(": ")[2].partition(" [")[0]
    if task != said["task"]:
        return f"{case['refused_by']}: it failed at {said['task']}, which says: {said['says']}"
    if in_words(case["says"]) not in said["says"]:
        return f"{case['refused_by']} says: {said['says']} Expected: {in_words(case['says'])}"
    return None


def table(statements: Iterable[Statement], said: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Markdown: every code with its test, every task with its host, and the message of each."""
    known, wanted = listed_tests(), tables()
    shown = {one.code: one for one in statements if known.get(one.code) == one.test}
    rows = [
        (f"`{code}`", wanted[code].severity, known[code], f"{one.message} {one.remedy}")
        for code, one in sorted(shown.items())
    ]
    where = HOSTS.relative_to(ROOT)
    rows += [
        (case["refused_by"], "task", f"{where}: {name}", said[name]["says"])
        for name, case in cases().items()
        if name in said
    ]
    head = ["| what refuses | kind | scenario | what it says |", "| --- | --- | --- | --- |"]
    return [*head, *("| " + " | ".join(in_words(part).replace("|", "\\|") for part in row) + " |" for row in rows)]
