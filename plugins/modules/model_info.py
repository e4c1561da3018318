#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: model_info
version_added: 0.1.0
short_description: Read what a model folder holds
description:
  - Reads C(config.json), the safetensors index and the headers of the safetensors files of a model folder, and returns
    what a memory plan needs, with what is missing, truncated or left over named.
  - Reads headers only, never the weights themselves, so that hundreds of GB take seconds.
  - Fails when the folder or its C(config.json) is missing, when a weight file is missing, truncated or not what it
    claims, and when O(readable_by) cannot read it.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    platforms: linux
options:
  path:
    description: Folder of the model.
    type: path
    required: true
  readable_by:
    description:
      - User that has to be able to read the folder, judged by mode bits and ownership.
      - A user that does not exist yet is judged as one of no group.
    type: str
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - module: gpufleet.sglang.memory_plan
"""

EXAMPLES = r"""
- name: Read the model
  gpufleet.sglang.model_info:
    path: /srv/models/Qwen3-32B
    readable_by: sglang
  register: model_read
"""

RETURN = r"""
model:
  description: Facts of the model. Sizes are in bytes; what is not known is null.
  returned: success
  type: dict
  contains:
    path:
      description: The folder.
      type: str
      sample: /srv/models/rehearsal-llama
    name:
      description: Name of the folder.
      type: str
      sample: rehearsal-llama
    architecture:
      description: First architecture that the configuration names.
      type: str
      sample: LlamaForCausalLM
    model_type:
      description: Model type of the configuration.
      type: str
      sample: llama
    attention:
      description:
        - What the size of the KV cache depends on. Null for architectures whose cache is not planned, which
          RV(model.problems) then tells.
      type: dict
      sample:
        family: gqa
        num_layers: 4
        num_attention_heads: 4
        num_kv_heads: 2
        head_dim: 128
        v_head_dim: 128
        kv_lora_rank: null
        qk_rope_head_dim: null
    hidden_size:
      description: Width of the model.
      type: int
      sample: 256
    vocab_size:
      description: Size of the vocabulary.
      type: int
      sample: 320
    max_position_embeddings:
      description: Longest context in tokens.
      type: int
      sample: 8192
    dtype:
      description: Data type that SGLang computes in when left to itself.
      type: str
      sample: bfloat16
    quantization:
      description: Quantisation method of the checkpoint.
      type: str
      sample: null
    kv_cache_quantized:
      description: Whether the checkpoint asks for a quantised KV cache.
      type: bool
      sample: false
    weights:
      description: Bytes of all tensors, by data type and by part of the model, and the number of files.
      type: dict
      sample:
        total_bytes: 6623744
        by_dtype: {BF16: 6623744}
        by_kind: {attention: 3145728, dense: 3145728, embedding: 327680, norm: 4608}
        files: 2
    manifest_sha256:
      description:
        - Digest over names, sizes and headers of the weight files and over the configuration; it changes when the model
          does, without reading the weights.
      type: str
      sample: 6dc9d5a9e54fb31c3282e869ca090292e69de8dcf270859b97abdadc78bef2f2
    problems:
      description: What is allowed but should be known, each with C(code), C(severity), C(message) and C(remedy).
      type: list
      elements: dict
      sample: []
failure:
  description: What is wrong with the folder, with C(code), C(message), C(remedy) and C(evidence).
  returned: failure
  type: dict
  sample:
    code: model_shards_missing
    message: /srv/models/Qwen3-32B lacks 1 of 17 weight files that its index names, model-00004-of-00017.safetensors.
    remedy: Copy the model again, or complete it.
    evidence: {missing: [model-00004-of-00017.safetensors]}
