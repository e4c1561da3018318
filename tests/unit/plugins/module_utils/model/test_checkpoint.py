# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.checkpoint import (
    FileEntry,
    Selection,
    check_tensors,
    check_total_size,
    choose_snapshot,
    hub_place,
    index_map,
    index_name,
    is_lfs_pointer,
    load_format,
    select,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights import HeaderError, Tensor

SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def chosen(*names: str, indexed: tuple[str, ...] | None = None, folder: str = "m", **more: Any) -> Selection:
    return select([FileEntry(name, 10) for name in names], folder, indexed, **more)


def test_the_index_decides() -> None:
    found = chosen(*SHARDS, "old.safetensors", indexed=SHARDS)
    assert found.load == SHARDS
    assert [(file.name, file.reason) for file in found.ignored] == [("old.safetensors", "the index does not name it")]
    assert [problem.code for problem in found.problems] == ["model_shards_extra"]
    assert "old.safetensors is not named" in found.problems[0].message


def test_what_the_index_names_and_is_not_there_is_missing() -> None:
    assert chosen(SHARDS[0], indexed=SHARDS).missing == (SHARDS[1],)


def test_without_an_index_all_are_loaded() -> None:
    found = chosen("a.safetensors", "b.safetensors")
    assert found.load == ("a.safetensors", "b.safetensors")
    assert found.index_name is None
    assert found.problems == ()


def test_consolidated_weights_beside_one_file_are_counted_once() -> None:
    found = chosen("consolidated.safetensors", "model.safetensors")
    assert found.load == ("model.safetensors",)
    assert [file.name for file in found.ignored] == ["consolidated.safetensors"]


def test_consolidated_weights_beside_shards_without_an_index_would_be_loaded_twice() -> None:
    found = chosen("consolidated.safetensors", *SHARDS)
    assert len(found.load) == 3
    assert [problem.code for problem in found.problems] == ["model_weights_duplicate"]


def test_mistral_s_own_files_alone() -> None:
    names = ("params.json", "consolidated-00001-of-00002.safetensors", "consolidated-00002-of-00002.safetensors")
    found = chosen(*names, "consolidated.safetensors.index.json", indexed=names[1:])
    assert (found.load_format, found.load) == ("mistral", names[1:])
    assert found.index_name == "consolidated.safetensors.index.json"
    assert index_name([*names, "consolidated.safetensors.index.json"], "m") == "consolidated.safetensors.index.json"


def test_a_name_can_decide_for_mistral_s_files() -> None:
    names = ("params.json", "consolidated.safetensors", "model.safetensors")
    assert load_format(names, "Mistral-Large-3-675B") == "mistral"
    found = chosen(*names, folder="Mistral-Large-3-675B")
    assert found.load == ("consolidated.safetensors",)
    assert [file.reason for file in found.ignored] == ["SGLang loads consolidated*.safetensors here"]
    assert load_format(names, "Mistral-7B") == "auto"


def test_only_the_folder_itself_is_read() -> None:
    found = chosen("model.safetensors", "original/consolidated.00.pth", "onnx/model.safetensors", "pytorch_model.bin")
    assert found.load == ("model.safetensors",)
    assert {file.name: file.reason for file in found.ignored} == {
        "onnx/model.safetensors": "SGLang reads the folder itself only",
        "original/consolidated.00.pth": "SGLang reads the folder itself only",
        "pytorch_model.bin": "safetensors files are there",
    }


def test_other_formats_alone_are_told_with_their_sizes() -> None:
    found = chosen("pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin", "training_args.bin")
    assert found.load == ()
    assert [file.name for file in found.unsupported] == [
        "pytorch_model-00001-of-00002.bin",
        "pytorch_model-00002-of-00002.bin",
    ]


@pytest.mark.parametrize(
    ("architecture", "nextn", "loaded"),
    [("Glm4MoeForCausalLM", True, True), ("Glm4MoeForCausalLM", False, False), ("LlamaForCausalLM", True, False)],
)
def test_draft_weights_that_an_index_forgot(architecture: str, nextn: bool, loaded: bool) -> None:
    found = chosen(*SHARDS, "mtp.safetensors", indexed=SHARDS, architecture=architecture, has_nextn_layers=nextn)
    assert ("mtp.safetensors" in found.load) is loaded
    assert bool(found.problems) is not loaded


