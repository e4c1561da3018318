# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the files of a model fit together, whatever their sums say: a source may be incomplete itself."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.checkpoint import index_map, is_lfs_pointer
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights import (
    PREFIX_BYTES,
    HeaderError,
    header_length,
    parse_header,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.manifest import (
    MAX_MANIFEST_BYTES,
    ManifestFile,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.disk import read_text

INDEX_SUFFIX = ".safetensors.index.json"


def check_indexes(folder: Path, fetched: Iterable[str], names: Iterable[str]) -> None:
    """Every weight file that an index names is among C(names); C(fetched) are those that can be read already."""
    there = set(names)
    for path in fetched:
        if not path.endswith(INDEX_SUFFIX):
            continue
        below = path.rpartition("/")[0]
        try:
            mapping = index_map(json.loads(read_text(folder / path, MAX_MANIFEST_BYTES) or ""))
        except (ValueError, HeaderError) as error:
            raise Refusal(
                "store_index_incomplete",
                f"{path} cannot be used: {error}.",
                "Have the source repaired.",
                {"path": path},
            ) from None
        wanted = {f"{below}/{name}" if below else name for name in mapping.values()}
        missing = sorted(wanted - there)
        if missing:
            raise Refusal(
                "store_index_incomplete",
                f"{path} names {len(wanted)} weight files, {len(missing)} of which the source does not have or exclude "
                f"leaves out: {', '.join(missing[:3])}{' and more' if len(missing) > 3 else ''}.",
                "Complete the source, or correct include and exclude. A model with a missing shard serves garbage.",
                {"index": path, "missing": missing[:100]},
            )


def check_structure(folder: Path, files: Sequence[ManifestFile]) -> None:
    """Raises Refusal for weight files that are not whole, though they are what the source has."""
    faults = []
    for file in files:
        if file.path.endswith(".safetensors"):
            try:
                _check_safetensors(folder / file.path, file.size_bytes)
            except HeaderError as error:
                faults.append((file.path, str(error)))
    if faults:
        path, why = faults[0]
        more = f" {len(faults) - 1} more files are faulty as well." if len(faults) > 1 else ""
        raise Refusal(
            "store_safetensors_malformed",
            f"{path} came as the source has it and is not a whole safetensors file: {why}.{more}",
            "Have the source repaired: it is damaged there.",
            {"faults": [{"path": name, "why": words} for name, words in faults[:100]]},
        )


def _check_safetensors(path: Path, size_bytes: int) -> None:
    with path.open("rb") as file:
        prefix = file.read(PREFIX_BYTES)
        if is_lfs_pointer(prefix + file.read(1024), size_bytes):
            raise HeaderError("it is a pointer of Git LFS, not the file itself")
        length = header_length(prefix, size_bytes)
        file.seek(PREFIX_BYTES)
        shard = parse_header(file.read(length))
    if shard.expected_file_bytes != size_bytes:
        raise HeaderError(f"it has {size_bytes:,} bytes, expected {shard.expected_file_bytes:,}")
