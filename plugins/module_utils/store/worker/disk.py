# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of the store on the disk: written as a whole or not at all, and read without keeping them in memory."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.store.space import Disk
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.verifying import FileStatus

CHUNK_BYTES = 1 << 20
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# ioctl_ficlone(2)
FICLONE = 0x40049409


def write_whole(path: Path, text: str, mode: int = 0o644, sync: bool = True) -> None:
    """A reader finds the old content or the new one; so does who comes after a loss of power if C(sync)."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.new")
    handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        os.fchmod(handle, mode)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    if sync:
        sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """What was made, renamed or removed in it survives a loss of power."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError:  # some network file systems know no such thing
        pass
    finally:
        os.close(handle)


def read_text(path: Path, limit_bytes: int) -> str | None:
    """None for a file that is not there, cannot be read or has more than it may have."""
    try:
        with path.open("rb") as file:
            content = file.read(limit_bytes + 1)
    except OSError:
        return None
    return None if len(content) > limit_bytes else content.decode("utf-8", "replace")


def status_of(path: Path) -> FileStatus | None:
    """Of a plain file; a link is none, since what it leads to is not in the store's hands."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return FileStatus(status.st_size, status.st_mtime_ns) if _is_plain(status.st_mode) else None


def files_below(folder: Path) -> Iterator[str]:
    """Paths of everything below that is no folder, relative to it."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            yield str((Path(parent) / name).relative_to(folder))


def sha256_of(path: Path, tell: Callable[[int], None], stop: Callable[[], bool] = lambda: False) -> str:
    """Reads it from the disk, tells of every piece, and leaves the page cache as it was."""
    total = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        done = 0
        while piece := file.read(4 * CHUNK_BYTES):
            total.update(piece)
            done += len(piece)
            tell(len(piece))
            if done % (64 * CHUNK_BYTES) == 0:
                forget(file.fileno(), done)
            if stop():
                raise InterruptedError
        forget(file.fileno(), 0)
    return total.hexdigest()


def forget(handle: int, up_to_bytes: int) -> None:
    """Gives the page cache of what has been read or synced back: host pools are sized by what is available."""
    if hasattr(os, "posix_fadvise"):
        with contextlib.suppress(OSError):
            os.posix_fadvise(handle, 0, up_to_bytes, os.POSIX_FADV_DONTNEED)


def clone(source: Path, target: Path) -> bool:
    """Shares the blocks of a file where the file system can (XFS, btrfs); false where it cannot."""
    with source.open("rb") as origin, target.open("wb") as copy:
        try:
            fcntl.ioctl(copy.fileno(), FICLONE, origin.fileno())
        except OSError:
            return False
        os.fsync(copy.fileno())
    return True


def disk_of(path: Path) -> Disk:
    """The file system that will hold a folder which may not be there yet."""
    while not path.exists():
        path = path.parent
    found = os.statvfs(path)
    # Some file systems make inodes as they are needed, and tell of none.
    return Disk(str(path), found.f_bavail * found.f_frsize, found.f_favail if found.f_files else None)


def boot_id() -> str:
    return (read_text(BOOT_ID, 100) or "").strip()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Whether this process has the lock; it never waits, and the lock falls with the process."""
    with path.open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True


def point_link(link: Path, target: str) -> None:
    """Sets a link in one step: whoever opens it finds the old target or the new one."""
    unfinished = link.with_name(f".{link.name}.{os.getpid()}.new")
    unfinished.unlink(missing_ok=True)
    unfinished.symlink_to(target)
    unfinished.replace(link)
    sync_folder(link.parent)


def _is_plain(mode: int) -> bool:
    return mode & 0o170000 == 0o100000
