# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All that the folder of a model tells of it. Reads the folder, and nothing of its weights but their headers."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import (
    attention_from_config,
    config_dtype,
    text_config,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architectures import MULTIMODAL
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.checkpoint import (
    HF_QUANT_CONFIG_NAME,
    QUANT_MODEL_DESCRIPTION_NAME,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.problem_codes import CODES
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.quantization import (
    QuantizationDetails,
    quantization_details,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.vision import vision_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_folder import (
    Digest,
    read_folder,
    read_json,
    read_optional_json,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_groups import (
    REST,
    TensorGroup,
    bytes_by_dtype,
    bytes_by_kind,
    bytes_by_part,
    layer_sizes,
    scale_bytes_by_part,
    tensor_groups,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_reading import Checkpoint, read_checkpoint
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_structure import structure_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.readable import Entry, User, unreadable


def unreadable_folder(path: str, error: OSError) -> Refusal:
    return Refusal(
        "model_unreadable",
        f"{error.filename or path} cannot be read: {error.strerror or error}.",
        "Check the folder and the rights of the user that Ansible runs as.",
    )


def read_model(path: Path, readable_by: str | None) -> dict[str, Any]:
    """Everything that is returned under model; raises Refusal for a folder that cannot be served from."""
    folder, hub, problems = read_folder(path)
    name = hub.repository.rsplit("/", 1)[-1] if hub is not None else folder.name
    digest = Digest()
    config = read_json(folder / "config.json", digest)
    text = text_config(config)
    architectures = config.get("architectures")
    architecture = str(architectures[0]) if isinstance(architectures, list) and architectures else None
    quantization, told = read_quantization(folder, config, digest)
    checkpoint = read_checkpoint(folder, name, text, architecture, digest)
    if readable_by is not None:
        refuse_unreadable(folder, readable_by)
    structure = structure_from_config(config, text)
    groups = tensor_groups(checkpoint.tensors, structure.num_layers)
    attention, refused = read_attention(config)
    vision = vision_from_config(architecture, config) if architecture in MULTIMODAL else None
    declared = None if quantization is None else quantization.declared or quantization.method
    return {
        "path": str(folder),
        "name": name,
        "repository": hub.repository if hub is not None else None,
        "revision": hub.revision if hub is not None else None,
        "architecture": architecture,
        "model_type": config.get("model_type"),
        "attention": attention,
        "vision": None if vision is None else vision.as_dict(),
        "hidden_size": text.get("hidden_size"),
        "vocab_size": text.get("vocab_size"),
        "max_position_embeddings": text.get("max_position_embeddings"),
        "dtype": config_dtype(config),
        "quantization": declared,
        "quantization_details": None if quantization is None else quantization.as_dict(),
        "kv_cache_quantized": quantization is not None and quantization.kv_cache_scheme is not None,
        "structure": structure.as_dict(),
        "weights": weights(checkpoint, groups),
        "manifest_sha256": digest.hex(),
        "problems": [
            problem.as_dict() for problem in (*refused, *problems, *told, *checkpoint.problems, *capped(groups))
        ],
    }


def weights(checkpoint: Checkpoint, groups: tuple[TensorGroup, ...]) -> dict[str, Any]:
    return {
        "total_bytes": sum(group.size_bytes for group in groups),
        "by_dtype": bytes_by_dtype(groups),
        "by_kind": bytes_by_kind(groups),
        "by_part": bytes_by_part(groups),
        "scales_by_part": scale_bytes_by_part(groups),
        "layers": layer_sizes(groups),
        "groups": [group.as_dict() for group in groups],
        "files": len(checkpoint.selection.load),
        "tensors": len(checkpoint.tensors),
        "load_format": checkpoint.selection.load_format,
        "ignored_files": [file.as_dict() for file in checkpoint.selection.ignored],
    }


def read_quantization(
    folder: Path, config: dict[str, Any], digest: Digest
) -> tuple[QuantizationDetails | None, tuple[Problem, ...]]:
    """The configuration decides; the files of ModelOpt and ModelSlim are asked where it says nothing."""
    text = text_config(config)
    details = quantization_details(config, text)
    problems: tuple[Problem, ...] = ()
    if details is None:
        modelopt, first = read_optional_json(folder / HF_QUANT_CONFIG_NAME, digest)
        modelslim, second = read_optional_json(folder / QUANT_MODEL_DESCRIPTION_NAME, digest)
        details = quantization_details(config, text, modelopt, modelslim)
        problems = (*first, *second)
    if details is not None and not details.known_to_sglang:
        code = "model_quantization_unknown"
        problems += (CODES[code].of(code, f"The checkpoint's quantisation is {details.method[:80]}."),)
    return details, problems


def capped(groups: tuple[TensorGroup, ...]) -> tuple[Problem, ...]:
    rest = sum(group.size_bytes for group in groups if group.name == REST)
    if not rest:
        return ()
    code = "model_tensor_groups_capped"
    return (CODES[code].of(code, f"{rest:,} bytes of tensors are summed up under {REST}."),)


def read_attention(config: dict[str, Any]) -> tuple[dict[str, Any] | None, tuple[Problem, ...]]:
    try:
        return attention_from_config(config).as_dict(), ()
    except Refusal as refusal:
        # Reading is not planning: whether that matters is for memory_plan to say.
        return None, (Problem(refusal.code, "error", refusal.message, refusal.remedy),)


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
