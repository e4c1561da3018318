# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a measured figure has to differ by before a setting follows it.

A restart costs minutes and the cache, and figures differ a little from start to start. So a setting that a goal
chooses rises only for a gain above a threshold. Safety is no gain: a setting that no longer fits is left at once, by
more than what the figures are known to.
"""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB

# Share of the tokens that are in force.
DEFAULT_CHANGE_THRESHOLD = 0.02

# SGLang prints the memory of GPUs in GiB with two decimals.
LOG_STEP_BYTES = GIB // 100
# Each of two printed figures is off by half a step, and equal starts differ by as much again. Memory that is short by
# no more than this is not known to be short.
MEASUREMENT_BYTES = 2 * LOG_STEP_BYTES

# What the available memory of a host falls by while a server runs, beside what its ranks hold: of each pinned page of
# 4,096 bytes kernel and driver keep up to four entries of eight bytes (page table, the driver's list of pages, bus
# addresses, the table of an IOMMU), 0.8 % of the pools; and the processes of a server that are no ranks, and everything
# else on the host that comes and goes.
SLACK_DIVISOR = 100
LEAST_SLACK_BYTES = 2 * GIB


def slack_bytes(available_bytes: int) -> int:
    """By how much available memory may fall before host pools that were chosen for it have to be smaller."""
    return max(LEAST_SLACK_BYTES, available_bytes // SLACK_DIVISOR)
