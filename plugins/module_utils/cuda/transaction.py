# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a package manager would do, out of what it prints when it only simulates."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.cuda.packages import driver_packages

# apt-get --simulate: "Inst NAME (VERSION ...)", "Remv NAME [VERSION]"; an upgrade has the old version in brackets.
_APT = re.compile(r"^(Inst|Remv) ([a-z0-9][a-z0-9.+-]*)(?::\w+)?", re.MULTILINE)
# apt 2 and apt 3 say in words of their own how much room there has to be.
_APT_SIZE = re.compile(r"^After this operation, ([\d.,]+) ?([kMG]?B) of additional disk space", re.MULTILINE)
_APT_3_SIZE = re.compile(r"^\s*Space needed: ([\d.,]+) ?([kMG]?B)", re.MULTILINE)
# dnf --assumeno: a table whose rows begin with a blank, below a heading of what happens to them.
_DNF_HEAD = re.compile(r"^(Installing|Upgrading|Downgrading|Removing|Reinstalling)\b.*:$")
_DNF_ROW = re.compile(r"^ ([A-Za-z0-9][\w.+-]*) +\S+ +\S+ +\S+ +[\d.]+ ?[kMG]")
_DNF_SIZE = re.compile(r"^Installed size: ([\d.]+) ?([kMG]?)", re.MULTILINE)
_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}
_DNF_UNITS = {"": 1, "k": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Transaction:
    """C(needed_bytes) is None where nothing is said of it, which apt does for less than it rounds to."""

    installed: tuple[str, ...]
    removed: tuple[str, ...]
    needed_bytes: int | None

    @property
    def touches_driver(self) -> list[str]:
        return driver_packages((*self.installed, *self.removed))


def _size(found: re.Match[str] | None, units: dict[str, int]) -> int | None:
    if found is None:
        return None
    return int(float(found.group(1).replace(",", "")) * units[found.group(2)])


def apt_transaction(simulated: str, asked: str) -> Transaction:
    """C(simulated): what apt-get --simulate prints; C(asked): the same with --assume-no, which tells the size."""
    rows = _APT.findall(simulated)
    return Transaction(
        installed=_names(name for word, name in rows if word == "Inst"),
        removed=_names(name for word, name in rows if word == "Remv"),
        needed_bytes=_size(_APT_SIZE.search(asked) or _APT_3_SIZE.search(asked), _UNITS),
    )


def dnf_transaction(printed: str) -> Transaction:
    """What dnf --assumeno prints."""
    installed: list[str] = []
    removed: list[str] = []
    heading = ""
    for line in printed.splitlines():
        head = _DNF_HEAD.match(line)
        if head is not None:
            heading = head.group(1)
        elif (row := _DNF_ROW.match(line)) is not None:
            (removed if heading == "Removing" else installed).append(row.group(1))
    return Transaction(_names(installed), _names(removed), _size(_DNF_SIZE.search(printed), _DNF_UNITS))


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
