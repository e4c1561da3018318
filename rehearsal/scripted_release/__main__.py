# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Makes the wheelhouse of the stand-in release: see README.md.

    rehearsal/scripted_release/make-release [RELEASE]

Prints the folder. Run again, it changes nothing.
"""

from __future__ import annotations

import argparse
import fcntl
import sys
from collections.abc import Mapping
from pathlib import Path

from ansible_collections.gpufleet.sglang.rehearsal.scripted_release.contents import NEWEST, wheelhouse
from ansible_collections.gpufleet.sglang.rehearsal.sglang_on_cpu.make_model import put


def fill(folder: Path, files: Mapping[str, bytes]) -> int:
    """The folder itself stays, as nodes have it mounted. How many files were written or removed."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    changed = sum(put(folder / name, content) for name, content in files.items())
    for stray in [path for path in folder.iterdir() if path.name not in files]:
        stray.unlink()
        changed += 1
    return changed


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make-release", usage="%(prog)s [RELEASE]", description="Make the wheelhouse of the stand-in release."
    )
    parser.add_argument("folder", type=Path, help="the folder to make, below which each release has one of its own")
    parser.add_argument("release", nargs="?", default=NEWEST, help="default %(default)s")
    given = parser.parse_args()
    folder: Path = given.folder.absolute() / given.release
    try:
        files = wheelhouse(given.release)
    except ValueError as error:
        parser.error(str(error))
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Tests and scenarios that run side by side ask for it at once.
    with (folder.parent / ".lock").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        changed = fill(folder, files)
    sys.stderr.write(f"make-release: SGLang {given.release}, {changed} files changed\n")
    sys.stdout.write(f"{folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
