# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is mounted where, as /proc/self/mountinfo has it (proc_pid_mountinfo(5)), and addresses as people write them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Mount:
    path: str
    type: str


def parse_mounts(text: str) -> list[Mount]:
    """In the order in which they were mounted; what comes later covers what came before at the same path."""
    found = []
    for line in text.splitlines():
        before, _dash, after = line.partition(" - ")
        fields, kinds = before.split(" "), after.split(" ")
        if len(fields) > 4 and kinds[0]:
            found.append(Mount(_unescaped(fields[4]), kinds[0]))
    return found


def mount_of(mounts: Sequence[Mount], path: str) -> Mount:
    """The one that a path without links lies on."""
    above = [one for one in mounts if one.path == "/" or path == one.path or path.startswith(f"{one.path}/")]
    longest = max((len(one.path) for one in above), default=0)
    return next((one for one in reversed(above) if len(one.path) == longest), Mount("/", "unknown"))


def split_address(address: str) -> tuple[str, int]:
    """C([::1]:50051) -> ("::1", 50051). Raises ValueError."""
    host, _colon, port = address.rpartition(":")
    if not host or not port.isdigit() or not 1 <= int(port) <= 65535:
        raise ValueError("it is no host and port, such as 10.0.0.5:50051")
    return host.strip("[]"), int(port)


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
