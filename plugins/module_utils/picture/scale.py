# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where bars lie in the picture, and how bytes become pixels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB, GIB, format_gb, format_gib
from ansible_collections.gpufleet.sglang.plugins.module_utils.picture.bars import Bar

WIDTH = 1040
MARGIN = 24
PLACE_X = 112
BAR_X = 200
BAR_WIDTH = 680
BAR_HEIGHT = 20
BAR_STEP = 26
SMALL = 11
LINE_CHARACTERS = 150
LINE_STEP = 17


@dataclass(frozen=True)
class Scale:
    """How bytes become pixels, and in which unit the axis counts."""

    largest_bytes: int
    unit_bytes: int
    unit: str
    told: Callable[[float, int], str]

    def pixels(self, size_bytes: float) -> float:
        return size_bytes * BAR_WIDTH / self.largest_bytes


def scale_of(bars: Sequence[Bar], *, of_gpus: bool) -> Scale:
    """That of the longest bar: GiB for GPUs, as nvidia-smi counts, and GB for the host."""
    largest = max((max(strip.size_bytes, strip.limit_bytes or 0) for strip in bars), default=0)
    if of_gpus:
        return Scale(max(1, largest), GIB, "GiB", format_gib)
    return Scale(max(1, largest), GB, "GB", format_gb)
