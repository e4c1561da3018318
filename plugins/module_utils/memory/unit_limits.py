# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What systemd has to grant a server: time to start and to stop, memory to lock.

Locked memory. C(cudaHostRegister) asks for no C(RLIMIT_MEMLOCK): the driver takes the pages itself and counts them
nowhere (C(os_lock_user_pages) in kernel-open/nvidia/os-mlock.c of NVIDIA/open-gpu-kernel-modules). What the limit does
bound is C(mlock), and memory that is registered for RDMA (C(ib_umem_get) in the kernel's
drivers/infiniband/core/umem.c): the buffers of NCCL over InfiniBand, and the host pool once more where a storage
backend reads and writes it by RDMA. A limit made of the pools would bound nothing that they take and break what comes
beside them, so the unit says infinity; where a platform clamps that, C(memlock_bytes) is what has to remain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.timing import Timing
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB, format_gb, format_seconds
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.unpinning import (
    UNPIN_BYTES_PER_SECOND,
    UNPIN_MARGIN_FACTOR,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.stop_versions import StopFacts

MEMLOCK = "infinity"
# NCCL's registered buffers of one process.
MEMLOCK_MARGIN_BYTES = 1 * GIB

# Fragmented memory was seen to stretch a start to 17 to 44 minutes. A start that stands still is found by its bytes and
# lines long before this.
START_MARGIN_FACTOR = 4
START_MARGIN_SECONDS = 600
# A limit in force stays while it is at least half as far above what is expected as a new one would be.
START_KEPT_FACTOR = 2

# A drain has no limit of its own: 230 s were seen.
DRAIN_SECONDS = 300
# A limit in force stays while it still has half of the margin for unpinning.
UNPIN_KEPT_FACTOR = 1.5


@dataclass(frozen=True)
class UnitLimits:
    timeout_start_seconds: int
    timeout_stop_seconds: int
    memlock_bytes: int
    explanation: tuple[str, ...]


def unit_limits(
    timing: Timing,
    stop: StopFacts,
    pinned_bytes_total: int,
    pinned_bytes_per_rank: int,
    start_in_force: int | None = None,
    stop_in_force: int | None = None,
) -> UnitLimits:
    """Limits so far above what is expected that only what hangs meets one.

    C(start_in_force), C(stop_in_force): a start that was measured a little faster or slower, or pools a little larger,
    are no reason to write the unit anew.
    """
    start, start_line = _start(timing.start_seconds, start_in_force)
    timeout_stop, stop_line = _stop(stop, pinned_bytes_total, stop_in_force)
    memlock = pinned_bytes_per_rank + MEMLOCK_MARGIN_BYTES
    return UnitLimits(
        timeout_start_seconds=start,
        timeout_stop_seconds=timeout_stop,
        memlock_bytes=memlock,
        explanation=(
            start_line,
            stop_line,
            f"memory to lock = {MEMLOCK}: the driver pins without that limit, RDMA and mlock are bound by it; a rank "
            f"that locks its whole pool takes {format_gb(pinned_bytes_per_rank)}, {format_gb(memlock)} with a margin",
        ),
    )


def _start(expected: float, in_force: int | None) -> tuple[int, str]:
    wanted = math.ceil(START_MARGIN_SECONDS + START_MARGIN_FACTOR * expected)
    least = START_MARGIN_SECONDS + START_KEPT_FACTOR * expected
    formula = f"{START_MARGIN_SECONDS} s + {START_MARGIN_FACTOR} x {format_seconds(expected)} expected"
    if in_force is not None and least <= in_force <= 2 * wanted:
        return in_force, f"time to start = {in_force} s as in force; {formula} = {wanted} s is not far from it"
    return wanted, f"time to start = {formula} = {wanted} s"


def _stop(stop: StopFacts, pinned_bytes_total: int, in_force: int | None) -> tuple[int, str]:
    unpin = pinned_bytes_total / UNPIN_BYTES_PER_SECOND
    drained = DRAIN_SECONDS + stop.poll_seconds + stop.exit_seconds
    wanted = math.ceil(drained + UNPIN_MARGIN_FACTOR * unpin)
    line = (
        f"time to stop = {DRAIN_SECONDS} s for requests to end (230 s were seen) + {stop.poll_seconds} s until the "
        f"server looks + {stop.exit_seconds} s that this release waits for its ranks + {UNPIN_MARGIN_FACTOR} x "
        f"{format_seconds(unpin)} to unpin {format_gb(pinned_bytes_total)} at {format_gb(UNPIN_BYTES_PER_SECOND)}/s = "
        f"{wanted} s"
    )
    if in_force is None or in_force == wanted or not drained + UNPIN_KEPT_FACTOR * unpin <= in_force <= 2 * wanted:
        return wanted, line
    return in_force, f"{line}; {in_force} s are in force, not far from it, and stay"
