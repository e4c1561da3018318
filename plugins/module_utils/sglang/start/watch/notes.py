# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the result of a wait has to tell of the watch itself, beside how the start went. Pure."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB, format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import one_line
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.problem_codes import CODES
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.pinning import pinned_bytes
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import StartupState
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.wide import (
    counts_by_rank,
    meter_in_use,
)

# The ranks may claim more than their control group holds by the time between two readings.
SLACK_SHARE = 0.05
# Of a line of another start.
SAID_CHARACTERS = 300


def notes(state: StartupState) -> tuple[Problem, ...]:
    """What was not as it should be, so that whoever reads the result knows what to trust."""
    found: list[tuple[str, str]] = []
    if state.log_unreadable:
        found.append(
            ("log_unreadable", f"The log could not be read ({state.log.source}); bytes and readiness were watched.")
        )
    if state.earlier:
        times = "once" if state.n_restarts == 1 else f"{state.n_restarts} times"
        said = one_line(state.earlier[0].text, SAID_CHARACTERS)
        message = (
            f"systemd had restarted the unit {times} by itself before it was looked at; the start before said: {said}"
        )
        found.append(("restarted_before", message))
    if state.log_lost:
        found.append(("log_suppressed", f"{state.log_lost} messages of the log were dropped by its rate limit."))
    if state.log_gap:
        found.append(
            ("log_gap", "Lines of the log were gone before they could be read (rotated, vacuumed, truncated).")
        )
    if state.clock_jumps:
        times = "once" if state.clock_jumps == 1 else f"{state.clock_jumps} times"
        found.append(("clock_jumped", f"The clock of the node was set {times} during the start."))
    wanted, seen = state.expected.ranks, len(state.ranks)
    if wanted and seen and wanted != seen and state.stage not in ("boot", "load"):
        found.append(("ranks_differ", f"{seen} ranks were seen where the plan has {wanted}."))
    meter, why = meter_in_use(state)
    if meter != state.expected.meter:
        found.append(
            ("meter_changed", f"Pinned bytes were metered by {meter} instead of {state.expected.meter}. {why}")
        )
    found += _cross_check(state)
    if state.probe_doubted:
        found.append(("probe_doubted", "The port answers, but nothing shows that it is this start that answers."))
    return tuple(CODES[code].of(code, message) for code, message in found)


def _cross_check(state: StartupState) -> list[tuple[str, str]]:
    """The ranks' own counters against the control group, which counts every page once."""
    if state.expected.meter not in ("shmem", "anon") or not counts_by_rank(state):
        return []
    held = state.cgroup.shmem_bytes if state.expected.meter == "shmem" else state.cgroup.anon_bytes
    pinned = pinned_bytes(state)
    if held is None or pinned is None or any(rank.counter for rank in state.ranks):
        return []
    if pinned <= held * (1 + SLACK_SHARE) + GB:
        return []
    return [
        (
            "meter_disagrees",
            f"The ranks show {format_gb(pinned)} of pinned memory, and their control group holds {format_gb(held)}.",
        )
    ]
