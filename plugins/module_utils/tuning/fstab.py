# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Edits of /etc/fstab, line by line; everything that is not concerned stays as it is, to the byte. Pure.

Source: fstab(5); systemd-remount-fs.service(8), which gives the kernel's file systems, /dev/shm among them, the options
that are written here.
"""

from __future__ import annotations

import re

MARK = "#gpufleet-node-tuning# "
_FIELDS = re.compile(r"(\s*)(\S+)(\s+)(\S+)(\s+)(\S+)(\s+)(\S+)(.*)$", re.DOTALL)


def without_swap(text: str) -> str:
    """Lines of swap become comments that can be told from others."""
    return "".join(
        f"{MARK}{line}" if _is_swap(line) and not line.startswith(MARK) else line
        for line in text.splitlines(keepends=True)
    )


def swap_lines(text: str) -> list[str]:
    """What fstab makes swap of."""
    return [line.split()[0] for line in text.splitlines() if _is_swap(line)]


def with_shm_size(text: str, size_bytes: int) -> str:
    """The size of /dev/shm: in its line where it has one, else in a line of its own."""
    size = f"size={size_bytes // 1024}k"
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        fields = _fields(line)
        if fields is None or fields[1].rstrip("/") != "/dev/shm":
            continue
        match = _FIELDS.match(line)
        if match is None:
            continue
        parts = list(match.groups())
        options = [option for option in parts[7].split(",") if not option.startswith(("size=", "nr_blocks="))]
        parts[7] = ",".join([*options, size])
        lines[number] = "".join(parts)
        return "".join(lines)
    end = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{end}tmpfs /dev/shm tmpfs nosuid,nodev,{size} 0 0\n"


def _fields(line: str) -> list[str] | None:
    stripped = line.strip()
    if not stripped or stripped.startswith("#"):
        return None
    fields = stripped.split()
    return fields if len(fields) >= 4 else None


def _is_swap(line: str) -> bool:
    stripped = line.strip()
    fields = stripped.split() if not stripped.startswith("#") else []
    return len(fields) >= 3 and fields[2] == "swap"
