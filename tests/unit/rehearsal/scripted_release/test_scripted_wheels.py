# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The wheels and the wheelhouse: reproducible, right in their records, and what the role asks of a release."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.asked import Asked, NodePython, Wheelhouse
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.imports import (
    PROGRAM,
    read_imports,
    wanted_modules,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.node import read_sums
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.release import planned_release
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.wheels import Target, parse_wheel
from ansible_collections.gpufleet.sglang.rehearsal.scripted_release.__main__ import fill
from ansible_collections.gpufleet.sglang.rehearsal.scripted_release.contents import sglang_wheel, wheelhouse

LAUNCHER = Path(__file__).resolve().parents[4] / "roles" / "sglang" / "files" / "launch_with_keys.py"
RELEASES = ("0.5.3", "0.5.7", "0.5.8", "0.5.23")
FILES = wheelhouse("0.5.23")
WHEELS = [name for name in FILES if name.endswith(".whl")]
# What stands behind the release's modules without playing anything: the arguments and the keys that reach the server.
TELL = """
import json, sys, types
stand_in = types.ModuleType("ansible_collections.gpufleet.sglang.rehearsal.scripted_release.serving")
stand_in.app_of = lambda release, arguments: {"release": release, "told": {**vars(arguments)}, "http": {}}
stand_in.guard_app = lambda app, *keys: app["http"].update(keys=keys)
stand_in.serve = lambda app: print(json.dumps(app))
sys.modules[stand_in.__name__] = stand_in
"""


def unpacked(files: Mapping[str, bytes], folder: Path) -> Path:
    for name in files:
        if name.endswith(".whl"):
            zipfile.ZipFile(io.BytesIO(files[name])).extractall(folder)
    return folder


def run_with(folder: Path, words: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", **variables}
    return subprocess.run(
        [sys.executable, *words], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )


def test_the_same_bytes_each_time() -> None:
    assert wheelhouse("0.5.23") == FILES


@pytest.mark.parametrize("name", WHEELS)
def test_a_record_names_every_file_with_its_digest_and_size(name: str) -> None:
    archive = zipfile.ZipFile(io.BytesIO(FILES[name]))
    (record,) = (path for path in archive.namelist() if path.endswith(".dist-info/RECORD"))
    rows = list(csv.reader(io.StringIO(archive.read(record).decode())))
    assert [path for path, _digest, _size in rows] == archive.namelist()
    for path, digest, size in rows:
        content = archive.read(path)
        expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        assert [digest, size] == (["", ""] if path == record else [f"sha256={expected}", str(len(content))])


def test_entries_are_of_one_time_and_readable_by_all() -> None:
    for name in WHEELS:
        for entry in zipfile.ZipFile(io.BytesIO(FILES[name])).infolist():
            assert (entry.date_time, entry.external_attr >> 16) == ((2026, 1, 1, 0, 0, 0), 0o100644)
            assert entry.compress_type == zipfile.ZIP_STORED


@pytest.mark.parametrize("python", [(3, 11), (3, 13)])
def test_the_role_takes_the_wheelhouse_with_its_own_pins_and_digests(python: tuple[int, int]) -> None:
    sums = read_sums(FILES["SHA256SUMS"].decode())
    assert sums == {
        name: hashlib.sha256(content).hexdigest() for name, content in FILES.items() if name != "SHA256SUMS"
    }
    there = Wheelhouse(
        wheels=tuple(wheel for wheel in map(parse_wheel, FILES) if wheel),
        sums=sums,
        requirements=FILES["requirements.txt"].decode(),
    )
    asked = Asked(version="0.5.23", device="cpu", python="/usr/bin/python3", wheelhouse="/srv/wheelhouse")
    found = planned_release(asked, NodePython("3", Target(python, "x86_64", (2, 36)), True), there)
    assert [wheel.file for wheel in found.wheels] == WHEELS
    assert (found.resolve, found.hashed) == (False, True)


@pytest.mark.parametrize("release", RELEASES)
def test_the_import_check_of_the_role_passes(release: str, tmp_path: Path) -> None:
    folder = unpacked(wheelhouse(release), tmp_path)
    done = run_with(folder, ["-c", PROGRAM, *wanted_modules("cpu")])
    found = read_imports(done.stdout, done.returncode, "", done.stderr)
    assert {one.name: one.version for one in found} == {
        "torch": "2.13.0+scripted",
        "sglang": release,
        "sglang.launch_server": None,
    }


@pytest.mark.parametrize("release", RELEASES)
def test_the_launcher_of_the_role_hides_the_keys_and_hands_them_to_the_middleware(release: str, tmp_path: Path) -> None:
    folder = unpacked(wheelhouse(release), tmp_path / "site")
    (folder / "sitecustomize.py").write_text(TELL, encoding="utf-8")
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (credentials / "api_key").write_text("client", encoding="ascii")
    two = release in ("0.5.8", "0.5.23")
    if two:
        (credentials / "admin_api_key").write_text("admin", encoding="ascii")
    words = [str(LAUNCHER), "--model-path", "/srv/m"]
    done = run_with(folder, words, CREDENTIALS_DIRECTORY=str(credentials))
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["release"] == release
    assert said["told"]["api_key"] == "<hidden>"
    assert said["told"].get("admin_api_key") == ("<hidden>" if two else None)
    assert said["http"]["keys"] == ["client", "admin" if two else None]


def test_without_keys_no_middleware_is_added(tmp_path: Path) -> None:
    folder = unpacked(FILES, tmp_path)
    (folder / "sitecustomize.py").write_text(TELL, encoding="utf-8")
    done = run_with(folder, ["-m", "sglang.launch_server", "--model-path", "/srv/m"])
    assert json.loads(done.stdout)["http"] == {}, done.stderr


def test_nothing_of_the_planner_is_carried() -> None:
    carried = [path for path in sglang_wheel("0.5.23").files if path.startswith("ansible_collections/")]
    assert len(carried) > 10
    for path in carried:
        assert path.split("/")[3] == "rehearsal"
        assert b"plugins.module_utils" not in sglang_wheel("0.5.23").files[path]


@pytest.mark.parametrize("release", ["0.5.2", "0.4.7", "0.5.24", "0.6.0"])
def test_other_releases_are_refused(release: str) -> None:
    with pytest.raises(ValueError, match=r"is not played; expected 0\.5\.3 to 0\.5\.23"):
        wheelhouse(release)


def test_a_folder_is_filled_once_and_strays_go(tmp_path: Path) -> None:
    folder = tmp_path / "0.5.23"
    assert fill(folder, FILES) == len(FILES) == 4
    assert fill(folder, FILES) == 0
    identity = folder.stat().st_ino
    (folder / "sglang-0.5.22-py3-none-any.whl").write_bytes(b"")
    (folder / "SHA256SUMS").write_bytes(b"")
    assert fill(folder, FILES) == 2
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    assert folder.stat().st_ino == identity
