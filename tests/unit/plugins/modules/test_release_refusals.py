# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is refused of a release before and while it is installed, with programs of the test's own."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.sglang.plugins.module_utils.installation import look
from ansible_collections.gpufleet.sglang.plugins.modules import release_check, release_info, release_install


def any_python(asked: Any, python: Any) -> Any:
    """The interpreter of the test may be older than the release asks for, which would be refused first."""
    assert asked.version
    return python


def answer(module: Any, capsys: pytest.CaptureFixture[str], **options: Any) -> dict[str, Any]:
    with patch_module_args(options), pytest.raises(SystemExit):
        module.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def release(root: Path, **more: Any) -> dict[str, Any]:
    return {
        "install_root": str(root),
        "version": "0.5.23",
        "device": "cpu",
        "python": os.path.realpath("/proc/self/exe"),
        "requirements": "sglang==0.5.23",
        **more,
    }


@pytest.mark.parametrize(
    ("options", "code", "message", "remedy"),
    [
        (
            {"instance": "releases"},
            "instance_named_as_folder",
            "sglang_instance is releases, which is the folder of the environments.",
            "Expected another name",
        ),
        (
            {"instance": "main", "wheelhouse": "/nowhere/wheels"},
            "wheelhouse_missing",
            "There is no folder /nowhere/wheels on this node.",
            "unset sglang_wheelhouse to install from an index",
        ),
    ],
)
def test_what_is_refused_of_a_request(
    options: dict[str, Any],
    code: str,
    message: str,
    remedy: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(look, "checked_python", any_python)
    (refusal,) = answer(release_info, capsys, **release(tmp_path, **options))["refusals"]
    assert refusal["code"] == code
    assert refusal["message"] == message
    assert remedy in refusal["remedy"]


def test_only_what_is_installed_can_be_imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "releases" / "0.5.23-none"
    failure = answer(release_check, capsys, path=str(path), device="cpu", checked_for="cpu")["failure"]
    assert failure["code"] == "release_not_installed"
    assert failure["message"].startswith(f"{path} is not an environment that was installed to its end")
    assert "release_install" in failure["remedy"]


@pytest.mark.parametrize(
    ("script", "installer", "code", "message", "remedy"),
    [
        (
            'case "$*" in *"-m venv"*) echo "still at it"; exit 124;; esac',
            "pip",
            "install_timeout",
            "venv did not end within 7 s.",
            "raise sglang_install_timeout_seconds",
        ),
        (
            'case "$*" in *"pip install"*) echo "ERROR: No matching distribution found for uv==0.8.0"; exit 1;; esac',
            "uv",
            "uv_missing",
            "uv is not on this node, and pip could not install uv==0.8.0: pip found no wheel of uv==0.8.0",
            "Put the wheel of uv==0.8.0 there, or set sglang_installer to pip.",
        ),
    ],
)
def test_what_ends_an_installation_leaves_nothing_behind(
    script: str,
    installer: str,
    code: str,
    message: str,
    remedy: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Whatever the module runs to install goes through it.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "timeout").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (tmp_path / "bin" / "timeout").chmod(0o755)
    monkeypatch.setattr(release_install, "checked_python", any_python)
    kept = dict(os.environ)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    root = tmp_path / "opt"
    options = {"timeout_seconds": 7, "installer": installer, "uv_version": "0.8.0"}
    try:
        failure = answer(release_install, capsys, **release(root, **options))["failure"]
    finally:
        # The module takes away what would reach the installer.
        os.environ.update(kept)
    assert failure["code"] == code
    assert failure["message"].startswith(message)
    assert remedy in failure["remedy"]
    assert failure["evidence"]["output"]
    assert [path for path in (root / "releases").iterdir() if not path.name.startswith(".")] == []
