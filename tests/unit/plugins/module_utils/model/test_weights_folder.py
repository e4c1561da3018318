# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_folder import (
    MAX_JSON_BYTES,
    Digest,
    read_folder,
    read_json,
    read_optional_json,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal


@pytest.fixture(name="cache")
def _cache(tmp_path: Path) -> Path:
    """A hub cache with one snapshot whose files are links into the blobs."""
    root = tmp_path / "models--org--tiny"
    snapshot = root / "snapshots" / "abc123"
    for folder in (root / "blobs", root / "refs", snapshot):
        folder.mkdir(parents=True)
    (root / "refs" / "main").write_text("abc123", encoding="ascii")
    (root / "blobs" / "1").write_text("{}", encoding="utf-8")
    (root / "blobs" / "2").write_bytes(b"weights")
    (snapshot / "config.json").symlink_to("../../blobs/1")
    (snapshot / "model.safetensors").symlink_to("../../blobs/2")
    return root


def test_a_hub_cache_leads_to_its_snapshot(cache: Path) -> None:
    folder, hub, problems = read_folder(cache)
    assert folder == cache / "snapshots" / "abc123"
    assert hub is not None
    assert (hub.repository, hub.revision, problems) == ("org/tiny", "abc123", ())
    assert (folder / "model.safetensors").read_bytes() == b"weights"


def test_a_snapshot_is_known_by_its_path(cache: Path) -> None:
    folder, hub, _found = read_folder(cache / "snapshots" / "abc123")
    assert hub is not None
    assert (folder.name, hub.repository) == ("abc123", "org/tiny")


def test_of_several_snapshots_the_reference_decides(cache: Path) -> None:
    (cache / "snapshots" / "def456").mkdir()
    assert read_folder(cache)[0].name == "abc123"
    (cache / "refs" / "main").write_bytes(b"\xff\xfe")
    with pytest.raises(Refusal) as refused:
        read_folder(cache)
    assert refused.value.code == "model_snapshot_unclear"
    assert refused.value.evidence["snapshots"] == ["abc123", "def456"]


@pytest.mark.parametrize("reference", ["../../../etc", "/etc", "", "x" * 10_000])
def test_a_reference_leads_nowhere_else(cache: Path, reference: str) -> None:
    (cache / "refs" / "main").write_text(reference, encoding="ascii")
    assert read_folder(cache)[0] == cache / "snapshots" / "abc123"


def test_an_unfinished_download_is_told(cache: Path) -> None:
    (cache / "blobs" / "3.incomplete").touch()
    assert [problem.code for problem in read_folder(cache)[2]] == ["model_download_incomplete"]


def test_files_that_need_not_be_there(tmp_path: Path) -> None:
    path = tmp_path / "hf_quant_config.json"
    assert read_optional_json(path, Digest()) == (None, ())
    path.write_text('{"a": 1}', encoding="utf-8")
    assert read_optional_json(path, Digest()) == ({"a": 1}, ())
    path.write_text("[", encoding="utf-8")
    value, problems = read_optional_json(path, Digest())
    assert value is None
    assert [problem.code for problem in problems] == ["model_file_unreadable_json"]


def test_json_of_a_size_that_no_file_has_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.touch()
    os.truncate(path, MAX_JSON_BYTES + 1)
    with pytest.raises(Refusal, match="which no such file has"):
        read_json(path, Digest())
