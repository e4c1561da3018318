# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The NVML stand-in, compiled into a tree."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from .entries import ProfileError

LIBRARY = "lib/libnvidia-ml.so.1"
SOURCES = Path(__file__).resolve().parents[1] / "nvml"
FLAGS = ("-shared", "-fPIC", "-O1", "-fvisibility=hidden", "-Wl,-soname,libnvidia-ml.so.1")
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wno-sign-conversion", "-Werror")


def compiler() -> str | None:
    """The C compiler: what CC names, else cc, else gcc; none where there is none."""
    return shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")


def build_library(dest: Path, cc: str) -> bool:
    """Compile the NVML stand-in into the tree unless it is there and newer than its sources."""
    library = dest / LIBRARY
    sources = sorted(SOURCES.glob("*.[ch]"))
    newest = max(source.stat().st_mtime for source in sources)
    if library.is_file() and library.stat().st_mtime >= newest:
        return False
    library.parent.mkdir(parents=True, exist_ok=True)
    fresh = library.with_name(library.name + ".fresh")
    units = [str(source) for source in sources if source.suffix == ".c"]
    command = [cc, *FLAGS, *WARNINGS, "-o", str(fresh), *units, "-ldl", "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ProfileError(f"{' '.join(command)} failed:\n{done.stderr}")
    fresh.replace(library)
    return True


def copy_library(source: Path, dest: Path) -> None:
    """Take over the library of another tree where it is the newer one."""
    there, here = source / LIBRARY, dest / LIBRARY
    if here.is_file() and here.stat().st_mtime >= there.stat().st_mtime:
        return
    here.parent.mkdir(parents=True, exist_ok=True)
    fresh = here.with_name(here.name + ".fresh")
    shutil.copy2(there, fresh)
    fresh.replace(here)
