# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernel's list format."""

from __future__ import annotations

from collections.abc import Iterable


def numbers_of(text: object) -> list[int]:
    """The kernel's list format to numbers: C(0-2,5) -> C([0, 1, 2, 5])."""
    found: list[int] = []
    for part in filter(None, str(text).strip().split(",")):
        first, _dash, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    return found


def list_of(numbers: Iterable[int]) -> str:
    """Numbers to the kernel's list format: C([0, 1, 2, 5]) -> C(0-2,5)."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
