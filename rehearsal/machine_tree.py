#!/usr/bin/env python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build a machine out of a profile: sys/, proc/, machine.nvml and lib/libnvidia-ml.so.1 below one folder.

    python rehearsal/machine_tree.py rehearsal/machines/founding.yml .build/rehearsal/machine
    python rehearsal/machine_tree.py rehearsal/machines .build/rehearsal/machines

The second makes every machine of the folder, each in a folder of its own.
The profile's format is described in machines/README.md. The same profile always gives the same tree; a file is
written only when its content changes, and the folder itself is never replaced, so that it can stay mounted in a
container meanwhile. What the folder holds beyond the profile is removed; a folder which was not made by this
program is refused.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

if not __package__:
    # Run as a program and not imported from the collection: the parts are found beside it (PEP 366).
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    __package__ = "rehearsal"

from .machine_parts.cgroups import cgroups
from .machine_parts.entries import Entry, Link, Profile, ProfileError
from .machine_parts.host import driver, host, processes, processors
from .machine_parts.library import LIBRARY, build_library, compiler, copy_library
from .machine_parts.lists import list_of, numbers_of
from .machine_parts.memory import memory
from .machine_parts.nvml_file import common_ancestor, machine_file
from .machine_parts.pci import pci
from .machine_parts.profile import FORMAT, completed, load_profile
from .machine_parts.stack import stack
from .machine_parts.sync import MARKER, refuse_foreign_folder, sync

__all__ = [
    "FORMAT",
    "LIBRARY",
    "MARKER",
    "Entry",
    "Link",
    "Profile",
    "ProfileError",
    "build_library",
    "build_tree",
    "common_ancestor",
    "compiler",
    "entries_of",
    "list_of",
    "load_profile",
    "machine_file",
    "numbers_of",
]
PARTS = (host, driver, processors, memory, cgroups, pci, processes, stack)


def entries_of(profile: Profile) -> dict[str, Entry]:
    """Every file and link of the tree by its path below the tree; contents without the closing newline."""
    whole = completed(profile)
    entries: dict[str, Entry] = {MARKER: f"format {FORMAT}, profile {profile['name']}"}
    for part in PARTS:
        for path, entry in part(whole):
            if entries.setdefault(path, entry) != entry:
                raise ProfileError(f"{profile['name']}: two different things at {path}; check the PCI paths.")
    entries["machine.nvml"] = machine_file(whole)
    return entries


def build_tree(profile: Profile, dest: Path) -> int:
    """Bring C(dest) to what the profile says; the number of things that had to be changed."""
    refuse_foreign_folder(dest)
    return sync(dest, entries_of(profile), LIBRARY)


def build_machine(profile: Path, dest: Path, library: str, donor: Path | None = None) -> str:
    """One machine with its NVML, which may be copied from another tree; says what was done."""
    changed = build_tree(load_profile(profile), dest)
    if donor is not None and library != "no" and (donor / LIBRARY).is_file():
        copy_library(donor, dest)
    cc = compiler()
    if library == "yes" and cc is None:
        raise ProfileError("No C compiler found (cc, gcc or what CC names); install one or use --library no.")
    compiled = build_library(dest, cc) if library != "no" and cc is not None else False
    state = "compiled" if compiled else "kept" if (dest / LIBRARY).is_file() else "absent"
    return f"{dest}: {profile.stem}, {changed} changes, NVML stand-in {state}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Build a machine (sys/, proc/, NVML) out of a profile.")
    parser.add_argument("profile", type=Path, help="a file of rehearsal/machines, or that folder")
    parser.add_argument("dest", type=Path, help="the folder to build or to bring up to date")
    parser.add_argument(
        "--library",
        choices=("auto", "yes", "no"),
        default="auto",
        help="compile the NVML stand-in: auto = where a C compiler is found",
    )
    arguments = parser.parse_args()
    every = sorted(arguments.profile.glob("*.yml")) if arguments.profile.is_dir() else [arguments.profile]
    try:
        donor: Path | None = None
        for profile in every:
            dest = arguments.dest / profile.stem if arguments.profile.is_dir() else arguments.dest
            # The same library serves all of them, as each finds the machine file beside itself.
            sys.stdout.write(f"{build_machine(profile, dest, arguments.library, donor)}\n")
            donor = donor or dest
    except (ProfileError, OSError) as error:
        sys.stderr.write(f"machine_tree.py: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
