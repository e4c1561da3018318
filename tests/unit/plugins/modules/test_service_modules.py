# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the modules for services read from a node and write on it, in folders of the test's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.sglang.plugins.modules import instances_info, keys_info, sandbox_check

SENTINEL = "sk-sentinel-77aa01"


def printed(capsys: pytest.CaptureFixture[str], module: Any, **arguments: Any) -> str:
    with patch_module_args(arguments), pytest.raises(SystemExit):
        module.main()
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return out


@pytest.mark.parametrize(("handed", "names"), [(SENTINEL, []), ("another", ["api_key"]), (None, [])])
def test_keys_are_compared_and_not_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    handed: str | None,
    names: list[str],
) -> None:
    unit = "sglang-main.service"
    monkeypatch.setattr(keys_info, "CREDENTIALS", tmp_path)
    file = tmp_path / "key"
    file.write_text(f"{SENTINEL}\n", encoding="utf-8")
    if handed is not None:
        (tmp_path / unit).mkdir()
        (tmp_path / unit / "api_key").write_text(handed, encoding="utf-8")
    out = printed(capsys, keys_info, unit=unit, files={"api_key": str(file)})
    assert json.loads(out)["differing"] == names
    assert SENTINEL not in out
    assert "another" not in out


def test_a_key_that_is_not_there_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = json.loads(printed(capsys, keys_info, unit="x.service", files={"api_key": str(tmp_path / "none")}))
    assert result["problems"] == ["The file of api_key is not there or is no file."]


def test_reservations_are_read_and_broken_ones_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(instances_info, "UNITS", tmp_path / "units")
    ports = {"http": {"first": 30000, "last": 30000, "address": "127.0.0.1"}}
    whole = {"schema": 1, "gpus": [0], "ports": ports}
    (tmp_path / "chat.reserved.json").write_text(json.dumps(whole), encoding="utf-8")
    (tmp_path / "half.reserved.json").write_text('{"schema": 1, "gpus"', encoding="utf-8")
    (tmp_path / "chat.yaml").write_text("{}", encoding="utf-8")
    result = json.loads(printed(capsys, instances_info, config_root=str(tmp_path)))
    assert result["reserved"] == {"chat": {"gpus": [0], "ports": ports}}
    assert result["units"] == {}


def test_the_trial_has_the_units_drop_ins_and_goes_without_a_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    units, trials = tmp_path / "etc", tmp_path / "run"
    monkeypatch.setattr(sandbox_check, "UNITS", units)
    monkeypatch.setattr(sandbox_check, "TRIALS", trials)
    (units / "a.service.d").mkdir(parents=True)
    (units / "a.service").write_text("[Service]\nExecStart=/bin/server\nUser=x\n", encoding="utf-8")
    (units / "a.service.d" / "10.conf").write_text(
        "[Service]\nExecStartPre=/bin/y\nPrivateNetwork=yes\n", encoding="utf-8"
    )
    output = tmp_path / "out"
    output.touch()
    sandbox_check.write_trial("a.service", "trial-a.service", "/bin/probe", output)
    written = (trials / "trial-a.service").read_text(encoding="utf-8")
    assert "User=x" in written
    assert "/bin/server" not in written
    assert (trials / "trial-a.service.d" / "10.conf").read_text(encoding="utf-8") == "[Service]\nPrivateNetwork=yes\n"
    sandbox_check.remove_trial("trial-a.service", [output])
    assert list(trials.iterdir()) == []
    assert not output.exists()
