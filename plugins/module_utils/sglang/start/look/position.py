# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How far all logs of a start were read, as one opaque string that the caller passes back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class FilePosition:
    """C(check) is a digest of what stands before C(offset), which tells a file from another of the same inode.

    C(mine): the lines from here on are of this start. C(skipping): in the middle of a line that is too long.
    """

    inode: int
    offset: int
    check: str = ""
    mine: bool = False
    skipping: bool = False


@dataclass(frozen=True)
class Position:
    """C(start): identity of the start that the positions belong to. C(journal) covers the kernel's log as well.

    C(path): the file that was found to be the log, which cannot be found any more once the server has died.
    """

    start: str | None = None
    journal: str | None = None
    kernel: str | None = None
    file: FilePosition | None = None
    path: str | None = None

    def encode(self) -> str | None:
        """None while nothing was read."""
        if not (self.journal or self.kernel or self.file):
            return None
        known = {name: value for name, value in asdict(self).items() if value is not None}
        return json.dumps(known, separators=(",", ":"), sort_keys=True)


def _file(data: Any) -> FilePosition | None:
    if not isinstance(data, Mapping):
        return None
    try:
        return FilePosition(
            inode=int(data["inode"]),
            offset=max(0, int(data["offset"])),
            check=str(data.get("check") or ""),
            mine=bool(data.get("mine")),
            skipping=bool(data.get("skipping")),
        )
    except (KeyError, TypeError, ValueError):
        return None


def decode(text: str | None, start: str | None) -> Position:
    """The position of an earlier look at the same start; the beginning for anything else."""
    try:
        data = json.loads(text) if text else {}
    except ValueError:
        data = {}
    if not isinstance(data, Mapping) or (data.get("start") or None) != start:
        data = {}
    journal, kernel, path = data.get("journal"), data.get("kernel"), data.get("path")
    return Position(
        start=start,
        journal=journal if isinstance(journal, str) and journal else None,
        kernel=kernel if isinstance(kernel, str) and kernel else None,
        file=_file(data.get("file")),
        path=path if isinstance(path, str) and path else None,
    )
