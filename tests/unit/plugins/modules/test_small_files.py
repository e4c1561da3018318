# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import grp
import json
import os
import pwd
import stat
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.sglang.plugins.modules import small_files

ME = {"owner": pwd.getpwuid(os.geteuid()).pw_name, "group": grp.getgrgid(os.getegid()).gr_name}
SECRET = "TOKEN=sentinel-0123456789\n"


def run(capsys: pytest.CaptureFixture[str], **options: Any) -> dict[str, Any]:
    with patch_module_args(options), pytest.raises(SystemExit):
        small_files.main()
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def text(path: Path, content: str, **more: Any) -> dict[str, Any]:
    return {"path": str(path), "content": content, **ME, **more}


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_set_is_made_and_a_second_call_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, gone = tmp_path / "etc" / "sglang", tmp_path / "gone"
    gone.touch()
    wanted = {
        "folders": [{"path": str(folder), "mode": "0750", **ME}],
        "files": [text(folder / "main.yaml", "tp: 2\n", mode="0640")],
        "absent": [str(gone), str(tmp_path / "never")],
    }
    first = run(capsys, **wanted)
    assert first["changed"]
    assert first["paths"] == [str(folder), str(folder / "main.yaml"), str(gone)]
    assert first["made"] == [str(folder)]
    assert (mode_of(folder), mode_of(folder / "main.yaml")) == (0o750, 0o640)
    assert (folder / "main.yaml").read_text() == "tp: 2\n"
    assert list(folder.iterdir()) == [folder / "main.yaml"]
    second = run(capsys, **wanted)
    assert (second["changed"], second["paths"], second["made"]) == (False, [], [])


def test_check_mode_tells_and_does_nothing_even_for_a_user_to_come(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "none" / "main.yaml"
    file = {**text(path, "tp: 2\n"), "owner": "nobody-by-this-name"}
    told = run(capsys, files=[file], _ansible_check_mode=True, _ansible_diff=True)
    assert (told["changed"], told["paths"]) == (True, [str(path)])
    assert told["diff"] == [{"before_header": str(path), "after_header": str(path), "before": "", "after": "tp: 2\n"}]
    assert not path.parent.exists()


def test_a_user_who_is_not_there_is_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stranger = {**text(tmp_path / "second", "2\n"), "group": "no-group-by-this-name"}
    told = run(capsys, files=[text(tmp_path / "first", "1\n"), stranger])
    assert "There is no group no-group-by-this-name" in told["msg"]
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_validate_leaves_all_files_as_they_were(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("old\n")
    told = run(capsys, files=[text(first, "new\n"), text(second, "bad\n", validate="grep good %s")])
    assert "Expected grep to accept it. None of the files was changed." in told["msg"]
    assert first.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [first]
    done = run(capsys, files=[text(first, "new\n"), text(second, "good\n", validate="grep good %s")])
    assert done["paths"] == [str(first), str(second)]


def test_what_is_not_written_is_not_validated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "first"
    path.write_text("bad\n")
    path.chmod(0o644)
    assert not run(capsys, files=[text(path, "bad\n", validate="grep good %s")])["changed"]


def test_a_secret_is_in_nothing_that_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "main.env"
    file = {"path": str(path), "secret": SECRET, "mode": "0600", **ME}
    told = run(capsys, files=[file], _ansible_diff=True)
    assert path.read_text() == SECRET
    assert mode_of(path) == 0o600
    assert "sentinel" not in json.dumps(told)
    assert told["diff"][0]["after"] == "(differs, and is not shown)\n"
    path.write_text("TOKEN=another-sentinel\n")
    assert "sentinel" not in json.dumps(run(capsys, files=[file], _ansible_diff=True, _ansible_check_mode=True))


@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_modes_are_not_the_umask_s(tmp_path: Path, capsys: pytest.CaptureFixture[str], umask: int) -> None:
    folder = tmp_path / "new"
    before = os.umask(umask)
    try:
        run(capsys, folders=[{"path": str(folder), **ME}], files=[text(folder / "file", "1\n")])
    finally:
        os.umask(before)
    assert (mode_of(folder), mode_of(folder / "file")) == (0o755, 0o644)


def test_what_a_run_that_was_killed_left_is_replaced_and_a_link_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, elsewhere = tmp_path / "file", tmp_path / "elsewhere"
    elsewhere.write_text("kept\n")
    path.symlink_to(elsewhere)
    (tmp_path / ".file.new").symlink_to(elsewhere)
    assert run(capsys, files=[text(path, "own\n")])["changed"]
    assert (path.is_symlink(), path.read_text(), elsewhere.read_text()) == (False, "own\n", "kept\n")
    assert sorted(tmp_path.iterdir()) == [elsewhere, path]


def test_a_folder_may_be_a_link_and_a_file_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    real.chmod(0o755)
    link.symlink_to(real)
    assert not run(capsys, folders=[{"path": str(link), **ME}])["changed"]
    assert "is a folder; expected a file" in run(capsys, files=[text(real, "1\n")])["msg"]
    (real / "file").touch()
    assert "is no folder" in run(capsys, folders=[{"path": str(real / "file"), **ME}])["msg"]


def test_a_mode_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = run(capsys, files=[text(tmp_path / "file", "1\n", mode="rw")])
    assert "expected octal digits such as 0644" in told["msg"]