"""

import grp
import hashlib
import json
import os
import pwd
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.architecture import (
    attention_from_config,
    config_dtype,
    quantization_of,
    text_config,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.weights import (
    PREFIX_BYTES,
    HeaderError,
    Tensor,
    bytes_by,
    check_index,
    header_length,
    index_files,
    is_text,
    parse_header,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.readable import Entry, User, unreadable

INDEX_NAME = "model.safetensors.index.json"
# Configurations and indexes are read whole; the index of a model with a million tensors stays below this.
MAX_JSON_BYTES = 256 * (1 << 20)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "readable_by": {"type": "str"},
        },
        supports_check_mode=True,
    )
    try:
        model = read_model(Path(module.params["path"]), module.params["readable_by"])
    except Refusal as refusal:
        module.fail_json(msg=str(refusal), failure=refusal.as_dict())
    except OSError as error:
        unreadable_path = Refusal(
            "model_unreadable",
            f"{error.filename or module.params['path']} cannot be read: {error.strerror or error}.",
            "Check the folder and the rights of the user that Ansible runs as.",
        )
        module.fail_json(msg=str(unreadable_path), failure=unreadable_path.as_dict())
    module.exit_json(changed=False, model=model)


def read_model(folder: Path, readable_by: str | None) -> dict[str, Any]:
    """Everything that is returned under model; raises Refusal for a folder that cannot be served from."""
    if not folder.is_dir():
        raise Refusal(
            "model_folder_missing",
            f"{folder} is {'not a folder' if folder.exists() else 'missing'}.",
            "Expected the folder of a model, with config.json and safetensors files in it.",
            {"path": str(folder)},
        )
    digest = hashlib.sha256()
    config = read_json(folder / "config.json", digest)
    problems: list[Problem] = []
    names = weight_files(folder, digest, problems)
    tensors = [tensor for name in names for tensor in read_shard(folder / name, digest)]
    if readable_by is not None:
        refuse_unreadable(folder, readable_by)
    by_dtype, by_kind = bytes_by(tensors)
    text = text_config(config)
    quantization, kv_cache_quantized = quantization_of(config)
    architectures = config.get("architectures")
    return {
        "path": str(folder),
        "name": folder.name,
        "architecture": str(architectures[0]) if isinstance(architectures, list) and architectures else None,
        "model_type": config.get("model_type"),
        "attention": read_attention(config, problems),
        "hidden_size": text.get("hidden_size"),
        "vocab_size": text.get("vocab_size"),
        "max_position_embeddings": text.get("max_position_embeddings"),
        "dtype": config_dtype(config),
        "quantization": quantization,
        "kv_cache_quantized": kv_cache_quantized,
        "weights": {
            "total_bytes": sum(tensor.size_bytes for tensor in tensors),
            "by_dtype": by_dtype,
            "by_kind": by_kind,
            "files": len(names),
        },
        "manifest_sha256": digest.hexdigest(),
        "problems": [problem.as_dict() for problem in problems],
    }


def read_json(path: Path, digest: Any) -> dict[str, Any]:
    if not path.is_file():
        raise Refusal(
            "model_file_missing",
            f"{path} is missing.",
            "Copy the model again, or point to the folder that holds it.",
            {"path": str(path)},
        )
    size = path.stat().st_size
    if size > MAX_JSON_BYTES:
        raise Refusal(
            "model_file_malformed",
            f"{path} has {size:,} bytes, which no such file has.",
            f"Expected at most {MAX_JSON_BYTES:,}.",
            {"path": str(path)},
        )
    content = path.read_bytes()
    try:
        value = json.loads(content.decode("utf-8"))
    except (UnicodeDecodeError, ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not is_text(value):
        raise Refusal(
            "model_file_malformed",
            f"{path} is not a JSON object of valid text.",
            "Copy the model again.",
            {"path": str(path)},
        )
    note(digest, path.name, size, content)
    return value


def note(digest: Any, name: str, size: int, content: bytes) -> None:
    digest.update(f"{name}\0{size}\0{hashlib.sha256(content).hexdigest()}\n".encode())


def weight_files(folder: Path, digest: Any, problems: list[Problem]) -> list[str]:
    """The safetensors files to load, by the index where there is one; the index decides what is missing or extra."""
    present = sorted(path.name for path in folder.glob("*.safetensors") if path.is_file())
    if not (folder / INDEX_NAME).exists():
        if not present:
            raise Refusal(
                "model_weights_missing",
                f"{folder} holds no safetensors file.",
                "Expected *.safetensors; other formats are not read.",
                {"path": str(folder)},
            )
        return present
    index = read_json(folder / INDEX_NAME, digest)
    try:
        expected = index_files(index)
    except HeaderError as error:
        raise Refusal(
            "model_index_malformed",
            f"{folder / INDEX_NAME} cannot be used: {error}.",
            "Copy the model again.",
            {"path": str(folder / INDEX_NAME)},
        ) from None
    check = check_index(expected, present)
    if check.missing:
        raise Refusal(
            "model_shards_missing",
            f"{folder} lacks {len(check.missing)} of {len(expected)} weight files that its index names, "
            f"{listing(check.missing)}.",
            "Copy the model again, or complete it.",
            {"missing": list(check.missing)},
        )
    if check.extra:
        problems.append(
            Problem(
                "model_shards_extra",
                "warning",
                f"{folder} holds weight files that its index does not name: {listing(check.extra)}.",
                "Remove what is left over of another download; SGLang may load it.",
            )
        )
    return list(expected)


def listing(names: tuple[str, ...], shown: int = 3) -> str:
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def read_shard(path: Path, digest: Any) -> tuple[Tensor, ...]:
    size = path.stat().st_size
    try:
        with path.open("rb") as file:
            header = file.read(header_length(file.read(PREFIX_BYTES), size))
        shard = parse_header(header)
    except HeaderError as error:
        raise Refusal(
            "model_shard_malformed",
            f"{path} is not a whole safetensors file: {error}.",
            "Copy this file again.",
            {"path": str(path), "size_bytes": size},
        ) from None
    if size != shard.expected_file_bytes:
        state = "truncated" if size < shard.expected_file_bytes else "longer than its header says"
        raise Refusal(
            "model_shard_truncated" if size < shard.expected_file_bytes else "model_shard_malformed",
            f"{path} is {state}: it has {size:,} bytes, expected {shard.expected_file_bytes:,}.",
            "Copy this file again.",
            {"path": str(path), "size_bytes": size, "expected_bytes": shard.expected_file_bytes},
        )
    note(digest, path.name, size, header)
    return shard.tensors


def read_attention(config: dict[str, Any], problems: list[Problem]) -> dict[str, Any] | None:
    try:
        return attention_from_config(config).as_dict()
    except Refusal as refusal:
        # Reading is not planning: whether that matters is for memory_plan to say.
        problems.append(Problem(refusal.code, "error", refusal.message, refusal.remedy))
        return None


def refuse_unreadable(folder: Path, name: str) -> None:
    user = find_user(name)
    # Hidden entries are what a download left behind, not what a server loads.
    dangling = [path for path in sorted(folder.iterdir()) if path.is_symlink() and not path.exists()]
    if dangling:
        raise Refusal(
            "model_link_dangling",
            f"{dangling[0]} is a link to {dangling[0].readlink()}, which is not there.",
            "Copy the model again, with what its links lead to.",
            {"paths": [str(path) for path in dangling[:20]]},
        )
    files = [Path(os.path.realpath(path)) for path in sorted(folder.iterdir()) if not path.name.startswith(".")]
    real = Path(os.path.realpath(folder))
    # Folders of a hub cache are full of links, so the way to each target counts.
    parents = sorted({parent for path in (real, *files) for parent in path.parents} - {real})
    blocked = unreadable(user, [entry_of(path) for path in parents], entry_of(real), [entry_of(path) for path in files])
    if blocked:
        raise Refusal(
            "model_not_readable",
            f"User {name} cannot read {blocked[0]}" + (f" and {len(blocked) - 1} more paths." if blocked[1:] else "."),
            "Give that user read access, on folders also the right to enter.",
            {"user": name, "paths": blocked[:20]},
        )


def find_user(name: str) -> User:
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        # Planned for before it is created: what others may read, it may.
        return User(name, -1, frozenset())
    groups = {group.gr_gid for group in grp.getgrall() if name in group.gr_mem}
    return User(name, found.pw_uid, frozenset({found.pw_gid, *groups}))


def entry_of(path: Path) -> Entry:
    status = path.stat()
    return Entry(str(path), status.st_mode, status.st_uid, status.st_gid)


if __name__ == "__main__":
    main()
