# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the hierarchies of control groups are mounted, and which groups of them a system service lives in.

Version 2 has one hierarchy for all controllers, version 1 one a controller or a few, hybrid hosts have both, and
before control groups there was a file system for cpusets alone. They need not be below /sys/fs/cgroup.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.files import (
    is_folder,
    names_in,
    read_text,
)

CONTROLLERS = ("cpu", "cpuset", "memory")
SERVICES = "system.slice"
# Groups at the top that are of sessions or of the jobs of batch systems, which may adopt a session.
_NOT_OF_SERVICES = re.compile(r"user\.slice|init\.scope|(slurm|pbs|lsf|htcondor).*")
# Deeper than systemd, Kubernetes and Slurm nest; a path without end is not followed.
MAX_DEPTH = 32


@dataclass(frozen=True)
class Mount:
    """One hierarchy. C(folder) is below the root; C(root) is the group that C(folder) shows, / for the whole of it.

    C(controllers) is None where the hierarchy itself has to be asked (version 2). C(prefix) stands before the names of
    the cpuset controller's files.
    """

    version: int
    folder: str
    root: str = "/"
    controllers: tuple[str, ...] | None = None
    prefix: str = "cpuset."


@dataclass(frozen=True)
class Hierarchy:
    """The hierarchy that holds one controller; C(groups) are the folders that count for a system service: those of
    each line of descent from the root of the hierarchy down, closest to the service last."""

    mount: Mount
    lines: tuple[tuple[str, ...], ...]


def _unescaped(text: str) -> str:
    """Blanks and the like are written in octal in lists of mounts."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def _mount(kind: str, point: str, root: str, options: Sequence[str]) -> Mount | None:
    folder = _unescaped(point).strip("/")
    if ".." in folder.split("/"):
        return None
    if kind == "cgroup2":
        return Mount(2, folder, root)
    if kind == "cpuset":
        return Mount(1, folder, root, ("cpuset",), "")
    held = tuple(name for name in CONTROLLERS if name in options)
    if kind == "cgroup" and held:
        return Mount(1, folder, root, held, "" if "noprefix" in options else "cpuset.")
    return None


def parse_mounts(text: str | None) -> tuple[Mount, ...]:
    """/proc/mounts or /proc/self/mountinfo; the latter also tells which part of a hierarchy is mounted."""
    found = []
    for line in (text or "").splitlines():
        fields, dash, rest = line.partition(" - ")
        words, tail = fields.split(), rest.split()
        mount = None
        if dash and len(words) > 4 and tail:
            mount = _mount(tail[0], words[4], _unescaped(words[3]), tail[-1].split(","))
        elif not dash and len(words) > 3:
            mount = _mount(words[2], words[1], "/", words[3].split(","))
        if mount is not None:
            found.append(mount)
    return tuple(found)


def parse_own_paths(cgroup: str | None, cpuset: str | None = None) -> dict[str, str]:
    """The groups of this process by controller, from /proc/self/cgroup and, for cpusets of old, /proc/self/cpuset.

    Version 2 stands under the empty name.
    """
    found: dict[str, str] = {}
    for line in (cgroup or "").splitlines():
        _number, _colon, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if colon:
            for controller in controllers.split(","):
                found.setdefault(controller, path)
    if cpuset:
        found.setdefault("cpuset", cpuset)
    return found


def service_path(own: str | None) -> str | None:
    """What the group of this process says about those of services; None where it says nothing.

    As in a container that sees the host's hierarchy, the groups above hold for services as well; but not those of a
    user's session or of a job, nor what is below the slice of services: another service's own, or a job of a batch
    system that is one (Slurm).
    """
    parts = [part for part in (own or "").split("/") if part]
    if not parts or ".." in parts or _NOT_OF_SERVICES.fullmatch(parts[0]):
        return None
    if parts[0] == SERVICES:
        return f"/{SERVICES}"
    if parts[-1].endswith(".service"):
        parts.pop()
    return "/" + "/".join(parts[:MAX_DEPTH])


def _below(path: str, root: str) -> str:
    """A group's path as seen below a mount that shows only the part C(root) of its hierarchy."""
    trimmed = root.rstrip("/")
    return path[len(trimmed) :] or "/" if path == trimmed or path.startswith(f"{trimmed}/") else "/"


def _line(mount: Mount, path: str) -> tuple[str, ...]:
    """The folders from the top of the mount down to a group."""
    parts = [part for part in _below(path, mount.root).split("/") if part]
    return tuple("/".join([mount.folder, *parts[:length]]) for length in range(len(parts) + 1))


def _conventional(root: Path) -> tuple[Mount, ...]:
    """Where the list of mounts cannot be read: the places that systemd mounts them at."""
    base = "sys/fs/cgroup"
    names = names_in(root, base)
    if "cgroup.controllers" in names:
        return (Mount(2, base),)
    held = [(name, tuple(part for part in name.split(",") if part in CONTROLLERS)) for name in names]
    v1 = tuple(Mount(1, f"{base}/{name}", "/", controllers) for name, controllers in held if controllers)
    return v1 or ((Mount(2, base),) if names else ())


def _mounts(root: Path) -> tuple[Mount, ...]:
    for name in ("proc/self/mountinfo", "proc/self/mounts", "proc/mounts"):
        text = read_text(root, name)
        if text:
            # A recording holds the mounts of its machine without what was mounted there, or the other way round.
            found = tuple(mount for mount in parse_mounts(text) if is_folder(root, mount.folder))
            return found or _conventional(root)
    return _conventional(root)


def read_hierarchies(root: Path) -> dict[str, Hierarchy]:
    """The hierarchy of each controller that is there at all; version 1 takes a controller away from version 2."""
    mounts = _mounts(root)
    own = parse_own_paths(read_text(root, "proc/self/cgroup"), read_text(root, "proc/self/cpuset"))
    found: dict[str, Hierarchy] = {}
    # A mount that shows the whole hierarchy before those that show a part, as containers have them.
    for mount in sorted(mounts, key=lambda mount: (mount.version, mount.root != "/")):
        if mount.version == 2:
            told = read_text(root, f"{mount.folder}/cgroup.controllers")
            held = tuple(name for name in CONTROLLERS if told is None or name in told.split())
        else:
            held = mount.controllers or ()
        for controller in held:
            if controller in found:
                continue
            key = "" if mount.version == 2 and "" in own else controller
            mine = service_path(own.get(key))
            paths = [f"/{SERVICES}"] + ([mine] if mine else [])
            lines = tuple(dict.fromkeys(_line(mount, path) for path in paths))
            found[controller] = Hierarchy(mount, lines)
    return found
