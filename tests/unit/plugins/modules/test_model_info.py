# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import json
import os
import pwd
import struct
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.known_keys import refuse_unknown_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.model import weights_groups
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.quantization import QuantizationDetails
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.rank_weights import WeightFacts, rank_weights
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_groups import groups_from_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_layout import RankLayout
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_structure import structure_from_facts
from ansible_collections.gpufleet.sglang.plugins.modules import model_info

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "vocab_size": 384,
    "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
}
INDEX = "model.safetensors.index.json"


def write_shard(path: Path, **tensors: int) -> None:
    """A safetensors file of BF16 vectors of the given lengths."""
    entries, position = {}, 0
    for name, length in tensors.items():
        entries[name] = {"dtype": "BF16", "shape": [length], "data_offsets": [position, position + 2 * length]}
        position += 2 * length
    header = json.dumps(entries).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * position)


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    write_shard(folder / "model-00001-of-00002.safetensors", **{"model.layers.0.self_attn.q_proj.weight": 100})
    write_shard(folder / "model-00002-of-00002.safetensors", **{"lm_head.weight": 20})
    weight_map = {
        "model.layers.0.self_attn.q_proj.weight": "model-00001-of-00002.safetensors",
        "lm_head.weight": "model-00002-of-00002.safetensors",
    }
    (folder / INDEX).write_text(json.dumps({"weight_map": weight_map}), encoding="utf-8")
    return folder


def run(capsys: pytest.CaptureFixture[str], path: Path, **options: Any) -> dict[str, Any]:
    with patch_module_args({"path": str(path), **options}), pytest.raises(SystemExit):
        model_info.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_facts_of_a_whole_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(capsys, folder)
    model = result["model"]
    assert result["changed"] is False
    assert (model["name"], model["architecture"], model["model_type"], model["dtype"]) == (
        "tiny",
        "LlamaForCausalLM",
        "llama",
        "bfloat16",
    )
    expected = {
        "family": "gqa",
        "num_layers": 4,
        "num_attention_heads": 4,
        "num_kv_heads": 2,
        "head_dim": 128,
        "v_head_dim": 128,
        "kv_lora_rank": None,
        "qk_rope_head_dim": None,
    }
    assert {key: model["attention"][key] for key in expected} == expected
    weights = model["weights"]
    assert weights["total_bytes"] == 240
    assert weights["by_dtype"] == {"BF16": 240}
    assert weights["by_kind"] == {"attention": 200, "embedding": 40}
    assert weights["by_part"] == {"attention": 200, "lm_head": 40}
    assert weights["layers"] == [{"first": 0, "last": 0, "layer_bytes": 200, "by_part": {"attention": 200}}]
    assert (weights["files"], weights["tensors"], weights["ignored_files"]) == (2, 2, [])
    assert model["quantization"] is model["quantization_details"] is None
    assert model["problems"] == []


