# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the packages of a Python environment have compiled: libraries, loose machine code, and a compiler for more."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.device_code import (
    DeviceCode,
    Target,
    cubin_target,
    device_code_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.elf_file import (
    Demands,
    demands_of,
    opened_elf,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

_SHARED = re.compile(r"\.so(?:\.\d+)*$")
_CUBIN = ".cubin"


@dataclass(frozen=True)
class Library:
    """C(path) is relative to the packages' folder. C(demands) is what it asks the loader for."""

    path: str
    size_bytes: int
    code: DeviceCode
    demands: Demands

    @property
    def package(self) -> str:
        return self.path.partition("/")[0]

    @property
    def targets(self) -> list[Target]:
        return sorted({target for part in self.code for target in part})


@dataclass(frozen=True)
class LooseCode:
    """The files of machine code of one package, by target."""

    package: str
    files: int
    targets: Mapping[Target, int]


@dataclass(frozen=True)
class Environment:
    """C(packages) is the folder of the packages; C(unreadable) names what could not be read as a library."""

    packages: Path
    libraries: tuple[Library, ...] = ()
    loose: tuple[LooseCode, ...] = ()
    compilers: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    names: frozenset[str] = field(default_factory=frozenset)


def packages_folder(environment: Path) -> Path:
    """Where a virtual environment keeps its packages; refused where there is none."""
    found = sorted(environment.glob("lib/python3.*/site-packages"))
    if len(found) != 1:
        raise Refusal(
            "environment_missing",
            f"{environment} has {len(found) or 'no'} folder{'s' * (len(found) > 1)} lib/python3.*/site-packages.",
            "Name the folder of a virtual environment, in which bin/python is.",
            {"path": str(environment)},
        )
    return found[0]


def read_environment(environment: Path) -> Environment:
    packages = packages_folder(environment)
    libraries: list[Library] = []
    unreadable: list[str] = []
    loose: dict[str, Counter[Target]] = {}
    names = set()
    for path in _files(packages):
        relative = path.relative_to(packages).as_posix()
        names.add(path.name)
        if path.name.endswith(_CUBIN):
            target = _loose_target(path)
            if target is not None:
                loose.setdefault(relative.partition("/")[0], Counter())[target] += 1
        # A link beside its library tells a name of it, and no more.
        elif _SHARED.search(path.name) and not path.is_symlink():
            library = _read_library(path, relative)
            if library is None:
                unreadable.append(relative)
            else:
                libraries.append(library)
    return Environment(
        packages=packages,
        libraries=tuple(libraries),
        loose=tuple(LooseCode(package, sum(counts.values()), counts) for package, counts in sorted(loose.items())),
        compilers=tuple(_compilers(packages)),
        unreadable=tuple(unreadable),
        names=frozenset(names),
    )


def _files(packages: Path) -> Iterator[Path]:
    """Libraries and machine code, in a fixed order."""
    for folder, folders, files in os.walk(packages):
        folders.sort()
        for name in sorted(files):
            if name.endswith(_CUBIN) or _SHARED.search(name):
                yield Path(folder) / name


def _read_library(path: Path, relative: str) -> Library | None:
    try:
        with opened_elf(path) as elf:
            if elf is None:
                return None
            return Library(relative, elf.size, device_code_of(elf), demands_of(elf))
    except OSError:
        return None


def _loose_target(path: Path) -> Target | None:
    try:
        with path.open("rb") as file:
            return cubin_target(file.read(64), path.name)
    except OSError:
        return None


def _compilers(packages: Path) -> Iterator[str]:
    """nvcc as wheels bring it: nvidia-cuda-nvcc of CUDA 13, and that of CUDA 12."""
    for pattern in ("nvidia/cu*/bin/nvcc", "nvidia/cuda_nvcc/bin/nvcc"):
        for path in sorted(packages.glob(pattern)):
            yield str(path)
