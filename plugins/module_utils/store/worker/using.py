# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Looks on the node for whoever names or holds files of a store: units, configurations, processes, mounts."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.store.usage import Use, lines_naming, paths_in
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.disk import read_text

# systemd.unit(5), quadlets of podman (podman-systemd.unit(5)), and what the roles of this collection keep: the
# configurations of instances and their ledgers, those of generations to return to among them.
UNIT_FOLDERS = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/run/systemd/transient",
    "/run/systemd/generator",
    "/run/systemd/generator.late",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
    "/etc/containers/systemd",
)
CONFIG_FOLDERS = ("/etc/sglang", "/var/lib/sglang", "/opt/sglang", "/etc/default", "/etc/sysconfig")
_UNIT_ENDS = (".service", ".conf", ".mount", ".automount", ".path", ".socket", ".container", ".volume", ".kube", ".pod")
_CONFIG_ENDS = (".yaml", ".yml", ".json", ".env", ".conf", ".toml", ".sh", ".service", "")
# systemd.unit(5), systemd.exec(5), systemd.mount(5).
_MOUNT_SETTINGS = frozenset(
    ("RequiresMountsFor", "WantsMountsFor", "ReadWritePaths", "ReadOnlyPaths", "ExecPaths", "NoExecPaths", "Where")
)
MAX_TEXT_BYTES = 8 << 20
# Environments and logs of releases are large and name no model.
_SKIPPED = frozenset(
    ("site-packages", "node_modules", "__pycache__", "lib", "lib64", "bin", "include", "share", "cache")
)
_MAX_DEPTH = 4


@dataclass
class Finds:
    """What was found, and what could not be looked at."""

    uses: list[Use] = field(default_factory=list)
    blind: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Scope:
    """What is looked at below C(machine), which is / on a node. C(own_pids): processes of this very look."""

    root: Path
    folders: tuple[str, ...]
    machine: Path = Path("/")
    own_pids: frozenset[int] = frozenset()

    @property
    def real_root(self) -> str:
        return _real(str(self.root))


def look(scope: Scope) -> Finds:
    """Everything that holds or names something of the store."""
    finds = Finds()
    # Links may lead elsewhere than at the last look.
    _real.cache_clear()
    _texts(scope, finds)
    _processes(scope, finds)
    return finds


def below_root(scope: Scope, path: str) -> str | None:
    """A path as the store has it, after all links; None for one that leads elsewhere."""
    for spelling in (path, _real(path)):
        for root in (str(scope.root).rstrip("/"), scope.real_root.rstrip("/")):
            if spelling == root:
                return ""
            if spelling.startswith(root + "/"):
                rest = os.path.normpath(spelling[len(root) + 1 :])
                return None if rest.startswith("..") else ("" if rest == "." else rest)
    return None


@lru_cache(maxsize=100_000)
def _real(path: str) -> str:
    """The same libraries and folders are named by every process of a node."""
    return os.path.realpath(path)


def _texts(scope: Scope, finds: Finds) -> None:
    seen: set[str] = set()
    named: list[tuple[str, Path]] = []
    for folder in dict.fromkeys((*UNIT_FOLDERS, *CONFIG_FOLDERS, *scope.folders)):
        ends = _UNIT_ENDS if folder in UNIT_FOLDERS else _CONFIG_ENDS
        for path in _files(scope.machine / folder.lstrip("/"), ends, _MAX_DEPTH, finds):
            real = os.path.realpath(path)
            if real not in seen:
                seen.add(real)
                named.append((str(path), path))
    for who, path in named:
        text = read_text(path, MAX_TEXT_BYTES)
        if text is None:
            _unreadable(path, finds)
            continue
        _note(scope, finds, who, text)
        # A file that a unit is started with may lie anywhere (--config, EnvironmentFile=).
        if path.suffix in (".service", ".conf", ".container"):
            for other in sorted(paths_in(text)):
                inner = scope.machine / other.lstrip("/")
                if other not in seen and inner.suffix in (".yaml", ".yml", ".json", ".env", ".conf", ".toml", ".sh"):
                    seen.add(other)
                    inner_text = read_text(inner, MAX_TEXT_BYTES)
                    if inner_text is not None:
                        _note(scope, finds, f"{inner} (of {path.name})", inner_text)


def _note(scope: Scope, finds: Finds, who: str, text: str) -> None:
    text = "\n".join(line for line in text.splitlines() if not _is_about_mounts(line, scope))
    found = paths_in(text)
    for root in (str(scope.root), scope.real_root):
        found |= lines_naming(text, root)
    for path in sorted(found):
        below = below_root(scope, path)
        if below is not None:
            _add(finds, Use(who, below))


def _is_about_mounts(line: str, scope: Scope) -> bool:
    """A unit that needs the store to be there, as a whole, says nothing of what it reads there."""
    name, _sign, value = line.strip().partition("=")
    roots = {str(scope.root).rstrip("/"), scope.real_root.rstrip("/")}
    words = {word.strip("\"'-+").rstrip("/") for word in value.split()}
    return name in _MOUNT_SETTINGS and not {word for word in words if below_root(scope, word)} and bool(roots & words)