def test_manifest_follows_the_model_and_not_the_clock(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = run(capsys, folder)["model"]["manifest_sha256"]
    os.utime(folder / "model-00002-of-00002.safetensors", (1, 1))
    assert run(capsys, folder)["model"]["manifest_sha256"] == first
    write_shard(folder / "model-00002-of-00002.safetensors", **{"lm_head.weight": 21})
    assert run(capsys, folder)["model"]["manifest_sha256"] != first


def test_one_file_needs_no_index(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / INDEX).unlink()
    (folder / "model-00002-of-00002.safetensors").unlink()
    assert run(capsys, folder)["model"]["weights"]["files"] == 1


def test_shards_that_are_left_over_are_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_shard(folder / "consolidated.safetensors", old=1)
    model = run(capsys, folder)["model"]
    assert [problem["code"] for problem in model["problems"]] == ["model_shards_extra"]
    assert "consolidated.safetensors" in model["problems"][0]["message"]
    assert model["weights"]["total_bytes"] == 240


def test_architecture_that_is_not_planned_is_read_all_the_same(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "config.json").write_text(
        json.dumps({**CONFIG, "architectures": ["NoSuchForCausalLM"]}), encoding="utf-8"
    )
    model = run(capsys, folder)["model"]
    assert model["attention"] is None
    assert [problem["code"] for problem in model["problems"]] == ["architecture_unknown"]
    assert model["weights"]["total_bytes"] == 240


def spoil(folder: Path, what: str) -> None:
    shard = folder / "model-00002-of-00002.safetensors"
    config = folder / "config.json"
    if what == "folder":
        folder.rename(folder.parent / "elsewhere")
    elif what == "file instead of folder":
        folder.rename(folder.parent / "elsewhere")
        folder.write_text("", encoding="utf-8")
    elif what == "no config":
        config.unlink()
    elif what == "config cut off":
        config.write_text('{"architectures": ["Llama', encoding="utf-8")
    elif what == "config a list":
        config.write_text("[]", encoding="utf-8")
    elif what == "shard missing":
        shard.unlink()
    elif what == "shard truncated":
        shard.write_bytes(shard.read_bytes()[:-1])
    elif what == "shard too long":
        shard.write_bytes(shard.read_bytes() + b"\0")
    elif what == "shard empty":
        shard.write_bytes(b"")
    elif what == "shard a login page":
        shard.write_text("<!DOCTYPE html><title>Log in</title>", encoding="utf-8")
    elif what == "shard a pointer":
        shard.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 40\n", encoding="utf-8")
    elif what == "index leads elsewhere":
        (folder / INDEX).write_text('{"weight_map": {"a": "../../secret"}}', encoding="utf-8")
    elif what == "no weights":
        for path in folder.glob("model*"):
            path.unlink()


@pytest.mark.parametrize(
    ("what", "code", "named"),
    [
        ("folder", "model_folder_missing", "is missing"),
        ("file instead of folder", "model_folder_missing", "not a folder"),
        ("no config", "model_file_missing", "config.json"),
        ("config cut off", "model_file_malformed", "config.json"),
        ("config a list", "model_file_malformed", "config.json"),
        ("shard missing", "model_shards_missing", "1 of 2 weight files"),
        ("shard truncated", "model_shard_truncated", "model-00002-of-00002.safetensors"),
        ("shard too long", "model_shard_malformed", "longer than its header says"),
        ("shard empty", "model_shard_malformed", "0 bytes"),
        ("shard a login page", "model_shard_malformed", "bound"),
        ("shard a pointer", "model_file_pointer", "pointer of Git LFS"),
        ("index leads elsewhere", "model_index_malformed", "../../secret"),
        ("no weights", "model_weights_missing", "no safetensors file"),
    ],
)
def test_one_clear_failure(folder: Path, capsys: pytest.CaptureFixture[str], what: str, code: str, named: str) -> None:
    spoil(folder, what)
    result = run(capsys, folder)
    assert result["failed"] is True
    assert result["failure"]["code"] == code
    assert named in result["msg"]
    assert "Traceback" not in result["msg"]


def test_a_disk_that_fails_is_told_as_the_system_says_it(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(path: Path, readable_by: str | None) -> dict[str, Any]:
        raise OSError(5, f"Input/output error{readable_by or ''}", str(path / "config.json"))

    monkeypatch.setattr(model_info, "read_model", broken)
    failure = run(capsys, folder)["failure"]
    assert failure["code"] == "model_unreadable"
    assert failure["message"] == f"{folder}/config.json cannot be read: Input/output error."
    assert "rights of the user that Ansible runs as" in failure["remedy"]


def test_more_kinds_of_tensors_than_are_listed_are_summed_up(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights_groups, "MAX_GROUPS", 1)
    codes = [problem["code"] for problem in run(capsys, folder)["model"]["problems"]]
    assert "model_tensor_groups_capped" in codes


def test_readable_by_its_owner(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    owner = pwd.getpwuid(os.getuid()).pw_name
    assert "model" in run(capsys, folder, readable_by=owner)


def test_not_readable_by_a_user_kept_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder.chmod(0o700)
    result = run(capsys, folder, readable_by="nobody")
    assert result["failure"]["code"] == "model_not_readable"
    assert str(folder) in result["failure"]["evidence"]["paths"]


def test_a_user_that_does_not_exist_yet_is_judged_as_any_other(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "config.json").chmod(0o600)
    result = run(capsys, folder, readable_by="no-such-user")
    assert str(folder / "config.json") in result["failure"]["evidence"]["paths"]


def test_what_a_download_left_behind_need_not_be_readable(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / ".cache").mkdir(mode=0o700)
    result = run(capsys, folder, readable_by="no-such-user")
    assert str(folder / ".cache") not in result.get("failure", {}).get("evidence", {}).get("paths", [])


def test_links_into_a_hub_cache_are_followed(folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    blobs = tmp_path / "blobs"
    blobs.mkdir(mode=0o700)
    (folder / "config.json").rename(blobs / "config")
    (folder / "config.json").symlink_to(blobs / "config")
    assert run(capsys, folder)["model"]["architecture"] == "LlamaForCausalLM"
    assert str(blobs) in run(capsys, folder, readable_by="no-such-user")["failure"]["evidence"]["paths"]


def test_text_that_no_answer_could_carry_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "config.json").write_text('{"architectures": ["\\ud800"], "model_type": "x"}', encoding="utf-8")
    result = run(capsys, folder)
    assert result["failure"]["code"] == "model_file_malformed"
    assert "config.json" in result["msg"]


def test_a_link_that_leads_nowhere_is_named_with_its_target(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "tokenizer.json").symlink_to("/nope/tokenizer.json")
    result = run(capsys, folder, readable_by="root")
    assert result["failure"]["code"] == "model_link_dangling"
    assert "tokenizer.json is a link to /nope/tokenizer.json" in result["msg"]


def test_heads_without_an_element_are_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {key: value for key, value in CONFIG.items() if key != "head_dim"}
    (folder / "config.json").write_text(json.dumps({**config, "hidden_size": 3}), encoding="utf-8")
    result = run(capsys, folder)
    assert result["model"]["attention"] is None
    assert "hidden_size 3 is below num_attention_heads 4" in result["model"]["problems"][0]["message"]


def test_a_hub_cache_is_named_by_its_repository(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    snapshot = tmp_path / "models--org--tiny-model" / "snapshots" / "abc"
    snapshot.parent.mkdir(parents=True)
    folder.rename(snapshot)
    for path in (snapshot, snapshot.parent.parent):
        model = run(capsys, path)["model"]
        assert (model["path"], model["name"], model["repository"], model["revision"]) == (
            str(snapshot),
            "tiny-model",
            "org/tiny-model",
            "abc",
        )


def test_quantisation_is_read_from_modelopt_s_own_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quantization = {
        "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}
    }
    (folder / "hf_quant_config.json").write_text(json.dumps(quantization), encoding="utf-8")
    model = run(capsys, folder)["model"]
    assert (model["quantization"], model["kv_cache_quantized"]) == ("NVFP4", True)
    details = model["quantization_details"]
    assert (details["method"], details["weight_bits"], details["group_size"]) == ("modelopt_fp4", 4, 16)
    assert details["source"] == "hf_quant_config.json"


def test_a_method_that_sglang_does_not_list_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {**CONFIG, "quantization_config": {"quant_method": "q5_k_m"}}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    model = run(capsys, folder)["model"]
    assert model["quantization"] == "q5_k_m"
    assert [problem["code"] for problem in model["problems"]] == ["model_quantization_unknown"]


def test_all_that_is_returned_may_be_stated_on_paper(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refuse_unknown_facts(run(capsys, folder)["model"], {})


def test_all_that_is_returned_is_documented(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documented = yaml.safe_load(model_info.RETURN)["model"]["contains"]
    model = run(capsys, folder)["model"]
    assert set(documented) == set(model)
    for key in ("weights", "structure"):
        assert set(documented[key]["sample"]) == set(model[key])
    fields = {field.name for field in dataclasses.fields(QuantizationDetails)}
    assert set(documented["quantization_details"]["contains"]) == fields


def test_ranks_are_planned_from_what_is_returned(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = run(capsys, folder)["model"]
    groups = groups_from_facts(model["weights"]["groups"])
    assert groups is not None
    facts = WeightFacts(model["architecture"], structure_from_facts(model["structure"]), groups)
    held = rank_weights(facts, RankLayout(tensor_parallel=2)).largest.by_part
    # Queries of 4 heads are divided; the head is made for 384 rows whatever the checkpoint has.
    assert held["attention"] == 100


def test_the_language_model_of_a_nested_configuration(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nested = {key: value for key, value in CONFIG.items() if key != "architectures"}
    config = {"architectures": ["LlamaForCausalLM"], "thinker_config": {"text_config": nested}}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    model = run(capsys, folder)["model"]
    assert (model["hidden_size"], model["structure"]["num_layers"]) == (512, 4)
