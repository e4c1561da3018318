# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The tables of flags against what the parsers of all releases answered (oracle/flags.json), flag by flag, release by
release, and against a list beside the repository where it is at hand."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.flags import (
    choices_of,
    has_flag,
    known_flags,
    lifetimes,
    taken_from_file,
    takes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.plan_flags import (
    EXCLUDES_HICACHE,
    OWNED_FLAGS,
    SECRET_FLAGS,
    UNPLANNED_FLAGS,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases import flag_choices, flag_lifetimes
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import (
    EXAMINED,
    NEWEST,
    parse_version,
)
from ansible_collections.gpufleet.sglang.tests.conformance.flag_tables import spans_of, table_of, tables_of, there
from ansible_collections.gpufleet.sglang.tests.conformance.recorded_data import DATA, needs_recorded_data

RECORD = json.loads((Path(__file__).resolve().parent / "oracle" / "flags.json").read_text(encoding="utf-8"))
FLAGS: dict[str, list[list[Any]]] = RECORD["flags"]
RELEASES = [str(release) for release in EXAMINED]
# Where the list beside the repository names fields of ServerArgs rather than flags: (in the list, in the parsers). The
# fields have another cli_name (arg_groups/fields/, server_args.py A[..., Arg(cli_name=...)]), or no flag at all.
FIELDS_NOT_FLAGS = {
    "ep-join-mode": "elastic-ep-join-mode",
    "ep-join-rank-offset": "elastic-ep-join-rank-offset",
    "fp4-gemm-runner-backend": "fp4-gemm-backend",
    "fp8-gemm-runner-backend": "fp8-gemm-backend",
    "custom-sigquit-handler": None,
    "stat-loggers": None,
}
# Read by what comes before the parser; a plan is that file itself.
BEFORE_THE_PARSER = {"config"}


def facts_at(flag: str, release: str) -> dict[str, Any] | None:
    index = RELEASES.index(release)
    for first, last, facts in FLAGS[flag]:
        if RELEASES.index(first) <= index <= RELEASES.index(last):
            return dict(facts)
    return None


def test_every_release_answered() -> None:
    assert list(RECORD["source"]) == RELEASES
    assert len(FLAGS) >= 630


@pytest.mark.parametrize("release", RELEASES)
def test_every_flag_of_every_release(release: str) -> None:
    version, wrong = parse_version(release), []
    for flag in FLAGS:
        recorded = facts_at(flag, release)
        found = (has_flag(flag, version), taken_from_file(flag, version), choices_of(flag, version))
        if recorded is None:
            wanted: tuple[Any, ...] = (False, False, None)
            found = (*found[:2], None)
        else:
            choices = None if recorded["choices"] is None else tuple(sorted(recorded["choices"]))
            wanted = (True, recorded["in_file"] is not False, choices)
        if found != wanted:
            wrong.append((flag, found, wanted))
    assert wrong == []


def test_what_a_flag_takes_is_what_it_took_last() -> None:
    assert {flag: takes(flag) for flag in FLAGS} == {flag: history[-1][2]["takes"] for flag, history in FLAGS.items()}


def test_the_tables_are_those_of_the_record() -> None:
    assert list(flag_lifetimes.LIFETIMES) == table_of(FLAGS, there)
    for name, text in tables_of(FLAGS).items():
        module = flag_lifetimes if name == "flag_lifetimes.py" else flag_choices
        tables = [node for node in ast.parse(text).body if isinstance(node, (ast.Assign, ast.AnnAssign))]
        assert tables
        for node in tables:
            (target,) = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
            assert isinstance(target, ast.Name) and node.value is not None
            assert getattr(module, target.id) == ast.literal_eval(node.value)


def test_flags_that_a_plan_decides_exist() -> None:
    named = {*OWNED_FLAGS, *UNPLANNED_FLAGS, *EXCLUDES_HICACHE, *SECRET_FLAGS} - BEFORE_THE_PARSER
    # Some are no flags and only what argparse takes for one: the beginning of its name.
    assert sorted(flag for flag in named if not lifetimes(flag) and not known_flags(NEWEST, flag)) == []


@needs_recorded_data
def test_every_flag_of_the_list_beside_the_repository() -> None:
    recorded = json.loads((DATA / "sglang" / "flags-by-version.json").read_text(encoding="utf-8"))
    order, compared = recorded["versions"], 0
    wrong: list[tuple[Any, ...]] = []
    assert len(recorded["flags"]) == 636
    for option, row in recorded["flags"].items():
        flag = option[2:]
        if flag in FIELDS_NOT_FLAGS or flag in FIELDS_NOT_FLAGS.values() or flag in BEFORE_THE_PARSER:
            continue
        for release in RELEASES:
            listed = order.index(row["first"]) <= order.index(release) <= order.index(row["last"])
            listed = listed and release not in row.get("absent_between", ())
            compared += 1
            if has_flag(flag, parse_version(release)) != listed:
                wrong.append((flag, release, listed))
        for release, choices in row.get("choices_since", {}).items():
            # Choices of releases before the first that is read are those of an older parser.
            if release in RELEASES:
                found = choices_of(flag, parse_version(release))
                if sorted(map(str, choices or ())) != sorted(found or ()):
                    wrong.append((flag, release, choices, found))
    assert wrong == []
    assert compared > 17_000


@needs_recorded_data
def test_where_the_list_differs_it_names_a_field() -> None:
    recorded = json.loads((DATA / "sglang" / "flags-by-version.json").read_text(encoding="utf-8"))["flags"]
    for listed, real in FIELDS_NOT_FLAGS.items():
        assert f"--{listed}" in recorded
        newest = parse_version(recorded[f"--{listed}"]["last"])
        assert not has_flag(listed, newest)
        if real is not None:
            named = [row for row in FLAGS[real] if row[2]["field"] == listed.replace("-", "_")]
            field = spans_of(named, lambda facts: True)
            assert field and field[-1][1] == recorded[f"--{listed}"]["last"]
