# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How often a node is looked at. Pure.

A look costs CPU time of the controller (a call of a module over ssh that is up already) and of the node (a start of
Python), whether it waits for 1 s or for 30 s there. It ends by itself on news (a stage, a failure, readiness, a change
of the unit, a rank that is gone) and brings what the meter showed meanwhile, so its length only bounds how old the
bytes are that are shown. What happens between two looks is seen by the next one only, which speaks for long ones.
"""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.pinning import all_pinned
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.stall import (
    quiet_limit_seconds,
    quiet_seconds,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import StartupState
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.verdict import time_limit_seconds

# What one look may wait on the node (startup_status_info).
LONGEST_SECONDS = 30.0
# Bytes move while the pools are pinned, and the longer that has gone on, the less often they are told (cadence.py);
# everywhere else what happens is news.
MOVING_SECONDS = 5.0
MOVING_SHARE = 1 / 20
QUIET_SECONDS = 10.0
# The log tells nothing, so that only bytes and the health endpoint do.
BLIND_SECONDS = 2.0
# A server that dies is given some seconds to say why.
DYING_SECONDS = 1.0
# Looks of all workers together: with so many seconds for each node that is watched at the same time, 50 nodes cost
# less than a fifth of a core.
SECONDS_A_NODE = 0.4
# After news the next look waits for so much of that, so that a server that prints a lot is not looked at all the time.
LEAST_SECONDS = 0.5
LEAST_SECONDS_A_NODE = 0.05


def look_seconds(state: StartupState, watched: int, blind: bool = False) -> float:
    """How long one look may wait on the node; C(watched): nodes that are watched at the same time."""
    if blind:
        wanted = BLIND_SECONDS
    elif state.stage == "host_pool" and not all_pinned(state):
        wanted = min(max(MOVING_SECONDS, state.elapsed_seconds * MOVING_SHARE), QUIET_SECONDS)
    else:
        wanted = QUIET_SECONDS
    return min(max(wanted, watched * SECONDS_A_NODE), LONGEST_SECONDS)


def wait_seconds(state: StartupState, watched: int, blind: bool, asked_seconds: float | None) -> float:
    """How long the next look may wait on the node; C(asked_seconds) is what was asked for in place of the rule."""
    if state.unit is None:
        return 0.0  # the first look is for what is already there
    if state.dying_since is not None:
        return DYING_SECONDS
    wait = look_seconds(state, watched, blind) if asked_seconds is None else asked_seconds
    left = time_limit_seconds(state) - state.elapsed_seconds
    quiet_left = quiet_limit_seconds(state) - quiet_seconds(state)
    return max(LEAST_SECONDS, min(wait, left, quiet_left))


def least_seconds(watched: int) -> float:
    """How far apart two looks are at least, however much news there is."""
    return max(LEAST_SECONDS, watched * LEAST_SECONDS_A_NODE)
