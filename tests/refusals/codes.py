# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which test states each code of the tables of problems, as runs have shown: tests/refusals/codes.json holds them."""

from __future__ import annotations

import ast
import functools
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import ProblemCode
from ansible_collections.gpufleet.sglang.tests.refusals.recorder import STATED

ROOT = Path(__file__).resolve().parents[2]
TESTS = Path(__file__).resolve().with_name("codes.json")
# Made when a plugin is loaded, before there is a test to note; the test asserts what is said.
MADE_BEFORE = {
    "node_rebooted": "tests/unit/plugins/action/test_wait_for_startup.py::test_node_that_was_rebooted_is_said_so",
}
_PACKAGE = "ansible_collections.gpufleet.sglang"
_TABLES = ROOT / "plugins" / "module_utils"


@dataclass(frozen=True)
class Statement:
    """C(test): file and function, without the parameters."""

    code: str
    message: str
    remedy: str
    test: str


def tables() -> dict[str, ProblemCode]:
    """Every code that a person can meet, of all tables."""
    names = sorted(
        path.relative_to(_TABLES).with_suffix("").as_posix().replace("/", ".")
        for name in ("problem_codes.py", "refusal_codes.py")
        for path in _TABLES.rglob(name)
    )
    return {
        code: meant
        for name in names
        for code, meant in importlib.import_module(f"{_PACKAGE}.plugins.module_utils.{name}").CODES.items()
    }


def listed_tests() -> dict[str, str]:
    known: dict[str, str] = json.loads(TESTS.read_text(encoding="utf-8"))
    return known


def stated(tests: Iterable[str], work: Path) -> list[Statement]:
    """Runs tests, and returns what the plugins stated in them."""
    record = work / "stated.jsonl"
    record.touch()
    # Of the checkout that this file is in, under the name that its tests import it by.
    collections = next(parent for parent in Path(__file__).absolute().parents if parent.name == "ansible_collections")
    done = subprocess.run(
        # Where others run tests as well, pytest's own place for folders is cleared of theirs at the end, for minutes.
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={work / 'pytest'}"]
        + ["-p", f"{_PACKAGE}.tests.refusals.recorder", *tests],
        cwd=collections / "gpufleet" / "sglang",
        env={**os.environ, "PYTHONPATH": str(collections.parent), STATED: str(record)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"Tests of refusals failed:\n{done.stdout[-6000:]}{done.stderr[-2000:]}")
    lines = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    return [Statement(one["code"], one["message"], one["remedy"], one["test"].partition("[")[0]) for one in lines]


@functools.cache
def functions_of(file: str) -> frozenset[str]:
    """The tests of a file; empty where there is none."""
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef))


def is_there(test: str) -> bool:
    """C(test) is file::function, or file::class::function."""
    return test.rpartition("::")[2] in functions_of(test.partition("::")[0])


@functools.cache
def _text(file: str) -> str:
    path = ROOT / file
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def chosen(statements: Collection[Statement], known: Mapping[str, str]) -> dict[str, str]:
    """A test for each code: the one that is known as long as it is there, else the most telling of those that state it.

    That is one whose file has the code or words of its message, and which states few others.
    """
    codes_of: dict[str, set[str]] = {}
    for one in statements:
        codes_of.setdefault(one.test, set()).add(one.code)
    best: dict[str, tuple[bool, int, str]] = {}
    for one in statements:
        telling = f'"{one.code}"' in _text(one.test.partition("::")[0])
        rank = (not telling, len(codes_of[one.test]), one.test)
        best[one.code] = min(best.get(one.code, rank), rank)
    wanted = tables()
    found = {code: test for code, (_telling, _count, test) in best.items() if code in wanted and is_there(test)}
    kept = {code: test for code, test in known.items() if code in wanted and is_there(test)}
    return dict(sorted({**found, **kept, **MADE_BEFORE}.items()))
