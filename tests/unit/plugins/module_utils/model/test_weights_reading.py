# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import struct
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.gpufleet.sglang.plugins.module_utils.model import weights_reading
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights import Tensor
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_folder import Digest
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_reading import Checkpoint, read_checkpoint
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.model.checkpoints import model_tensors
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.model.model_configs import LLAMA_31_8B

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 4976698672\n"


def write_shard(path: Path, tensors: list[Tensor]) -> int:
    """A whole file without its data: holes take no space. Returns the bytes of all tensors."""
    entries, position = {}, 0
    for item in tensors:
        end = position + item.size_bytes
        entries[item.name] = {"dtype": item.dtype, "shape": list(item.shape), "data_offsets": [position, end]}
        position = end
    header = json.dumps(entries).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    os.truncate(path, 8 + len(header) + position)
    return position


def shards(folder: Path, *names: str) -> dict[str, str]:
    mapping = {}
    for number, name in enumerate(names):
        write_shard(folder / name, [Tensor(f"w{number}", "BF16", 4, (2,))])
        mapping[f"w{number}"] = name
    return mapping


def write_index(folder: Path, mapping: dict[str, str], **more: Any) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": mapping, **more}), encoding="utf-8")


def read(folder: Path, name: str = "m") -> Checkpoint:
    return read_checkpoint(folder, name, {}, None, Digest())


def test_a_checkpoint_of_16_gb_without_its_data(tmp_path: Path) -> None:
    tensors = model_tensors(LLAMA_31_8B)
    half = len(tensors) // 2
    total = write_shard(tmp_path / "a.safetensors", tensors[:half]) + write_shard(
        tmp_path / "b.safetensors", tensors[half:]
    )
    names = {item.name: "a.safetensors" for item in tensors[:half]} | {
        item.name: "b.safetensors" for item in tensors[half:]
    }
    write_index(tmp_path, names, metadata={"total_size": total})
    found = read(tmp_path)
    assert found.problems == ()
    assert found.tensors == tuple(tensors)
    assert sum(item.size_bytes for item in found.tensors) == total == 16_060_522_496


def test_index_and_files_that_do_not_agree(tmp_path: Path) -> None:
    mapping = shards(tmp_path, "1.safetensors", "2.safetensors")
    write_index(tmp_path, {**mapping, "lost": "1.safetensors"}, metadata={"total_size": 7})
    (tmp_path / "original").mkdir()
    (tmp_path / "original" / "consolidated.00.pth").write_bytes(b"x")
    found = read(tmp_path)
    assert [problem.code for problem in found.problems] == ["model_index_tensors_missing", "model_index_size_differs"]
    assert [file.name for file in found.selection.ignored] == ["original/consolidated.00.pth"]


def refusal(folder: Path) -> Refusal:
    with pytest.raises(Refusal) as refused:
        read(folder)
    return refused.value


def test_all_faulty_files_are_named_at_once(tmp_path: Path) -> None:
    write_index(tmp_path, shards(tmp_path, "1.safetensors", "2.safetensors", "3.safetensors"))
    (tmp_path / "1.safetensors").write_bytes((tmp_path / "1.safetensors").read_bytes()[:-1])
    (tmp_path / "3.safetensors").write_text(POINTER, encoding="utf-8")
    found = refusal(tmp_path)
    assert found.code == "model_shard_truncated"
    assert "1 more weight files are faulty" in found.message
    faults: Any = found.evidence["faults"]
    assert [fault["code"] for fault in faults] == ["model_shard_truncated", "model_file_pointer"]


def test_an_index_may_be_a_pointer_too(tmp_path: Path) -> None:
    shards(tmp_path, "1.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(POINTER, encoding="utf-8")
    found = refusal(tmp_path)
    assert found.code == "model_file_pointer"
    assert "git lfs pull" in found.remedy


def test_other_formats_are_named_with_their_size(tmp_path: Path) -> None:
    for number in (1, 2):
        path = tmp_path / f"pytorch_model-0000{number}-of-00002.bin"
        path.touch()
        os.truncate(path, 5 * 10**9)
    found = refusal(tmp_path)
    assert found.code == "model_weights_unsupported"
    assert "10.00 GB" in found.message
    assert found.evidence["total_bytes"] == 10**10


def test_a_link_to_a_blob_that_is_gone_is_a_missing_file(tmp_path: Path) -> None:
    write_index(tmp_path, shards(tmp_path, "1.safetensors", "2.safetensors"))
    (tmp_path / "2.safetensors").unlink()
    (tmp_path / "2.safetensors").symlink_to(tmp_path / "blobs" / "gone")
    found = refusal(tmp_path)
    assert found.code == "model_shards_missing"
    assert found.evidence["missing"] == ["2.safetensors"]


def test_headers_are_bounded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards(tmp_path, "1.safetensors", "2.safetensors")
    monkeypatch.setattr(weights_reading, "MAX_HEADERS_BYTES", 100)
    assert "more than any model's" in refusal(tmp_path).message


def test_a_claim_of_a_huge_header_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", 200_000_000))
    os.truncate(path, 10**12)
    assert "above the format's bound" in refusal(tmp_path).message


@settings(max_examples=150)
@given(st.binary(max_size=80), st.binary(max_size=40), st.integers(0, 200))
def test_no_bytes_make_it_fail_otherwise(header: bytes, data: bytes, claimed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        for content in (header, struct.pack("<Q", claimed) + header + data, struct.pack("<Q", len(header)) + header):
            path.write_bytes(content)
            try:
                found = read(Path(folder))
            except Refusal as refused:
                assert refused.code in ("model_shard_malformed", "model_shard_truncated", "model_file_pointer")
            else:
                assert sum(item.size_bytes for item in found.tensors) <= len(content)
