# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which shared libraries are asked for and are nowhere to be found: what the loader does, without loading anything.

ld.so(8): the folders that a library names (RPATH, RUNPATH), then those of /etc/ld.so.conf, then the usual ones. PyTorch
loads the libraries of the nvidia packages by their names before anything else asks for them (torch/__init__.py), so
that a library in any package of the environment counts as found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.environment import Environment, Library

_USUAL = ("lib", "lib64", "usr/lib", "usr/lib64", "usr/local/lib", "usr/local/lib64")
# Of Debian and Ubuntu, which keep libraries by architecture.
_MULTIARCH = ("lib/*-linux-gnu", "usr/lib/*-linux-gnu", "usr/local/lib/*-linux-gnu")
_DRIVER = re.compile(r"^lib(?:cuda|nvidia-[\w-]+|nvcuvid)\.so")
_INCLUDE_DEPTH = 4


@dataclass(frozen=True)
class Missing:
    """C(of_driver): it comes with the NVIDIA driver and with nothing else."""

    library: str
    needed_by: tuple[str, ...]
    of_driver: bool


def missing_libraries(environment: Environment, root: Path = Path("/")) -> list[Missing]:
    """What no folder that the loader looks into has, by what asks for it."""
    system = tuple(loader_folders(root))
    wanted: dict[str, list[str]] = {}
    for library in environment.libraries:
        for name in library.demands.needed:
            if name not in environment.names and not _is_there(name, library, environment, system):
                wanted.setdefault(name, []).append(library.path)
    return [
        Missing(name, tuple(needed_by), _DRIVER.match(name) is not None) for name, needed_by in sorted(wanted.items())
    ]


def _is_there(name: str, library: Library, environment: Environment, system: tuple[Path, ...]) -> bool:
    origin = (environment.packages / library.path).parent
    own = (
        Path(folder.replace("$ORIGIN", str(origin)).replace("${ORIGIN}", str(origin)))
        for folder in (*library.demands.runpath, *library.demands.rpath)
    )
    return "/" in name or any((folder / name).exists() for folder in (*own, *system))


def loader_folders(root: Path) -> Iterator[Path]:
    yield from _configured(root, root / "etc/ld.so.conf", _INCLUDE_DEPTH)
    for folder in _USUAL:
        yield root / folder
    for pattern in _MULTIARCH:
        yield from sorted(root.glob(pattern))


def _configured(root: Path, file: Path, depth: int) -> Iterator[Path]:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in (line.partition("#")[0].strip() for line in lines):
        word, _space, rest = line.partition(" ")
        if word == "include" and depth > 0:
            for pattern in rest.split():
                absolute = pattern if pattern.startswith("/") else str(file.parent / pattern)
                for included in sorted(root.glob(str(Path(absolute).relative_to("/")))):
                    yield from _configured(root, included, depth - 1)
        elif line.startswith("/"):
            yield root / line.lstrip("/")
