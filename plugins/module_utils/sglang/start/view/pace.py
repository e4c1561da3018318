# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How often a node is looked at. Pure.

A look costs the controller some 0.06 s of CPU time (a call of a module over ssh that is up already), whether it waits
for 1 s or for 30 s on the node. It returns at once on news (a line that means something, a change of the unit, a rank
that is gone), so the pause only bounds how old the bytes are that are shown.
"""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.stall import (
    quiet_limit_seconds,
    quiet_seconds,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import StartupState
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.verdict import time_limit_seconds

# What one look may wait on the node (startup_status_info).
LONGEST_SECONDS = 30.0
# Bytes move while the pools are pinned; everywhere else what happens is news.
MOVING_SECONDS = 2.0
QUIET_SECONDS = 10.0
# While the line that says that it is ready may come any moment, or may have been lost.
ENDING_SECONDS = 5.0
# A server that dies is given some seconds to say why.
DYING_SECONDS = 1.0
# Looks of all workers together: with so many seconds for each node that is watched at the same time, 50 nodes cost
# less than a fifth of a core.
SECONDS_A_NODE = 0.4
# After news the next look waits for so much of that, so that a server that prints a lot is not looked at all the time.
LEAST_SECONDS = 0.5
LEAST_SECONDS_A_NODE = 0.05

_BY_STAGE = {"host_pool": MOVING_SECONDS, "warm_up": ENDING_SECONDS}


def look_seconds(stage: str, watched: int, blind: bool = False) -> float:
    """How long one look may wait on the node.

    C(watched): nodes that are watched at the same time. C(blind): the log tells nothing, so that only bytes and the
    health endpoint do.
    """
    wanted = MOVING_SECONDS if blind else _BY_STAGE.get(stage, QUIET_SECONDS)
    return min(max(wanted, watched * SECONDS_A_NODE), LONGEST_SECONDS)


def wait_seconds(state: StartupState, watched: int, blind: bool, asked_seconds: float | None) -> float:
    """How long the next look may wait on the node; C(asked_seconds) is what was asked for in place of the rule."""
    if state.unit is None:
        return 0.0  # the first look is for what is already there
    if state.dying_since is not None:
        return DYING_SECONDS
    wait = look_seconds(state.stage, watched, blind) if asked_seconds is None else asked_seconds
    left = time_limit_seconds(state) - state.elapsed_seconds
    quiet_left = quiet_limit_seconds(state) - quiet_seconds(state)
    return max(LEAST_SECONDS, min(wait, left, quiet_left))


def least_seconds(watched: int) -> float:
    """How far apart two looks are at least, however much news there is."""
    return max(LEAST_SECONDS, watched * LEAST_SECONDS_A_NODE)
