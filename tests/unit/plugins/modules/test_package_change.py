# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of a change of packages, and what becomes of one that was not done."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.sglang.plugins.modules import package_change

# Half installed until it is configured; --audit says so.
DPKG = """\
#!/bin/sh
echo "dpkg $*" >>{calls}
case $1 in
  --configure) [ -e {stuck} ] || rm -f {half} ;;
  --audit) [ ! -e {half} ] || echo "The following packages are only half configured: cuda-toolkit-13-0" ;;
esac
"""
APT = """\
#!/bin/sh
echo "apt-get $*" >>{calls}
[ ! -e {half} ] || {{ echo "E: Unmet dependencies." >&2; exit 100; }}
"""


class Node:
    """Programs that stand in for dpkg and apt, and what they were called with."""

    def __init__(self, folder: Path) -> None:
        self.record = folder / "lib" / "packages_begun"
        self.half, self.stuck, self.calls = (folder / name for name in ("half", "stuck", "calls"))
        self.bin = folder / "bin"
        self.bin.mkdir()
        for name, text in (("dpkg", DPKG), ("apt-get", APT)):
            program = self.bin / name
            program.write_text(text.format(calls=self.calls, half=self.half, stuck=self.stuck), encoding="utf-8")
            program.chmod(0o755)

    def called(self) -> list[str]:
        return self.calls.read_text(encoding="utf-8").splitlines() if self.calls.exists() else []


@pytest.fixture(name="node")
def _node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    node = Node(tmp_path)
    monkeypatch.setattr(package_change, "RECORD", node.record)
    found = {name: str(node.bin / name) for name in ("dpkg", "apt-get")}
    monkeypatch.setattr(
        "ansible.module_utils.basic.AnsibleModule.get_bin_path",
        lambda _module, name: found[name] if Path(found[name]).exists() else None,
    )
    return node


def told(capsys: pytest.CaptureFixture[str], state: str, **more: Any) -> dict[str, Any]:
    with patch_module_args({"state": state, **more}), pytest.raises(SystemExit):
        package_change.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_a_change_that_is_done_leaves_nothing(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    nothing = told(capsys, "mended")
    assert (nothing["changed"], nothing["interrupted"]) == (False, False)
    assert told(capsys, "begun")["changed"] is True
    assert node.record.read_text(encoding="utf-8").endswith("is changing packages.\n")
    assert told(capsys, "begun")["changed"] is False
    assert told(capsys, "done")["changed"] is True
    assert not node.record.exists()
    assert told(capsys, "done")["changed"] is False
    assert node.called() == []


def test_what_was_begun_is_finished_and_forgotten(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "begun")
    node.half.touch()
    mended = told(capsys, "mended", lock_timeout_seconds=7)
    assert (mended["changed"], mended["interrupted"]) == (True, True), mended
    assert not node.record.exists()
    patient, finish, mend, *looks = node.called()
    assert patient == "apt-get -o DPkg::Lock::Timeout=7 check"
    assert finish.startswith("dpkg --configure -a")
    assert mend == "apt-get -o DPkg::Lock::Timeout=7 --fix-broken --yes install"
    assert looks == ["dpkg --audit", "apt-get check"]
    assert told(capsys, "mended")["changed"] is False


def test_what_cannot_be_finished_is_told_and_not_forgotten(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "begun")
    node.half.touch()
    node.stuck.touch()
    refused = told(capsys, "mended")
    assert refused["failed"] is True
    assert "only half configured: cuda-toolkit-13-0 E: Unmet dependencies. Expected none" in refused["msg"]
    assert node.record.exists()


def test_check_mode_tells_and_touches_nothing(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "begun", _ansible_check_mode=True)["changed"] is True
    assert not node.record.exists()
    told(capsys, "begun")
    node.half.touch()
    would = told(capsys, "mended", _ansible_check_mode=True)
    assert (would["changed"], would["interrupted"]) == (True, True)
    assert node.half.exists()
    assert node.record.exists()
    assert node.called() == []


def test_where_there_is_no_dpkg_the_record_alone_goes(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(node.bin)
    told(capsys, "begun")
    assert told(capsys, "mended")["changed"] is True
    assert not node.record.exists()


def test_a_folder_that_cannot_be_is_told(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.record.parent.write_text("a file", encoding="utf-8")
    refused = told(capsys, "begun")
    assert refused["failed"] is True
    assert "expected a folder in which root can write. No package was changed." in refused["msg"]
