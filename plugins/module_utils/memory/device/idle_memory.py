# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPU memory that stays idle, and the fraction that hands it to the KV cache."""

from __future__ import annotations

import math

# Fractions are chosen in thousandths, as SGLang rounds its own default.
STEPS = 1000


def steps_leaving(fraction: float, idle_bytes: int, leave_bytes: int, least_whole: int, most_whole: int) -> int:
    """The largest fraction, in thousandths, that leaves so much idle where C(fraction) leaves C(idle_bytes).

    A fraction is a share of the memory before the weights were loaded. Where that is known by bounds only, a higher
    fraction is taken of the most that it can be and a lower one of the least, so that no more is taken than is there.
    """
    free = idle_bytes - leave_bytes
    whole = most_whole if free >= 0 else least_whole
    # Down, never up into what has to stay; but a step that is met to the byte counts.
    return min(STEPS - 1, math.floor((fraction + free / whole) * STEPS + 1e-9))


def idle_under(idle_bytes: int, measured_under: float | None, fraction: float, before_bytes: int) -> int:
    """What is idle under C(fraction), of what was idle under another one."""
    if measured_under is None or measured_under == fraction:
        return idle_bytes
    return idle_bytes - math.floor(before_bytes * (fraction - measured_under))
