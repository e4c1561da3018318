# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.roots import checked_root, is_this_machine


def refusal(root: str) -> Refusal:
    with pytest.raises(Refusal) as caught:
        checked_root(root, "proc and sys")
    return caught.value


def test_a_folder_is_taken(tmp_path: Path) -> None:
    assert checked_root(str(tmp_path), "proc and sys") == tmp_path
    assert checked_root("/", "proc and sys") == Path("/")


@pytest.mark.parametrize(
    ("root", "message"),
    [
        ("", "root is empty."),
        (" ", "root is empty."),
        ("machine", "root is machine, which is no absolute path."),
        ("../machine", "root is ../machine, which is no absolute path."),
    ],
)
def test_the_folder_of_the_task_is_never_meant(root: str, message: str) -> None:
    found = refusal(root)
    assert (found.code, found.message) == ("root_not_absolute", message)
    assert found.remedy == "Name the folder that holds the machine's proc and sys, from / on; / is this machine."


def test_what_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "circle").symlink_to("circle")
    for root in (f"{tmp_path}/absent", f"{tmp_path}/file", f"{tmp_path}/circle", "/" + "x" * 5000, "/a\0b"):
        found = refusal(root)
        assert found.code == "root_missing"
        assert len(found.message) < 400
    assert refusal("/a\x1b[31mb").message == "root is /a [31mb, which is no folder here."


@pytest.mark.parametrize("inside", ["", "/machine"])
def test_what_may_not_be_entered_names_become(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: str) -> None:
    root = f"{tmp_path}/closed{inside}"
    real = os.stat

    # Root may enter everything, so what others are told is told to it.
    def barred(path: Path, **how: bool) -> os.stat_result:
        if inside and str(path) == root:
            raise PermissionError(13, "Permission denied")
        return real(path, **how)

    Path(root).mkdir(parents=True)
    monkeypatch.setattr(os, "stat", barred)
    monkeypatch.setattr(Path, "stat", barred)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    found = refusal(root)
    assert (found.code, found.remedy) == (
        "root_unreadable",
        "Run the task with become, or give its user access to the folder.",
    )


def test_this_machine_in_any_spelling(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/")
    assert is_this_machine(Path("/"))
    assert is_this_machine(Path("/usr/.."))
    assert is_this_machine(tmp_path / "link")
    assert not is_this_machine(tmp_path)
    assert not is_this_machine(Path("/" + "x" * 5000))
