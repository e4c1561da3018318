# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is refused while a bundle is made or checked, with programs of the test's own in the place of apt and gpg."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.sglang.plugins.module_utils.bundle.contents import MANIFEST, manifest_text
from ansible_collections.gpufleet.sglang.plugins.modules import bundle_debs, bundle_seal, bundle_verify, bundle_wheels

SOURCES = "deb http://deb.example.org/debian bookworm main"


@pytest.fixture(name="programs")
def _programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def program(folder: Path, name: str, script: str = "exit 0") -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


def refused(module: Any, capsys: pytest.CaptureFixture[str], **options: Any) -> dict[str, Any]:
    with patch_module_args(options), pytest.raises(SystemExit):
        module.main()
    result = json.loads(capsys.readouterr().out)
    assert result["failed"] is True, result
    failure: dict[str, Any] = result["failure"]
    assert result["msg"] == f"{failure['message']} {failure['remedy']}"
    return failure


def debs(capsys: pytest.CaptureFixture[str], dest: Path, **options: Any) -> dict[str, Any]:
    given = {"dest": str(dest), "packages": ["numactl", "numactll"], "suite": "bookworm", **options}
    failure = refused(bundle_debs, capsys, **given)
    assert not dest.exists()
    return failure


@pytest.mark.parametrize("there", [(), ("apt-get",)])
def test_packages_are_fetched_where_there_is_apt(
    there: tuple[str, ...], programs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in there:
        program(programs, name)
    failure = debs(capsys, tmp_path / "debs")
    assert failure["code"] == "bundle_tool_missing"
    assert failure["message"] == f"{'dpkg-deb' if there else 'apt-get'} is not on this machine."
    assert "leave bundle_packages empty" in failure["remedy"]


def test_a_machine_without_sources_of_the_suite_needs_to_be_told_some(
    programs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("apt-get", "dpkg-deb"):
        program(programs, name)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "os-release").write_text("VERSION_CODENAME=trixie\n", encoding="utf-8")
    monkeypatch.setattr(bundle_debs, "_ETC", tmp_path / "etc")
    failure = debs(capsys, tmp_path / "debs")
    assert failure["code"] == "bundle_sources_missing"
    assert failure["message"] == "This machine has no source of bookworm of its own."
    assert "bundle_apt_sources, such as 'deb http" in failure["remedy"]


@pytest.mark.parametrize(
    ("fails", "says", "code", "message"),
    [
        (
            "update",
            "E: The repository 'http://deb.example.org/debian bookworm Release' does not have a Release file.",
            "bundle_packages_missing",
            "The sources of packages cannot be read: The repository",
        ),
        (
            "--download-only",
            "E: Unable to locate package numactll",
            "bundle_packages_missing",
            "bookworm does not have all of what is asked for: numactll.",
        ),
        (
            "--simulate",
            " numactl : Depends: libnuma1 (= 2.0.16-1) but it is not installable",
            "bundle_packages_incomplete",
            "cannot be installed from it alone: libnuma1",
        ),
    ],
)
def test_what_apt_cannot_do_is_said_with_what_it_lacks(
    fails: str, says: str, code: str, message: str, programs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program(programs, "dpkg-deb")
    program(programs, "apt-get", f'case "$*" in *{fails}*) echo "{says}" >&2; exit 100;; esac')
    failure = debs(capsys, tmp_path / "debs", sources=SOURCES)
    assert failure["code"] == code
    assert message in failure["message"]
    assert failure["remedy"]


def test_wheels_that_do_not_suffice_are_no_bundle(
    programs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Every installer is called by it: one that downloads a wheel, and cannot install it.
    wheel = "einops-0.8.2-py3-none-any.whl"
    program(
        programs,
        "timeout",
        f'case "$*" in *--dry-run*) echo "ERROR: No matching distribution found for einops==0.8.2"; exit 1;; esac\n'
        f'for word; do [ "$before" != --dest ] || : >"$word/{wheel}"; before=$word; done',
    )
    options = {"requirements": "einops==0.8.2", "resolve": False, "python_version": "3.11"}
    failure = refused(bundle_wheels, capsys, dest=str(tmp_path / "wheels"), **options)
    assert failure["code"] == "bundle_wheels_incomplete"
    assert "alone: pip found no wheel of einops==0.8.2 for this node." in failure["message"]
    assert not (tmp_path / "wheels").exists()


def sealed(folder: Path) -> Path:
    folder.mkdir()
    (folder / MANIFEST).write_text(manifest_text([], {}), encoding="utf-8")
    return folder


def test_a_bundle_is_signed_by_gpg_with_a_key_that_it_has(
    programs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "bundle"
    folder.mkdir()
    options = {"path": str(folder), "sign_with": "0123456789ABCDEF"}
    failure = refused(bundle_seal, capsys, **options)
    assert (failure["code"], failure["message"]) == ("bundle_tool_missing", "gpg is not on this machine.")
    (folder / MANIFEST).unlink()
    program(programs, "gpg", "echo 'gpg: signing failed: No secret key' >&2; exit 2")
    failure = refused(bundle_seal, capsys, **options)
    assert failure["code"] == "bundle_signature"
    assert failure["message"] == "gpg cannot sign with 0123456789ABCDEF: gpg: signing failed: No secret key."
    assert "gpg --list-secret-keys" in failure["remedy"]


def test_a_bundle_is_used_only_with_a_good_signature(
    programs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = sealed(tmp_path / "bundle")
    options = {"path": str(folder), "keyring": "/etc/fleet.gpg"}
    failure = refused(bundle_verify, capsys, **options)
    assert failure["code"] == "bundle_tool_missing"
    assert failure["message"] == "Neither gpgv nor sqv is on this machine."
    program(programs, "gpgv", "echo 'gpgv: BAD signature from somebody' >&2; exit 1")
    failure = refused(bundle_verify, capsys, **options)
    assert (failure["code"], failure["message"]) == ("bundle_signature", f"The manifest of {folder} is not signed.")
    assert "/etc/fleet.gpg" in failure["remedy"]
    (folder / f"{MANIFEST}.asc").touch()
    failure = refused(bundle_verify, capsys, **options)
    assert failure["code"] == "bundle_signature"
    assert failure["message"] == (
        f"The signature of the manifest of {folder} is not good: gpgv: BAD signature from somebody."
    )
