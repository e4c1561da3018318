# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which Python interpreters of a node may have nvidia-ml-py."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

# The environments that this collection installs, then the system's own Python.
PYTHON_CANDIDATES = ["/opt/gpufleet/probe/bin/python", "/opt/sglang/*/bin/python", "/usr/bin/python3"]


def interpreters(patterns: Sequence[str]) -> list[str]:
    """What the patterns find, those of one pattern with the newest version first."""

    def numbers(path: str) -> list[tuple[int, str]]:
        return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", path)]

    def found(pattern: str) -> list[str]:
        anchor = Path(pattern).anchor
        try:
            return [str(path) for path in Path(anchor).glob(pattern[len(anchor) :])]
        # What is no pattern at all finds nothing.
        except (ValueError, NotImplementedError, OSError):
            return []

    newest_first = (path for pattern in patterns for path in sorted(found(pattern), key=numbers, reverse=True))
    return list(dict.fromkeys(newest_first))
