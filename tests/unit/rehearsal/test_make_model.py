# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.rehearsal.sglang_on_cpu import make_model


@pytest.fixture(name="model", scope="module")
def fixture_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "new"
    assert make_model.main([str(folder)]) == 0
    return folder


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def header(path: Path) -> tuple[dict[str, Any], int]:
    """Header of a safetensors file, and how many bytes of data follow it."""
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    assert length % 8 == 0
    return json.loads(content[8 : 8 + length]), len(content) - 8 - length


def test_two_ranks_store_2048_bytes_a_token_each(model: Path) -> None:
    config = read_json(model / "config.json")
    kv_heads_of_a_rank = config["num_key_value_heads"] // 2
    element_bytes = 2
    assert kv_heads_of_a_rank * 2 * config["head_dim"] * config["num_hidden_layers"] * element_bytes == 2048


def test_the_index_names_every_tensor_of_every_shard(model: Path) -> None:
    index = read_json(model / "model.safetensors.index.json")
    shards = sorted(path.name for path in model.glob("*.safetensors"))
    assert len(shards) == 2
    found = {}
    total = 0
    for shard in shards:
        tensors, data_bytes = header(model / shard)
        assert tensors.pop("__metadata__") == {"format": "pt"}
        assert max(tensor["data_offsets"][1] for tensor in tensors.values()) == data_bytes
        found.update(dict.fromkeys(tensors, shard))
        total += data_bytes
    assert found == index["weight_map"]
    assert total == index["metadata"]["total_size"]


def test_attention_is_grouped(model: Path) -> None:
    shapes: dict[str, list[int]] = {}
    for shard in model.glob("*.safetensors"):
        shapes.update((name, tensor.get("shape")) for name, tensor in header(shard)[0].items())
    assert shapes["model.layers.3.self_attn.q_proj.weight"] == [4 * 128, 256]
    assert shapes["model.layers.3.self_attn.k_proj.weight"] == [2 * 128, 256]
    assert shapes["model.layers.3.self_attn.v_proj.weight"] == [2 * 128, 256]


def test_every_user_can_read_it(model: Path) -> None:
    assert {path.stat().st_mode & 0o777 for path in model.iterdir()} == {0o644}
    assert model.stat().st_mode & 0o777 == 0o755


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(model: Path) -> None:
    for name, content in make_model.files(575):
        assert (model / name).read_bytes() == content
    assert (
        dict(make_model.files(1))["model-00001-of-00002.safetensors"]
        != (model / "model-00001-of-00002.safetensors").read_bytes()
    )


def test_a_second_run_replaces_only_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_model.main([str(tmp_path)])
    inodes = {path.name: path.stat().st_ino for path in tmp_path.iterdir()}
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "model-00003-of-00003.safetensors").write_bytes(b"left over")
    (tmp_path / "notes.txt").write_text("someone's own", encoding="utf-8")
    capsys.readouterr()

    make_model.main([str(tmp_path)])

    assert capsys.readouterr().out == f"{tmp_path}: 7 files, 2 changed\n"
    changed = {path.name for path in tmp_path.iterdir() if inodes.get(path.name) != path.stat().st_ino}
    assert changed == {"config.json", "notes.txt"}
    assert not (tmp_path / "model-00003-of-00003.safetensors").exists()
    assert read_json(tmp_path / "config.json")["head_dim"] == 128


@pytest.mark.parametrize(("value", "bits"), [(0.0, 0x0000), (1.0, 0x3F80), (-2.0, 0xC000), (3.140625, 0x4049)])
def test_bf16(value: float, bits: int) -> None:
    assert make_model.bf16(value) == bits


def test_each_byte_has_a_symbol_of_its_own() -> None:
    symbols = make_model.byte_symbols()
    assert len(set(symbols)) == 256
    # As every byte-level tokenizer writes them: a letter is itself, a space is a G with a dot, a line end a C with one.
    assert (symbols[ord("a")], symbols[ord(" ")], symbols[ord("\n")]) == ("a", "\u0120", "\u010a")
