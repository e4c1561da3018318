# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the weight files of a model folder, of each the header only; what cannot be served is a Refusal."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.checkpoint import (
    MAX_POINTER_BYTES,
    MAX_WEIGHT_FILES,
    FileEntry,
    Selection,
    check_tensors,
    check_total_size,
    index_map,
    index_name,
    is_lfs_pointer,
    select,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights import (
    PREFIX_BYTES,
    HeaderError,
    Shard,
    Tensor,
    header_length,
    parse_header,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_folder import (
    MAX_ENTRIES,
    Digest,
    pointer_refusal,
    read_json,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal

# Headers of the largest checkpoints add up to some 50 MB.
MAX_HEADERS_BYTES = 1 << 30


@dataclass(frozen=True)
class Checkpoint:
    """What the weight files of a folder hold, each tensor once."""

    selection: Selection
    tensors: tuple[Tensor, ...]
    problems: tuple[Problem, ...]


def read_checkpoint(
    folder: Path, model_name: str, config: Mapping[str, Any], architecture: str | None, digest: Digest
) -> Checkpoint:
    """Headers of all weight files that SGLang would load, held against the index."""
    files = _read_files(folder)
    index_file = index_name((file.name for file in files), model_name)
    index = read_json(folder / index_file, digest) if index_file is not None else None
    mapping = None
    if index is not None:
        try:
            mapping = index_map(index)
        except HeaderError as error:
            raise Refusal(
                "model_index_malformed",
                f"{folder / str(index_file)} cannot be used: {error}.",
                "Copy the model again.",
                {"path": str(folder / str(index_file))},
            ) from None
    indexed = None if mapping is None else tuple(dict.fromkeys(mapping.values()))
    nextn = config.get("num_nextn_predict_layers")
    selection = select(files, model_name, indexed, architecture, isinstance(nextn, int) and nextn > 0)
    _refuse_missing(folder, selection)
    shards = _read_shards(folder, selection.load, digest)
    tensors, problems = check_tensors(mapping, {name: shard.tensors for name, shard in shards.items()})
    if index is not None:
        problems += check_total_size(index, sum(tensor.size_bytes for tensor in tensors))
    return Checkpoint(selection, tensors, selection.problems + problems)


def _read_files(folder: Path) -> list[FileEntry]:
    """Files of the folder and of those right below it, links followed; hidden ones are left out."""
    found = []
    for prefix, place in [("", folder)] + [
        (f"{entry.name}/", Path(entry.path)) for entry in _entries(folder) if entry.is_dir()
    ]:
        try:
            entries = _entries(place)
        except OSError:
            continue
        for entry in entries:
            try:
                status = entry.stat()
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                found.append(FileEntry(prefix + entry.name, status.st_size))
        if len(found) > MAX_ENTRIES:
            break
    return found[:MAX_ENTRIES]


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return [entry for entry, _number in zip(entries, range(MAX_ENTRIES)) if not entry.name.startswith(".")]


def _refuse_missing(folder: Path, selection: Selection) -> None:
    if len(selection.load) > MAX_WEIGHT_FILES:
        raise Refusal(
            "model_file_malformed",
            f"{folder} holds {len(selection.load):,} weight files, which no model has.",
            f"Expected at most {MAX_WEIGHT_FILES:,}.",
            {"path": str(folder)},
        )
    if selection.unsupported:
        total = sum(file.size_bytes for file in selection.unsupported)
        raise Refusal(
            "model_weights_unsupported",
            f"{folder} holds no safetensors file, only {len(selection.unsupported)} of another format "
            f"({format_gb(total)}): {_listing([file.name for file in selection.unsupported])}.",
            "Use a checkpoint in safetensors, or convert this one; other formats are not read.",
            {
                "path": str(folder),
                "files": [{"name": file.name, "size_bytes": file.size_bytes} for file in selection.unsupported[:100]],
                "total_bytes": total,
            },
        )
    if not selection.load:
        raise Refusal(
            "model_weights_missing",
            f"{folder} holds no safetensors file.",
            "Expected *.safetensors; other formats are not read.",
            {"path": str(folder)},
        )
    if selection.missing:
        raise Refusal(
            "model_shards_missing",
            f"{folder} lacks {len(selection.missing)} of {len(selection.load)} weight files that its index names, "
            f"{_listing(selection.missing)}.",
            "Copy the model again, or complete it.",
            {"missing": list(selection.missing)},
        )


def _read_shards(folder: Path, names: tuple[str, ...], digest: Digest) -> dict[str, Shard]:
    """Every file is looked at before any is refused, so that one run names all that are to be copied again."""
    shards: dict[str, Shard] = {}
    faults: list[Refusal] = []
    read_bytes = 0
    for name in names:
        try:
            shards[name], header_bytes = _read_shard(folder / name, digest, MAX_HEADERS_BYTES - read_bytes)
            read_bytes += header_bytes
        except Refusal as fault:
            faults.append(fault)
    if faults:
        first = faults[0]
        more = f" and {len(faults) - 1} more weight files are faulty as well." if len(faults) > 1 else ""
        raise Refusal(
            first.code,
            first.message[:-1] + "," + more if more else first.message,
            first.remedy if len(faults) == 1 else "Copy the files again that are named in the evidence.",
            {**first.evidence, "faults": [fault.as_dict() for fault in faults[:100]]} if more else first.evidence,
        )
    return shards


def _read_shard(path: Path, digest: Digest, allowance: int) -> tuple[Shard, int]:
    size = path.stat().st_size
    try:
        with path.open("rb") as file:
            prefix = file.read(PREFIX_BYTES)
            if size <= MAX_POINTER_BYTES and is_lfs_pointer(prefix + file.read(MAX_POINTER_BYTES), size):
                raise pointer_refusal(path, size)
            length = header_length(prefix, size)
            if length > allowance:
                raise HeaderError(f"its header of {length:,} bytes and those before it are more than any model's")
            file.seek(PREFIX_BYTES)
            header = file.read(length)
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
    digest.note(path.name, size, header)
    return shard, len(header)


def _listing(names: list[str] | tuple[str, ...], shown: int = 3) -> str:
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
