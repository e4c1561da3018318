# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Signs of life, and for how long a start may show none. Pure.

Bytes and lines are progress. CPU time is no more than a sign of life: a collective that hangs burns it for ever, so it
is believed up to a bound of its own. Idle processes use some too, which does not count.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import MIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import Observation
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.pinning import all_pinned, pinned_bytes
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.readings import raw_bytes
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import (
    StartupState,
    log_is_trusted,
)

# Growth below this is noise of a process that does nothing; what is available on a machine moves by more.
PROGRESS_BYTES = MIB
WIDE_PROGRESS_BYTES = 64 * MIB
# CPU time counts from this share of one core on, and from so much at all: the kernel counts in steps of 10 ms.
CPU_SHARE = 0.05
CPU_SECONDS = 0.03


@dataclass(frozen=True)
class Bounds:
    """C(silent_seconds): no byte and no line, if CPU time is not known. C(busy_seconds): CPU time and nothing else."""

    silent_seconds: float
    busy_seconds: float


# By stage, in seconds. SGLang bounds some of them itself: modules are imported and collectives come up (boot), weights
# are converted and quantised after they were read (load), graphs are compiled and captured with kernels that are built
# meanwhile, memory that is there is registered by the kernel, the warm-up has 120 s + 600 s, with disaggregation 1800 s
# (entrypoints/http_server.py, SGLANG_WARMUP_TIMEOUT). In all of them but the first silence is their nature.
BOUNDS = {
    "boot": Bounds(0.0, 900.0),
    "load": Bounds(0.0, 1200.0),
    "device_pool": Bounds(0.0, 600.0),
    "capture": Bounds(900.0, 2700.0),
    "host_pool": Bounds(0.0, 900.0),
    "registering": Bounds(600.0, 1800.0),
    "warm_up": Bounds(720.0, 1980.0),
    "ready": Bounds(0.0, 600.0),
}
# Without lines and without CPU time there are only bytes to go by, and most stages move none.
BLIND_SECONDS = 900.0
# From this much of silence on it is worth asking the server itself.
QUIET_SECONDS = 10.0


def with_signs(state: StartupState, seen: Observation) -> StartupState:
    """Notes what moved since the last look."""
    marks = dict(state.marks)
    pinned = pinned_bytes(state)
    step = PROGRESS_BYTES if state.expected.meter != "available" else WIDE_PROGRESS_BYTES
    moved = False
    for name, value, least in (
        ("pinned", pinned, step),
        ("counters", _counters(state), PROGRESS_BYTES),
        ("resident", seen.activity.resident_bytes, PROGRESS_BYTES),
        ("read", seen.activity.read_bytes, PROGRESS_BYTES),
    ):
        if value is None:
            continue
        known = marks.get(name)
        if known is None or abs(value - known) > least:
            # What is there at the first look came before it, which tells nothing of now but that it lives.
            moved = moved or known is not None or value > least
            marks[name] = float(value)
    state = replace(state, cpu_known=seen.activity.cpu_seconds is not None)
    busy, marks = _busy(state, seen, marks)
    if moved or seen.lines > 0 or seen.events:
        state = replace(state, last_progress_at=state.now)
    if busy:
        state = replace(state, last_busy_at=state.now)
    return replace(state, marks=tuple(sorted(marks.items())))


def _counters(state: StartupState) -> int | None:
    """What the counters of all ranks show: bytes that come before their line does, or without one."""
    known = [raw for raw in (raw_bytes(state, rank) for rank in state.ranks) if raw is not None]
    return sum(known) if known else None


def _busy(state: StartupState, seen: Observation, marks: dict[str, float]) -> tuple[bool, dict[str, float]]:
    """Whether the processes worked since the mark, and the marks moved on to now."""
    used = seen.activity.cpu_seconds
    if used is None:
        return False, marks
    before, since = marks.get("cpu"), marks.get("cpu_at", state.now)
    passed = state.now - since
    moved = {**marks, "cpu": used, "cpu_at": state.now}
    if before is None:
        return False, moved
    # A process that ended takes its time with it, and has just done something.
    if used < before - CPU_SECONDS:
        return True, moved
    if used - before >= max(CPU_SECONDS, CPU_SHARE * passed):
        return True, moved
    # A look that comes soon after another sees little of it: the mark stays until enough time has passed.
    return False, moved if passed >= CPU_SECONDS / CPU_SHARE else marks


def _bounds(state: StartupState) -> Bounds:
    stage = "registering" if state.stage == "host_pool" and all_pinned(state) else state.stage
    return BOUNDS[stage]


def quiet_limit_seconds(state: StartupState) -> float:
    """How long there may be no sign of life at all in the present stage."""
    if state.cpu_known:
        return state.expected.stall_seconds
    blind = 0.0 if log_is_trusted(state) else BLIND_SECONDS
    return max(state.expected.stall_seconds, _bounds(state).silent_seconds, blind)


def busy_limit_seconds(state: StartupState) -> float:
    """How long CPU time may be the only sign of life in the present stage."""
    return max(quiet_limit_seconds(state), _bounds(state).busy_seconds)


def quiet_seconds(state: StartupState) -> float:
    """How long there has been no sign of life at all."""
    return max(0.0, state.now - max(state.last_progress_at, state.last_busy_at))


def stalled_by(state: StartupState) -> str | None:
    """I(quiet): nothing at all for too long; I(busy): nothing but CPU time for too long; None while it may go on."""
    if quiet_seconds(state) >= quiet_limit_seconds(state):
        return "quiet"
    if state.now - state.last_progress_at >= busy_limit_seconds(state):
        return "busy"
    return None