def _files(folder: Path, ends: tuple[str, ...], depth: int, finds: Finds) -> Iterator[Path]:
    if folder.is_file():
        yield folder
        return
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError:
        finds.blind.append(str(folder))
        return
    for entry in entries:
        path = Path(entry.path)
        try:
            is_folder, is_file = entry.is_dir(follow_symlinks=False), entry.is_file()
        except OSError:
            continue
        if is_folder and depth > 0 and entry.name not in _SKIPPED:
            yield from _files(path, ends, depth - 1, finds)
        elif is_file and (path.suffix in ends):
            yield path


def _unreadable(path: Path, finds: Finds) -> None:
    try:
        size = path.stat().st_size
    except OSError:
        return  # gone meanwhile, or a link to nothing
    if size <= MAX_TEXT_BYTES:
        finds.blind.append(str(path))


def _processes(scope: Scope, finds: Finds) -> None:
    inodes = _inodes(scope.root)
    spaces: set[int] = set()
    proc = scope.machine / "proc"
    try:
        pids = sorted(int(path.name) for path in proc.iterdir() if path.name.isdecimal())
    except OSError:
        finds.blind.append("the processes")
        return
    for pid in pids:
        if pid not in scope.own_pids:
            _process(scope, proc / str(pid), inodes, finds, spaces)


def _process(
    scope: Scope, folder: Path, inodes: dict[tuple[int, int], list[str]], finds: Finds, spaces: set[int]
) -> None:
    command = (read_text(folder / "comm", 100) or "?").strip()
    who = f"process {folder.name} ({command})"
    try:
        words = (folder / "cmdline").read_bytes().decode("utf-8", "replace").replace("\0", "\n")
        words += "\n" + (folder / "environ").read_bytes().decode("utf-8", "replace").replace("\0", "\n")
    except (FileNotFoundError, ProcessLookupError):
        return
    except PermissionError:
        finds.blind.append(who)
        return
    except OSError:
        words = ""
    found = paths_in(words)
    for root in (str(scope.root), scope.real_root):
        found |= lines_naming(words, root)
    for path in found:
        below = below_root(scope, path)
        # A tool that was told the root itself, such as this one, holds nothing by it.
        if below:
            _add(finds, Use(who, below))
    for path in _held_paths(scope, folder, inodes, spaces):
        _add(finds, Use(who, path))


def _held_paths(
    scope: Scope, folder: Path, inodes: dict[tuple[int, int], list[str]], spaces: set[int]
) -> Iterator[str]:
    """Open and mapped files and the working folder, by inode, so that other mount namespaces do not hide them."""
    for link in [*_entries(folder / "fd"), folder / "cwd", folder / "root"]:
        try:
            status = link.stat()
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
            yield from inodes.get((status.st_dev, status.st_ino), ())
    numbers = {number for _device, number in inodes}
    for line in (read_text(folder / "maps", MAX_TEXT_BYTES) or "").splitlines():
        # proc_pid_maps(5): addresses, rights, offset, device, inode, name. Devices differ from stat's on btrfs.
        words = line.split(None, 5)
        if len(words) > 5 and words[4].isdigit() and int(words[4]) in numbers:
            yield from _mapped(folder / "map_files" / words[0], int(words[4]), inodes)
    # A folder of the store that is mounted into a container; all processes of a mount namespace have the same.
    try:
        space = (folder / "ns" / "mnt").stat().st_ino
    except OSError:
        space = -1
    if space in spaces:
        return
    spaces.update({space} - {-1})
    for line in (read_text(folder / "mountinfo", MAX_TEXT_BYTES) or "").splitlines():
        fields = line.split()
        if len(fields) > 4 and fields[4] not in ("/", str(scope.root), scope.real_root):
            try:
                status = (folder / "root" / _octal(fields[4]).lstrip("/")).stat()
            except OSError:
                continue
            yield from inodes.get((status.st_dev, status.st_ino), ())


def _mapped(link: Path, number: int, inodes: dict[tuple[int, int], list[str]]) -> list[str]:
    """What is mapped there; where the kernel does not say, whatever of the store has this inode."""
    try:
        status = link.stat()
    except OSError:
        return [path for (_device, inode), paths in inodes.items() if inode == number for path in paths]
    return inodes.get((status.st_dev, status.st_ino), [])


def _octal(text: str) -> str:
    r"""proc(5): blanks in mountinfo are written as C(\040)."""
    for code, mark in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, mark)
    return text


def _inodes(root: Path) -> dict[tuple[int, int], list[str]]:
    """Every folder and file of the store but its root, by device and inode; revisions may share a file."""
    found: dict[tuple[int, int], list[str]] = {}
    for parent, folders, names in os.walk(root):
        for name in (*folders, *names):
            path = Path(parent) / name
            try:
                status = path.lstat()
            except OSError:
                continue
            found.setdefault((status.st_dev, status.st_ino), []).append(str(path.relative_to(root)))
    return found


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _add(finds: Finds, use: Use) -> None:
    if use not in finds.uses:
        finds.uses.append(use)


def own_pids() -> frozenset[int]:
    """This process and those above it: a shell that was told a path in its arguments is no user of it."""
    found, pid = set(), os.getpid()
    while pid > 1 and pid not in found:
        found.add(pid)
        text = read_text(Path(f"/proc/{pid}/stat"), 4096) or ""
        fields = text[text.rfind(")") + 1 :].split()
        pid = int(fields[1]) if len(fields) > 1 and fields[1].isdigit() else 0
    return frozenset(found)
