# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.mounts import Mount
from ansible_collections.gpufleet.sglang.plugins.modules import storage_info

MOUNTS = [Mount("/", "ext4")]


def test_a_folder_is_told_by_its_pages_and_by_what_else_lies_there(tmp_path: Path) -> None:
    for name in ("a.bin", "b.bin", ".c.tmp", "notes.txt"):
        (tmp_path / name).write_bytes(b"x" * 5000)
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "sub").mkdir()
    found = storage_info.look_at_folder(str(tmp_path), MOUNTS)
    held = sum((tmp_path / name).stat().st_blocks * 512 for name in ("a.bin", "b.bin", ".c.tmp"))
    assert (found["exists"], found["is_folder"], found["pages"], found["page_bytes"]) == (True, True, 3, held)
    assert found["strangers"] == ["notes.txt", "sub"]


def test_a_folder_that_is_missing_lies_where_the_closest_one_does(tmp_path: Path) -> None:
    found = storage_info.look_at_folder(str(tmp_path / "not" / "there"), [*MOUNTS, Mount(str(tmp_path), "xfs")])
    state = os.statvfs(tmp_path)
    assert (found["exists"], found["is_folder"], found["pages"]) == (False, False, 0)
    assert found["file_system"]["mount_point"] == str(tmp_path)
    assert found["file_system"]["type"] == "xfs"
    assert found["file_system"]["total_bytes"] == state.f_blocks * state.f_frsize


def test_modules_are_found_as_packages_sources_and_compiled(tmp_path: Path) -> None:
    library = tmp_path / "lib" / "python3.11" / "site-packages"
    for name in ("mooncake/store.cpython-311-x86_64-linux-gnu.so", "nixl/_api.py", "lmcache/integration/__init__.py"):
        (library / name).parent.mkdir(parents=True, exist_ok=True)
        (library / name).touch()
    asked = ["mooncake.store", "nixl._api", "lmcache.integration", "hf3fs_fuse.io", "nixl._ap"]
    assert storage_info.modules_of(str(tmp_path), asked) == {
        "mooncake.store": True,
        "nixl._api": True,
        "lmcache.integration": True,
        "hf3fs_fuse.io": False,
        "nixl._ap": False,
    }
    assert storage_info.modules_of(str(tmp_path / "none"), asked) is None
    assert storage_info.modules_of(None, asked) is None


def test_ninja_of_the_environment_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_info, "PATH", str(tmp_path / "usr"))
    monkeypatch.setattr(storage_info, "HEADER", tmp_path / "sha.h")
    assert storage_info.tools_of(str(tmp_path)) == {"ninja": False, "g++": False, "openssl/sha.h": False}
    for name in ("bin/ninja", "usr/c++", "sha.h"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch(mode=0o755)
    assert storage_info.tools_of(str(tmp_path)) == {"ninja": True, "g++": True, "openssl/sha.h": True}
    assert storage_info.tools_of(None)["ninja"] is False


def test_an_address_answers_or_says_why_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert storage_info.why_silent(address, 5) is None
    assert "refused" in str(storage_info.why_silent(address, 5))
    assert "no host and port" in str(storage_info.why_silent("nowhere", 5))
