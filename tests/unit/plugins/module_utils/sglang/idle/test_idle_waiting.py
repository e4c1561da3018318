# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import MIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.holders import GpuMemory, Process
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.judge import holds_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.needs import Bounds, Needs
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.waiting import (
    BELOW_PLAN,
    FAILED,
    IDLE,
    SETTLED_SECONDS,
    STALLED,
    TIMEOUT,
    UNIT_ACTIVE,
    Limits,
    Observation,
    Sample,
    WaitState,
    advance,
    eta_seconds,
    given_back,
    initial,
    left,
    observation_from_result,
    quiet_limit_seconds,
    rate_bytes_per_second,
    time_limit_seconds,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.systemd import UnitStatus
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.idle.idle_cases import (
    GB,
    RANK,
    RESTARTING,
    RUNNING,
    STOPPED,
    STOPPING,
    STRANGER,
    gpu,
    look,
)

LIMITS = Limits(timeout_seconds=200.0, stop_seconds=300.0, stall_seconds=30.0)
NEEDS = Needs(host=Bounds(50 * GB, 45 * GB))


def seen(
    now: float,
    available: int | None = 100 * GB,
    processes: Sequence[Process] = (),
    gpus: Sequence[GpuMemory] = (),
    unit: UnitStatus | None = STOPPED,
    needs: Needs = NEEDS,
) -> Observation:
    found = look(available, processes, gpus)
    return Observation(now, holds_of(found, needs), (Sample(now, available, found.gpu_used_bytes),), unit)


def after(*observations: Observation, limits: Limits = LIMITS) -> WaitState:
    state = initial(limits, 0.0)
    for one in observations:
        assert state.verdict is None, f"over before {one.now:g}"
        state = advance(state, one)
    return state


def outcome(state: WaitState) -> tuple[str | None, str | None]:
    return state.verdict, state.reason


def test_an_idle_node_passes_at_the_first_look() -> None:
    assert outcome(after(seen(0.1))) == (IDLE, None)


def test_memory_that_comes_back_ends_the_wait_at_once() -> None:
    state = after(seen(0, 10 * GB), seen(3, 30 * GB), seen(6, 50 * GB))
    assert outcome(state) == (IDLE, None)
    assert given_back(state) == (40 * GB, 0)
    assert state.elapsed_seconds == 6


def test_figures_of_a_steady_release() -> None:
    state = after(seen(0, 10 * GB), seen(2, 20 * GB), seen(4, 30 * GB))
    assert rate_bytes_per_second(state) == 5 * GB
    assert (left(state), eta_seconds(state)) == ((20 * GB, 0), 4.0)


def test_memory_of_gpus_counts_too() -> None:
    state = after(
        seen(0, gpus=[gpu(0, 40 * GB, (STRANGER, 40 * GB))]), seen(2, gpus=[gpu(0, 30 * GB, (STRANGER, 30 * GB))])
    )
    assert (given_back(state), left(state)) == ((0, 10 * GB), (0, 30 * GB))
    assert (rate_bytes_per_second(state), eta_seconds(state)) == (5 * GB, 6.0)


def test_what_stays_away_is_a_stall_after_the_limit_and_not_before() -> None:
    held = [gpu(0, 40 * GB, (STRANGER, 40 * GB))]
    state = after(seen(0, gpus=held), seen(29, gpus=held))
    assert outcome(state) == (None, None)
    assert outcome(advance(state, seen(30, gpus=held))) == (STALLED, None)


def test_each_gift_starts_the_quiet_time_anew() -> None:
    state = after(*(seen(25.0 * step, (10 + step) * GB) for step in range(7)))
    assert outcome(state) == (None, None)
    assert state.last_progress_at == 150


def test_drift_of_a_busy_host_is_no_gift() -> None:
    """40 GB are missing; what comes in MB a second comes from elsewhere."""
    drift = [seen(float(at), 10 * GB + at * 5 * MIB, [RANK]) for at in range(0, 31, 3)]
    assert outcome(after(*drift)) == (STALLED, None)


def test_small_gifts_add_up_to_a_step() -> None:
    gifts = [seen(float(at), 10 * GB + at * 100 * MIB, [RANK]) for at in range(0, 120, 3)]
    assert outcome(after(*gifts)) == (None, None)


def test_the_driver_may_be_silent_for_longer_the_more_is_missing() -> None:
    """243 GB stayed pinned for 26 s with no process left."""
    needs = Needs(host=Bounds(300 * GB, 290 * GB))
    silent = [seen(float(at), 57 * GB, needs=needs) for at in range(0, 48, 3)]
    state = after(*silent)
    assert quiet_limit_seconds(state) == pytest.approx(51.8)
    assert outcome(state) == (None, None)
    assert outcome(advance(state, seen(49, 300 * GB, needs=needs))) == (IDLE, None)


def test_a_process_that_lives_is_not_waited_for_that_long() -> None:
    needs = Needs(host=Bounds(300 * GB, 290 * GB))
    assert quiet_limit_seconds(after(seen(0, 57 * GB, [RANK], needs=needs))) == 30.0
    ending = replace(RANK, state="D")
    assert quiet_limit_seconds(after(seen(0, 57 * GB, [ending], needs=needs))) == pytest.approx(51.8)


def test_an_old_process_that_ends_is_progress() -> None:
    other = replace(RANK, pid=202)
    state = after(seen(0, processes=[RANK, other]), seen(25, processes=[RANK]), seen(50, processes=[RANK]))
    assert outcome(state) == (None, None)
    assert outcome(advance(state, seen(55, processes=[RANK]))) == (STALLED, None)


def test_a_unit_that_stops_has_its_own_time() -> None:
    state = after(*(seen(float(at), 10 * GB, [RANK], unit=STOPPING) for at in range(0, 300, 50)))
    assert outcome(state) == (None, None)
    assert time_limit_seconds(state) == 300.0
    stopped = advance(state, seen(260, 20 * GB))
    assert (outcome(stopped), time_limit_seconds(stopped)) == ((None, None), 460.0)
    assert outcome(advance(state, seen(300, 10 * GB, [RANK], unit=STOPPING))) == (FAILED, TIMEOUT)


def test_a_unit_that_still_stops_is_not_idle() -> None:
    assert outcome(after(seen(0, unit=STOPPING))) == (None, None)


def test_a_given_time_limit_holds_for_everything() -> None:
    limits = replace(LIMITS, timeout_seconds=40.0, whole=True)
    stopping = seen(0, 10 * GB, [RANK], unit=STOPPING)
    assert outcome(after(stopping, seen(40, 10 * GB, [RANK], unit=STOPPING), limits=limits)) == (FAILED, TIMEOUT)


def test_a_release_without_end_meets_the_time_limit() -> None:
    state = after(*(seen(20.0 * step, 10 * GB + step * GB) for step in range(10)))
    assert outcome(advance(state, seen(200, 30 * GB))) == (FAILED, TIMEOUT)


@pytest.mark.parametrize("unit", [RUNNING, RESTARTING], ids=["runs", "starts again by itself"])
def test_a_unit_that_runs_is_no_matter_of_waiting(unit: UnitStatus) -> None:
    assert outcome(after(seen(0, processes=[RANK], unit=unit))) == (FAILED, UNIT_ACTIVE)
    state = after(seen(0, processes=[RANK]))
    assert outcome(advance(state, seen(5, unit=unit))) == (FAILED, UNIT_ACTIVE)


def test_what_may_be_enough_does_not_keep_a_server_down() -> None:
    state = after(seen(0, 48 * GB), seen(SETTLED_SECONDS - 0.1, 48 * GB))
    assert outcome(state) == (None, None)
    assert outcome(advance(state, seen(SETTLED_SECONDS, 48 * GB))) == (IDLE, BELOW_PLAN)
    short = after(seen(0, 44 * GB), seen(SETTLED_SECONDS, 44 * GB))
    assert outcome(short) == (None, None)


def test_a_verdict_is_final() -> None:
    state = after(seen(0.1))
    assert advance(state, seen(5, 10 * GB, [RANK])) is state


def test_an_answer_of_the_node_is_read() -> None:
    found = look(10 * GB, [RANK])
    result = {
        "holds": [hold.as_dict() for hold in holds_of(found, NEEDS)],
        "samples": [{"at": 5.0, "memory_available_bytes": 10 * GB, "gpu_memory_used_bytes": None, "processes": 1}],
        "unit": STOPPING.as_dict(),
    }
    observation = observation_from_result(result, 7.0)
    assert observation == Observation(7.0, holds_of(found, NEEDS), (Sample(5.0, 10 * GB, None),), STOPPING)
    assert observation.stopping
    assert observation_from_result({**result, "unit": None}, 7.0).unit is None
