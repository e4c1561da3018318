# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.plugin_utils.survey_files import read_surveys
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.surveys.kept import kept


def test_one_bad_file_hides_no_other(tmp_path: Path) -> None:
    whole = json.dumps(kept("gpu-1"))
    (tmp_path / "gpu-1.json").write_text(whole, encoding="utf-8")
    (tmp_path / "gpu-2.json").write_text(whole[: len(whole) // 2], encoding="utf-8")
    (tmp_path / "gpu-3.json").write_bytes(b"\xff\xfe")
    (tmp_path / "gpu-4.json").write_text('{"name": "package"}', encoding="utf-8")
    (tmp_path / "gpu_5.json").write_text(json.dumps(kept("gpu/5")), encoding="utf-8")
    (tmp_path / "gpu-6.json").symlink_to(tmp_path / "none")
    (tmp_path / ".gpu-7.json.swp").write_text("x", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("x", encoding="utf-8")
    (tmp_path / "folder.json").mkdir()
    read = {one.host: one for one in read_surveys(str(tmp_path))}
    assert sorted(read) == ["gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu/5"]
    assert [name for name, one in read.items() if one.survey] == ["gpu-1", "gpu/5"]
    for name, words in (("gpu-2", "no whole JSON"), ("gpu-3", "no whole JSON"), ("gpu-4", "It holds name")):
        trouble = read[name].trouble or ""
        assert trouble.startswith(f"{tmp_path / name}.json: ")
        assert words in trouble


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        list(read_surveys(str(tmp_path / "none")))