def test_index_map() -> None:
    assert index_map({"weight_map": {"a": "1.safetensors"}}) == {"a": "1.safetensors"}


@pytest.mark.parametrize(
    "index",
    [
        None,
        {},
        {"weight_map": {}},
        {"weight_map": ["a"]},
        {"weight_map": {"a": "../../etc/shadow"}},
        {"weight_map": {"a": "/etc/shadow"}},
        {"weight_map": {"a": ".."}},
        {"weight_map": {"a": ""}},
        {"weight_map": {str(number): f"{number}.safetensors" for number in range(10_001)}},
    ],
)
def test_indexes_that_lead_elsewhere_are_refused(index: Any) -> None:
    with pytest.raises(HeaderError):
        index_map(index)


def tensors(*names: str) -> list[Tensor]:
    return [Tensor(name, "BF16", 2, (1,)) for name in names]


def test_index_and_files_that_agree() -> None:
    found, problems = check_tensors({"a": "1", "b": "2"}, {"1": tensors("a"), "2": tensors("b")})
    assert [tensor.name for tensor in found] == ["a", "b"]
    assert problems == ()


def test_index_and_files_that_do_not_agree() -> None:
    mapping = {"a": "1", "b": "1", "c": "2"}
    found, problems = check_tensors(mapping, {"1": tensors("a", "x"), "2": tensors("b", "a")})
    assert [tensor.name for tensor in found] == ["a", "x", "b"]
    assert [problem.code for problem in problems] == [
        "model_tensors_duplicate",
        "model_index_tensors_missing",
        "model_index_tensors_extra",
        "model_index_tensors_moved",
    ]
    assert [problem.severity for problem in problems] == ["warning", "error", "warning", "warning"]
    assert "c is named" in problems[1].message


def test_long_lists_are_cut() -> None:
    _counted, problems = check_tensors({f"t{number}": "1" for number in range(5000)}, {"1": []})
    assert "4,997 more" in problems[0].message
    assert len(problems[0].message) < 300


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ({"total_size": 100}, False),
        ({"total_size": 99}, True),
        ({"total_size": 99.0}, True),
        ({"total_size": "99"}, False),
        ({"total_size": -1}, False),
        ({"total_size": True}, False),
        (None, False),
        ([], False),
    ],
)
def test_the_sum_of_the_index(metadata: Any, told: bool) -> None:
    assert bool(check_total_size({"metadata": metadata}, 100)) is told


def test_pointers_of_git_lfs() -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 40\n"
    assert is_lfs_pointer(pointer, len(pointer))
    assert not is_lfs_pointer(pointer, 5000)
    assert not is_lfs_pointer(b"version 2", 9)


@pytest.mark.parametrize(
    ("path", "repository", "revision"),
    [
        ("/hub/models--Qwen--Qwen3-32B", "Qwen/Qwen3-32B", None),
        ("/hub/models--Qwen--Qwen3-32B/snapshots/abc", "Qwen/Qwen3-32B", "abc"),
        ("/hub/models--gpt2", "gpt2", None),
    ],
)
def test_folders_of_a_hub_cache(path: str, repository: str, revision: str | None) -> None:
    hub = hub_place(tuple(path.split("/")))
    assert hub is not None
    assert (hub.repository, hub.revision) == (repository, revision)


@pytest.mark.parametrize(
    "path", ["/srv/models/Qwen3-32B", "/models--x--y/other", "/models--x--y/blobs/abc", "models--"]
)
def test_other_folders_are_none_of_a_hub_cache(path: str) -> None:
    assert hub_place(tuple(path.split("/"))) is None


@pytest.mark.parametrize(
    ("reference", "snapshots", "expected"),
    [("a", ["a", "b"], "a"), (None, ["a"], "a"), ("c", ["a"], "a"), ("c", ["a", "b"], None), (None, [], None)],
)
def test_choice_of_a_snapshot(reference: str | None, snapshots: list[str], expected: str | None) -> None:
    assert choose_snapshot(reference, snapshots) == expected
