# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Small models for tests of the store, with real safetensors files."""

from __future__ import annotations

import hashlib
import json
import os
import random
import struct
import threading
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.store.job import Job, Secrets
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.source import Source
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.task import Progress, run
from ansible_collections.gpufleet.sglang.rehearsal.model_mirror.server import Mirror

INDEX = "model.safetensors.index.json"


def shard_name(number: int, shards: int) -> str:
    return f"model-{number:05d}-of-{shards:05d}.safetensors"


def make_model(folder: Path, shards: int = 3, shard_bytes: int = 200_000, seed: int = 1) -> Path:
    """config.json, an index and so many shards of random weights; the same bytes for the same seed."""
    folder.mkdir(parents=True, exist_ok=True)
    dice = random.Random(seed)
    weight_map = {}
    for number in range(1, shards + 1):
        tensor = f"model.layers.{number}.weight"
        name = shard_name(number, shards)
        length = shard_bytes // 2
        header = json.dumps({tensor: {"dtype": "BF16", "shape": [length], "data_offsets": [0, 2 * length]}}).encode()
        (folder / name).write_bytes(struct.pack("<Q", len(header)) + header + dice.randbytes(2 * length))
        weight_map[tensor] = name
    (folder / INDEX).write_text(json.dumps({"weight_map": weight_map}), encoding="utf-8")
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "seed": seed}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / ".gitattributes").write_text("*.safetensors filter=lfs\n", encoding="utf-8")
    return folder


def write_sums(folder: Path) -> None:
    """SHA256SUMS beside the files, as sha256sum writes it."""
    names = sorted(
        path.name for path in folder.iterdir() if path.name != "SHA256SUMS" and not path.name.startswith(".")
    )
    lines = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="ascii")


def size_of(folder: Path) -> int:
    """Bytes of what the store takes of a model: everything that is not hidden, nor its list of sums."""
    return sum(
        path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".") and path.name != "SHA256SUMS"
    )


def same(one: Path, other: Path) -> bool:
    """Whether two folders hold the same files, hidden ones aside."""

    def content(folder: Path) -> dict[str, bytes]:
        paths = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
        return {str(path.relative_to(folder)): path.read_bytes() for path in paths}

    return content(one) == content(other)


def job_for(root: Path, source: Source | None, **options: Any) -> Job:
    """A job with short waits, for the user that runs the test."""
    given: dict[str, Any] = {"stall_seconds": 0.5, "pause_seconds": 0.01, "attempts": 3, **options}
    return Job(root=str(root), name="tiny", source=source, uid=os.getuid(), gid=os.getgid(), **given)


def work(job: Job, token: str | None = None, stop: threading.Event | None = None) -> dict[str, Any]:
    """What a worker does, in this process."""
    progress = Progress() if stop is None else Progress(stop=stop)
    return run(job, Secrets(token), progress)


def stop_when(mirror: Mirror, sent_bytes: int, stop: threading.Event) -> None:
    """Asks a worker to stop as soon as the mirror has sent so much."""

    def wait() -> None:
        mirror.memory.await_sent(sent_bytes, 30)
        stop.set()

    threading.Thread(target=wait, daemon=True).start()


def damage(path: Path, place: int = -1) -> None:
    """Another byte, the same size; the time of the file changes as well, as it does when a program writes to it."""
    content = bytearray(path.read_bytes())
    content[place] ^= 0xFF
    path.chmod(0o644)
    path.write_bytes(content)
