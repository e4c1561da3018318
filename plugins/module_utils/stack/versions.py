# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Comparing versions of kernels and drivers, and finding the driver's release in what packages are called."""

from __future__ import annotations

import re

_PIECE = re.compile(r"~|\d+|[a-zA-Z]+")
# 535.54, 570.86.15, 595.58.03: the driver's releases; a distribution's revision follows after a hyphen.
_DRIVER_RELEASE = re.compile(r"(?:^|[:\s])(\d{3}\.\d{1,3}(?:\.\d{1,3})?)(?=$|[-+~_\s])")


def version_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """A key to sort by: numbers count as numbers, a number is newer than letters, C(~) comes before everything."""
    key: list[tuple[int, int, str]] = []
    for piece in _PIECE.findall(text):
        if piece == "~":
            key.append((-1, 0, ""))
        elif piece[0].isdigit():
            # No version has numbers this long; Python refuses to convert some of them.
            key.append((2, int(piece[:18]), ""))
        else:
            key.append((1, 0, piece))
    # The end, which is newer than a tilde and older than all else.
    key.append((0, 0, ""))
    return tuple(key)


def driver_release(version: str | None) -> str | None:
    """C(570.86.15-0ubuntu1), C(3:570.86.15) -> C(570.86.15); None for what is no release of the driver."""
    match = _DRIVER_RELEASE.search(version or "")
    return match.group(1) if match else None
