# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Many names of hosts in few words: C(gpu-001 to gpu-012, spare)."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NUMBERED = re.compile(r"^(.*?)(\d+)(\D*)$", re.ASCII)


def ranges_of(names: Iterable[str]) -> list[str]:
    """Names that differ by a running number become one entry; the order of first appearance is kept."""
    runs: list[list[str]] = []
    last: dict[tuple[str, int, str], tuple[int, list[str]]] = {}
    for name in names:
        told = _NUMBERED.match(name)
        if told is None:
            runs.append([name])
            continue
        key, number = (told.group(1), len(told.group(2)), told.group(3)), int(told.group(2))
        before = last.get(key)
        if before is not None and before[0] + 1 == number:
            run = before[1]
            run.append(name)
        else:
            run = [name]
            runs.append(run)
        last[key] = (number, run)
    return [text for run in runs for text in _told(run)]


def _told(run: list[str]) -> list[str]:
    return [f"{run[0]} to {run[-1]}"] if len(run) > 2 else run


def in_short(names: Iterable[str], entries: int = 4) -> str:
    """At most so many entries; how many more there are is said."""
    told = ranges_of(names)
    return ", ".join(told) if len(told) <= entries else f"{', '.join(told[:entries])} and {len(told) - entries} more"
