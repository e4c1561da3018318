# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The clock of the node against that of the waiter: a jump is noticed, and changes neither a rate nor a limit. Pure."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import Observation
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import StartupState

# Two readings of the two clocks of a node differ by less than this, unless one was set.
SET_SECONDS = 1.0
# Without the monotonic clock of the node: an answer may be late by as much before a jump is suspected.
LATE_SECONDS = 10.0


def with_clock(state: StartupState, seen: Observation) -> StartupState:
    """Where the clock of the node stands now; stages that a jump fell into are marked, as their length is not known.

    The node's own monotonic clock shows a jump at once. Without it a clock that was set back looks like an answer that
    came late, so it counts once the next answer is as late, or once the time of the readings goes back.
    """
    state = replace(state, jumped_now=False)
    if seen.read_at is None:
        return state
    offset = seen.at - seen.read_at
    gap = None if seen.monotonic is None else seen.read_at - seen.monotonic
    known = state.clock_offset
    if known is None:
        return replace(state, clock_offset=offset, clock_gap=gap)
    if gap is not None and state.clock_gap is not None:
        moved = gap - state.clock_gap
        if abs(moved) < SET_SECONDS:
            return replace(state, clock_gap=gap)
        return _jumped(replace(state, clock_gap=gap), known - moved)
    state = replace(state, clock_gap=gap if state.clock_gap is None else state.clock_gap)
    if offset < known - LATE_SECONDS:
        return _jumped(state, offset)
    if offset <= known + LATE_SECONDS:
        return replace(state, clock_doubted=False)
    back = state.read_at is not None and seen.read_at < state.read_at
    return _jumped(state, offset) if back or state.clock_doubted else replace(state, clock_doubted=True)


def _jumped(state: StartupState, offset: float) -> StartupState:
    spans = tuple(replace(span, jumped=True) if span.ended is None else span for span in state.spans)
    return replace(
        state, clock_offset=offset, clock_doubted=False, clock_jumps=state.clock_jumps + 1, jumped_now=True, spans=spans
    )
