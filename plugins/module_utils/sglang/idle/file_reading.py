# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds files and segments that lie in memory, and who uses them: what a dead server may have left behind."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import MIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import escaped
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.holders import MemoryFile, SharedSegment
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.process_reading import user_name
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.texts import mapped_files, shared_segments
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.files import read_text

# Smaller files are no reason for a start to fail.
LEAST_BYTES = 1 * MIB
# Folders that hold shared memory; the other tmpfs mounts of a system hold its run-time files.
SHARED_FOLDERS = ("dev/shm",)
MAX_FILES = 10_000
# A rank maps thousands of regions.
MAX_MAPS = 64 << 20
# Of the text of one row in statvfs(3) and stat(2): blocks are counted in 512 bytes.
BLOCK_BYTES = 512
FileKey = tuple[int, int, int]


def _key(status: os.stat_result) -> FileKey:
    return os.major(status.st_dev), os.minor(status.st_dev), status.st_ino


def hugetlb_folders(root: Path) -> tuple[str, ...]:
    rows = (line.split() for line in (read_text(root, "proc/mounts") or "").splitlines())
    return tuple(row[1].lstrip("/") for row in rows if len(row) > 2 and row[2] == "hugetlbfs")


def _files_below(root: Path, folder: str, kind: str) -> Iterator[tuple[FileKey, MemoryFile]]:
    seen = 0
    for place, _folders, names in os.walk(root / folder):
        for name in names:
            seen += 1
            if seen > MAX_FILES:
                return
            path = Path(place, name)
            try:
                status = path.lstat()
            except OSError:
                continue
            size = status.st_size if kind == "hugetlbfs" else status.st_blocks * BLOCK_BYTES
            if stat.S_ISREG(status.st_mode) and size >= LEAST_BYTES:
                # Anyone may make a file there, and give it any name.
                shown = escaped("/" + str(path.relative_to(root)))
                yield _key(status), MemoryFile(shown, kind, size, user_name(status.st_uid))


def _open_files(root: Path, pid: int) -> Iterator[tuple[str, os.stat_result]]:
    """Files in memory that a process has open and that have no name any more, and files of the shared folders."""
    try:
        links = list((root / f"proc/{pid}/fd").iterdir())
    except OSError:
        return
    for link in links:
        try:
            target = str(link.readlink())
            if target.startswith("/memfd:") or "/dev/shm/" in target or "hugepages" in target:
                yield target, link.stat()
        except OSError:
            continue


def read_files(root: Path, pids: Iterable[int]) -> tuple[MemoryFile, ...]:
    """Files of at least a MiB in shared memory and huge pages, with who uses them; largest first.

    A file that was removed while a process has it open keeps its memory, and so does a memfd, which never had a name.
    """
    found: dict[FileKey, MemoryFile] = {}
    for folder in SHARED_FOLDERS:
        found.update(_files_below(root, folder, "tmpfs"))
    for folder in hugetlb_folders(root):
        found.update(_files_below(root, folder, "hugetlbfs"))
    users: dict[FileKey, list[int]] = {}
    for pid in pids:
        keys: set[FileKey] = set()
        for target, status in _open_files(root, pid):
            key, size = _key(status), status.st_blocks * BLOCK_BYTES
            keys.add(key)
            if key not in found and size >= LEAST_BYTES:
                kind = "memfd" if target.startswith("/memfd:") else "tmpfs"
                found[key] = MemoryFile(escaped(target), kind, size, user_name(status.st_uid))
        if found:
            keys |= mapped_files(read_text(root, f"proc/{pid}/maps", MAX_MAPS) or "")
        for key in keys:
            users.setdefault(key, []).append(pid)
    files = [
        MemoryFile(file.path, file.kind, file.bytes, file.user, tuple(sorted(users.get(key, ()))))
        for key, file in found.items()
    ]
    return tuple(sorted(files, key=lambda file: -file.bytes))


def read_segments(root: Path) -> tuple[SharedSegment, ...]:
    table = read_text(root, "proc/sysvipc/shm") or ""
    numbers = {int(word) for line in table.splitlines()[1:] for word in line.split() if word.isdigit()}
    names = {number: user_name(number) for number in numbers if number < 1 << 31}
    return tuple(segment for segment in shared_segments(table, names) if segment.size_bytes >= LEAST_BYTES)
