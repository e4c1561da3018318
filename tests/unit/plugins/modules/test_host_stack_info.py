# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The module as a whole, in this process, and its documentation against what it returns."""

import json
import re
import stat
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import Stack
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.packages import KINDS
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.problem_codes import CODES
from ansible_collections.gpufleet.sglang.plugins.modules import host_stack_info
from ansible_collections.gpufleet.sglang.rehearsal import machine_tree
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.stack.trees import rhel, ubuntu

MACHINES = Path(machine_tree.__file__).resolve().parent / "machines"
DOCUMENTED: dict[str, Any] = yaml.safe_load(host_stack_info.RETURN)


def run_here(capsys: pytest.CaptureFixture[str], **options: Any) -> dict[str, Any]:
    with patch_module_args(options), pytest.raises(SystemExit):
        host_stack_info.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def codes(result: dict[str, Any]) -> list[str]:
    return [problem["code"] for problem in result["problems"]]


def test_a_recorded_ubuntu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_here(capsys, root=str(ubuntu(tmp_path)))
    assert result["changed"] is False
    assert (result["os"]["version_id"], result["next_boot"]["kernel"]) == ("24.04", "6.17.0-22-generic")
    assert result["driver"]["loaded"]["version"] == "595.58.03"
    assert codes(result) == ["reboot_required"]


def test_check_mode_reads_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = str(ubuntu(tmp_path))
    plain = run_here(capsys, root=root)
    checked = run_here(capsys, root=root, _ansible_check_mode=True)
    assert {**plain, "invocation": None} == {**checked, "invocation": None}


def test_rhels_packages_come_from_rpm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin/rpm"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\nprintf "kmod-nvidia-open-dkms\\t3\\t595.58.03\\t1.el9\\tnoarch\\n"\n', encoding="utf-8"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    result = run_here(capsys, root=str(rhel(tmp_path / "root")))
    assert [(entry["name"], entry["held"]) for entry in result["packages"]] == [("kmod-nvidia-open-dkms", True)]
    assert result["driver"]["releases"]["packages"] == ["595.58.03"]


@pytest.mark.parametrize("root", ["", ".", "machine"])
def test_the_folder_that_the_task_runs_in_is_never_read(capsys: pytest.CaptureFixture[str], root: str) -> None:
    result = run_here(capsys, root=root)
    assert (result["failed"], result["failure"]["code"]) == (True, "root_not_absolute")
    assert result["failure"]["remedy"].startswith("Name the folder that holds the machine's etc, proc and sys")


def test_a_root_that_is_none_fails_with_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_here(capsys, root=str(tmp_path / "absent"))
    assert (result["failed"], result["failure"]["code"]) == (True, "root_missing")
    assert str(tmp_path / "absent") in result["msg"]


@pytest.mark.parametrize("profile", sorted(MACHINES.glob("*.yml")), ids=lambda path: path.stem)
def test_every_machine_profile_can_be_read(profile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine_tree.build_tree(machine_tree.load_profile(profile), tmp_path / "machine")
    result = run_here(capsys, root=str(tmp_path / "machine"))
    assert result["running_kernel"]
    assert set(codes(result)) <= set(CODES)
    assert result["unreadable"] == []


def test_this_machine_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    result = run_here(capsys)
    assert result["running_kernel"] == Path("/proc/sys/kernel/osrelease").read_text(encoding="utf-8").strip()
    assert result["memory"]["total_bytes"] > 0
    assert result["limits"]["memlock"]["process"]["source"] == "/proc/self/limits"


# Documentation --------------------------------------------------------------------------------------------------------


def parts_of(annotation: Any) -> tuple[str, Any]:
    """The type as RETURN names it, and the dataclass inside; None is left out of an optional type."""
    if get_origin(annotation) in (Union, UnionType):
        (inner,) = [each for each in get_args(annotation) if each is not NoneType]
        return parts_of(inner)
    if get_origin(annotation) is tuple:
        return "list", parts_of(get_args(annotation)[0])[1]
    if get_origin(annotation) is dict or is_dataclass(annotation):
        return "dict", annotation if is_dataclass(annotation) else None
    return {str: "str", int: "int", bool: "bool"}[annotation], None


def differences(kind: Any, documented: dict[str, Any], place: str = "") -> Iterator[str]:
    hints = get_type_hints(kind)
    names = {field.name for field in fields(kind)}
    for name in sorted(names ^ set(documented)):
        yield f"{place}{name} is {'not documented' if name in names else 'documented and does not exist'}"
    for name in sorted(names & set(documented)):
        entry = documented[name]
        told, inside = parts_of(hints[name])
        if entry["type"] != told:
            yield f"{place}{name} is {told} and not {entry['type']}"
        if not entry.get("description"):
            yield f"{place}{name} has no description"
        if inside is not None:
            yield from differences(inside, entry.get("contains", {}), f"{place}{name}.")
        elif "sample" not in entry:
            yield f"{place}{name} has no sample"


def test_every_field_is_documented_and_no_other() -> None:
    assert list(differences(Stack, DOCUMENTED)) == []


def test_samples_name_codes_that_exist() -> None:
    sample = DOCUMENTED["problems"]["contains"]
    entry = CODES[sample["code"]["sample"]]
    assert (sample["severity"]["sample"], sample["remedy"]["sample"]) == (entry.severity, entry.remedy)


def test_words_of_the_documentation_are_those_of_the_code() -> None:
    described = DOCUMENTED["packages"]["contains"]["kind"]["description"]
    assert set(re.findall(r"V\((\w+)\)", described)) == set(KINDS)
