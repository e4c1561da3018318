# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.files import (
    is_folder,
    link_name,
    link_parts,
    names_in,
    read_bytes,
    read_line,
    read_text,
)


def test_a_text_is_stripped_and_what_is_no_utf_8_is_marked(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(b" EPYC \xff\n")
    assert read_text(tmp_path, "model") == "EPYC \ufffd"


def test_a_line_is_a_short_one_or_none(tmp_path: Path) -> None:
    (tmp_path / "version").write_bytes(b"595.58.03 \nmore\n")
    (tmp_path / "garbage").write_bytes(b"x" * 5000)
    (tmp_path / "empty").write_bytes(b" \n")
    assert read_line(tmp_path, "version") == "595.58.03"
    assert len(read_line(tmp_path, "garbage") or "") == 256
    assert read_line(tmp_path, "empty") is None
    assert read_line(tmp_path, "absent") is None


def test_no_more_is_read_than_the_limit(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(b"12345678")
    assert read_bytes(tmp_path, "long", 4) == b"1234"
    assert read_bytes(tmp_path, "long") == b"12345678"


def test_what_is_no_readable_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    # Opening a pipe that nobody writes to would wait for ever.
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "circle").symlink_to("circle")
    for name in ("absent", "folder", "folder/absent", "pipe", "circle", "a\0b"):
        assert read_bytes(tmp_path, name) is None, name


def test_names_are_sorted_and_nothing_without_a_folder(tmp_path: Path) -> None:
    for name in ("node10", "node1", "online"):
        (tmp_path / name).touch()
    assert names_in(tmp_path, ".") == ["node1", "node10", "online"]
    assert names_in(tmp_path, "absent") == names_in(tmp_path, "online") == names_in(tmp_path, "\0") == []


def test_a_link_is_read_even_if_it_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "driver").symlink_to("../../bus/pci/drivers/nvidia")
    assert link_name(tmp_path, "driver") == "nvidia"
    assert link_parts(tmp_path, "driver")[-3:] == ("pci", "drivers", "nvidia")
    assert link_name(tmp_path, "absent") is None
    assert link_parts(tmp_path, "a\0b") == ()


def test_a_line_has_no_control_characters(tmp_path: Path) -> None:
    (tmp_path / "name").write_bytes(b"\x1b[31mR750\x00\x07 \xe2\x80\xaeX\nmore\n")
    assert read_line(tmp_path, "name") == "[31mR750 X"


def test_names_that_are_no_text_are_left_out(tmp_path: Path) -> None:
    for name in ("node0", "node\x1b[31m1", "node\udcff"):
        (tmp_path / name).touch()
    (tmp_path / "driver").symlink_to("../drivers/\x1b[31mnvidia")
    assert names_in(tmp_path, ".") == ["driver", "node0"]
    assert link_parts(tmp_path, "driver") == ()


def test_a_folder_that_cannot_be_looked_at_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    assert is_folder(tmp_path, "folder")
    for name in ("file", "absent", "x" * 5000, "a\0b"):
        assert not is_folder(tmp_path, name), name

    def denied(_path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "stat", denied)
    assert not is_folder(tmp_path, "folder")
