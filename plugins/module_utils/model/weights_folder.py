# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the folder that is served from, and reads its JSON files; what cannot be served is a Refusal."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.checkpoint import (
    Hub,
    choose_snapshot,
    hub_place,
    is_lfs_pointer,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.problem_codes import CODES
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights import is_text
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal

# Configurations and indexes are read whole; the index of a model with a million tensors stays below this.
MAX_JSON_BYTES = 256 * (1 << 20)
MAX_ENTRIES = 100_000


class Digest:
    """What a folder's identity is made of: names, sizes and what was read."""

    def __init__(self) -> None:
        self._sum = hashlib.sha256()

    def note(self, name: str, size: int, content: bytes) -> None:
        self._sum.update(f"{name}\0{size}\0{hashlib.sha256(content).hexdigest()}\n".encode("utf-8", "surrogateescape"))

    def hex(self) -> str:
        return self._sum.hexdigest()


def read_folder(path: Path) -> tuple[Path, Hub | None, tuple[Problem, ...]]:
    """The folder to serve from: the path itself, or the snapshot that a hub cache's C(refs/main) leads to."""
    if not path.is_dir():
        raise Refusal(
            "model_folder_missing",
            f"{path} is {'not a folder' if path.exists() else 'missing'}.",
            "Expected the folder of a model, with config.json and safetensors files in it.",
            {"path": str(path)},
        )
    hub = hub_place(path.parts)
    if hub is None:
        return path, None, ()
    folder = path
    if hub.revision is None and (path / "snapshots").is_dir() and not (path / "config.json").exists():
        snapshots = sorted(entry.name for entry in (path / "snapshots").iterdir() if entry.is_dir())[:MAX_ENTRIES]
        reference = _read_reference(path / "refs" / "main")
        chosen = choose_snapshot(reference, snapshots)
        if chosen is None:
            raise Refusal(
                "model_snapshot_unclear",
                f"{path} is a hub cache with {len(snapshots)} snapshots, and refs/main "
                f"{f'names {reference[:80]}, which is not one of them' if reference else 'is not there'}.",
                "Give the folder of one snapshot, or download the model again.",
                {"path": str(path), "snapshots": snapshots[:20], "reference": reference},
            )
        folder = path / "snapshots" / chosen
        hub = Hub(hub.repository, chosen)
    return folder, hub, _incomplete(folder)


def _read_reference(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            text = file.read(200).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return text or None


def _incomplete(folder: Path) -> tuple[Problem, ...]:
    blobs = folder.parent.parent / "blobs"
    if folder.parent.name != "snapshots" or not blobs.is_dir():
        return ()
    try:
        parts = [entry.name for entry in blobs.iterdir() if entry.name.endswith(".incomplete")]
    except OSError:
        return ()
    if not parts:
        return ()
    message = f"{blobs} holds {len(parts)} unfinished {'download' if len(parts) == 1 else 'downloads'}."
    return (CODES["model_download_incomplete"].of("model_download_incomplete", message),)


def read_json(path: Path, digest: Digest) -> dict[str, Any]:
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
    value = _parsed(content)
    if value is None:
        if is_lfs_pointer(content, size):
            raise pointer_refusal(path, size)
        raise Refusal(
            "model_file_malformed",
            f"{path} is not a JSON object of valid text.",
            "Copy the model again.",
            {"path": str(path)},
        )
    digest.note(path.name, size, content)
    return value


def _parsed(content: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(content.decode("utf-8"))
    except (UnicodeDecodeError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and is_text(value) else None


def read_optional_json(path: Path, digest: Digest) -> tuple[dict[str, Any] | None, tuple[Problem, ...]]:
    """A file that need not be there, and whose loss is told rather than refused."""
    if not path.is_file():
        return None, ()
    try:
        return read_json(path, digest), ()
    except Refusal as refusal:
        return None, (CODES["model_file_unreadable_json"].of("model_file_unreadable_json", refusal.message),)


def pointer_refusal(path: Path, size: int) -> Refusal:
    return Refusal(
        "model_file_pointer",
        f"{path} is a pointer of Git LFS ({size} bytes of text), not the file itself.",
        "Fetch what it points to: git lfs pull in the clone, or download with the hub's own tool.",
        {"path": str(path), "size_bytes": size},
    )
