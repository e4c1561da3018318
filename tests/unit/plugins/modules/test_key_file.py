# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.modules import key_file

KEY = b"sentinel-0123456789"


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return tmp_path / "api_key"


def unfinished_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.new")


def test_a_key_is_written_for_its_owner_alone_and_nothing_beside_it(path: Path) -> None:
    assert not key_file.holds(path, KEY)
    key_file.write(path, unfinished_of(path), KEY)
    assert key_file.holds(path, KEY)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (KEY, 0o400)
    assert list(path.parent.iterdir()) == [path]


def test_another_key_replaces_it(path: Path) -> None:
    key_file.write(path, unfinished_of(path), b"the one before")
    assert not key_file.holds(path, KEY)
    key_file.write(path, unfinished_of(path), KEY)
    assert key_file.holds(path, KEY)


@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_its_mode_is_not_the_umask_s(path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        key_file.write(path, unfinished_of(path), KEY)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o400


def test_a_file_that_others_read_or_a_link_is_not_as_it_shall_be(path: Path) -> None:
    path.write_bytes(KEY)
    path.chmod(0o444)
    assert not key_file.holds(path, KEY)
    elsewhere = path.with_name("elsewhere")
    key_file.write(elsewhere, unfinished_of(elsewhere), KEY)
    path.unlink()
    path.symlink_to(elsewhere)
    assert not key_file.holds(path, KEY)


def test_what_lies_in_the_way_is_not_written_into(path: Path) -> None:
    """A link that somebody put there would have the key written to where it leads."""
    elsewhere = path.with_name("elsewhere")
    elsewhere.touch()
    unfinished_of(path).symlink_to(elsewhere)
    with pytest.raises(FileExistsError):
        key_file.write(path, unfinished_of(path), KEY)
    assert elsewhere.read_bytes() == b""
