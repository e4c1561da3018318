# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of sysctl.d: which of them decides a value at boot. Pure.

Source: sysctl.d(5): all files by name, whatever their folder; /etc hides a file of the same name in /run and /usr/lib;
the last assignment counts. /etc/sysctl.conf is read by procps, and by systemd where 99-sysctl.conf links to it.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

OURS = "/etc/sysctl.d/99-gpufleet-node-tuning.conf"
FOLDERS = ("etc/sysctl.d", "run/sysctl.d", "usr/local/lib/sysctl.d", "usr/lib/sysctl.d", "lib/sysctl.d")


@dataclass(frozen=True)
class Assignment:
    """Where a value is set, as C(path):C(line)."""

    name: str
    value: str
    path: str
    line: int

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}"

    @property
    def by_person(self) -> bool:
        """Packages put theirs into /usr/lib and /lib."""
        return self.path.startswith("/etc/")


def normal_name(written: str) -> str:
    """C(net/core/somaxconn) and C(net.core.somaxconn) are one; the first separator tells which kind it is."""
    name = written.strip().lstrip("-")
    first = next((mark for mark in name if mark in "./"), ".")
    if first == "/":
        return name.replace(".", "\0").replace("/", ".").replace("\0", "/")
    return name


def proc_path(name: str) -> str:
    return "/proc/sys/" + name.replace(".", "\0").replace("/", ".").replace("\0", "/")


def assignments_in(path: str, text: str) -> list[Assignment]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        name, equals, value = stripped.partition("=")
        if equals and not stripped.startswith(("#", ";")):
            found.append(Assignment(normal_name(name), " ".join(value.split()), path, number))
    return found


def deciding(name: str, files: Sequence[tuple[str, str]]) -> Assignment | None:
    """The assignment that counts at boot, of files in the order in which they are read, our own left out."""
    found = None
    for path, text in files:
        if path == OURS:
            continue
        for one in assignments_in(path, text):
            if one.name == name or ("*" in one.name and fnmatch.fnmatchcase(name, one.name)):
                found = one
    return found


def render(values: Iterable[tuple[str, str, str]]) -> str:
    """C(values): name, value and the reason for it."""
    lines = ["# Managed by gpufleet.sglang.node_tuning. What was in force before is in /var/lib/gpufleet.\n"]
    for name, value, reason in values:
        if reason:
            lines.append(f"# {reason}\n")
        lines.append(f"{name} = {value}\n")
    return "".join(lines)
