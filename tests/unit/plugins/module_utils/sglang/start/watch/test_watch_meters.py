# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import RankReading
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import LogEvent
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.expectation import (
    expectation_from_plan,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.notes import notes
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import (
    CgroupReading,
    HostReading,
    LogHealth,
    Sample,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.pinning import (
    all_pinned,
    has_left_pools,
    is_filled,
    pinned_bytes,
    planned_bytes,
    target_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.progress import (
    eta_seconds,
    rank_eta_seconds,
    rank_rate,
    rate_bytes_per_second,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.spans import (
    span_of,
    stage_seconds,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import StartupState
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.wide import meter_in_use
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import (
    MIB,
    POOL,
    WARM_UP,
    after,
    both,
    events,
    pinning,
    reading,
    seen,
    start,
)

GB = 1_000_000_000


def pool(size: int, at: float, label: str = "kv", rank: str = "TP0", after_allocating: bool = False) -> LogEvent:
    return LogEvent(
        "stage_begin",
        "",
        "host_pool",
        rank,
        bytes=size,
        label=label,
        timestamp=at,
        after_allocating=after_allocating,
    )


def said(kind: str, stage: str, at: float, rank: str = "TP0") -> LogEvent:
    return LogEvent(kind, "", stage, rank, timestamp=at)


def held(size: int, **others: Any) -> tuple[RankReading, ...]:
    return (reading("TP0", size, **others),)


def one(state: StartupState) -> Any:
    found = state.rank("TP0")
    assert found is not None
    return found


def test_pools_fill_one_after_the_other() -> None:
    state = after(
        start(ranks=1, bytes_by_stage=()),
        seen(1.0, ranks=held(MIB), read_at=101.0),
        seen(2.0, events=[pool(4 * GB, 102.0), pool(2 * GB, 102.1, "mamba")], ranks=held(MIB), read_at=102.0),
        seen(9.0, ranks=held(MIB + 5 * GB), read_at=109.0),
    )
    assert [(row.label, row.bytes) for row in one(state).pools] == [("kv", 4 * GB), ("mamba", 2 * GB)]
    assert (planned_bytes(state), pinned_bytes(state)) == (6 * GB, 5 * GB)
    assert one(state).pools[0].filled_at == 9.0
    assert one(state).pools[1].filled_at is None


def test_pool_whose_line_comes_after_allocating_counts_once() -> None:
    state = after(
        start(ranks=1, bytes_by_stage=()),
        seen(1.0, events=[said("stage_end", "capture", 101.0)], ranks=held(8 * MIB), read_at=101.0),
        seen(3.0, ranks=held(8 * MIB + 3 * GB), read_at=103.0),
        seen(4.0, events=[pool(4 * GB, 103.9, "v4_paged", after_allocating=True)], ranks=held(8 * MIB + 4 * GB)),
        seen(5.0, ranks=held(8 * MIB + 5 * GB), read_at=105.0),
        seen(
            6.0,
            events=[pool(2 * GB, 105.9, "v4_state", after_allocating=True)],
            ranks=held(8 * MIB + 6 * GB),
            read_at=106.0,
        ),
    )
    assert (pinned_bytes(state), planned_bytes(state)) == (6 * GB, 6 * GB)
    assert [row.bytes for row in one(state).pools] == [4 * GB, 2 * GB]
    # It is dated by the bytes: they began to come some time after the first look.
    span = span_of(state, "host_pool", "TP0")
    assert span is not None and span.began is not None
    assert 101.0 <= span.began < 103.0


def test_late_watcher_of_a_pool_that_was_told_of_afterwards_counts_all_of_it() -> None:
    late = seen(
        1.0, events=[pool(4 * GB, 90.0, after_allocating=True)], ranks=held(4 * GB), read_at=101.0, started_at=60.0
    )
    assert pinned_bytes(after(start(ranks=1, bytes_by_stage=()), late)) == 4 * GB


def test_rank_is_done_when_its_bytes_are_there_and_it_went_on() -> None:
    state = after(pinning(), seen(4.0, ranks=both(MIB + POOL, MIB)))
    first, second = state.ranks
    assert (is_filled(state, first), has_left_pools(first)) == (True, False)
    ended = [said("stage_end", "host_pool", 5.0, rank) for rank in ("TP0", "TP1")]
    state = after(state, seen(5.0, events=ended, ranks=both(MIB + POOL, MIB)))
    first, second = state.ranks
    assert (is_filled(state, first), has_left_pools(first)) == (True, True)
    # The line alone is not enough: the memory is not there.
    assert (is_filled(state, second), has_left_pools(second)) == (False, True)
    assert not all_pinned(state)


def test_rank_whose_last_line_was_lost_ends_with_the_servers_own_next_stage() -> None:
    state = after(pinning(), seen(4.0, ranks=both(MIB + POOL, MIB + POOL)), seen(5.0, WARM_UP))
    assert all(is_filled(state, rank) and has_left_pools(rank) for rank in state.ranks)
    assert stage_seconds(state, "host_pool") == 2.0


def test_rank_that_keeps_no_pool_of_its_own_is_not_waited_for() -> None:
    dummy = LogEvent("progress", "", "host_pool", "TP1", label="none_of_its_own", timestamp=3.0)
    state = after(
        start(), seen(1.0, ranks=both(MIB, MIB)), seen(3.0, events=[pool(POOL, 3.0), dummy], ranks=both(MIB, MIB))
    )
    assert planned_bytes(state) == POOL
    assert rank_eta_seconds(state, state.ranks[1]) == 0.0
    assert all_pinned(after(state, seen(4.0, ranks=both(MIB + POOL, MIB))))


def test_samples_between_two_looks_tell_the_speed() -> None:
    state = after(
        start(ranks=1, bytes_by_stage=(20 * GB,)),
        seen(1.0, events=[pool(20 * GB, 101.0)], ranks=held(MIB), read_at=101.0, meter="shmem"),
    )
    samples = tuple(Sample(101.0 + step, (("TP0", MIB + step * GB),)) for step in range(1, 6))
    state = after(state, seen(7.0, ranks=held(MIB + 6 * GB), read_at=107.0, samples=samples, meter="shmem"))
    assert rank_rate(state, one(state)) == pytest.approx(1 * GB, rel=0.01)
    assert eta_seconds(state) == pytest.approx(14.0, rel=0.01)


def test_samples_of_another_counter_are_not_mixed_in() -> None:
    state = after(
        start(ranks=1, bytes_by_stage=(20 * GB,)),
        seen(1.0, events=[pool(20 * GB, 101.0)], ranks=held(MIB), read_at=101.0, meter="anon"),
        seen(3.0, ranks=held(MIB + 2 * GB), samples=(Sample(102.0, (("TP0", 19 * GB),)),), read_at=103.0, meter="anon"),
    )
    assert rate_bytes_per_second(state) == pytest.approx(GB, rel=0.01)


def test_slowest_rank_decides() -> None:
    lines = [pool(20 * GB, 101.0, rank=rank) for rank in ("TP0", "TP1")]
    state = after(
        start(bytes_by_stage=(20 * GB,)),
        seen(1.0, events=lines, ranks=both(MIB, MIB), read_at=101.0),
        seen(3.0, ranks=both(MIB + 4 * GB, MIB + 2 * GB), read_at=103.0),
        seen(5.0, ranks=both(MIB + 8 * GB, MIB + 4 * GB), read_at=105.0),
    )
    assert eta_seconds(state) == pytest.approx(16.0, rel=0.01)
    assert rate_bytes_per_second(state) == pytest.approx(3 * GB, rel=0.01)
    # Once the fast one is done, its end makes nothing faster or slower.
    state = after(state, seen(11.0, ranks=both(MIB + 20 * GB, MIB + 10 * GB), read_at=111.0))
    assert eta_seconds(state) == pytest.approx(10.0, rel=0.01)


def test_rank_that_has_not_begun_is_reckoned_with_the_speed_of_the_others() -> None:
    state = after(
        start(bytes_by_stage=(20 * GB,)),
        seen(1.0, events=[pool(20 * GB, 101.0)], ranks=both(MIB, MIB), read_at=101.0),
        seen(5.0, ranks=both(MIB + 8 * GB, MIB), read_at=105.0),
    )
    assert eta_seconds(state) == pytest.approx(10.0, rel=0.01)


def test_ranks_that_wait_for_each_other_add_up() -> None:
    def four(*sizes: int) -> tuple[RankReading, ...]:
        return tuple(reading(f"TP{rank}", MIB + size) for rank, size in enumerate(sizes))

    state = after(
        start(ranks=4, bytes_by_stage=(10 * GB,)),
        seen(1.0, events=[pool(10 * GB, 101.0)], ranks=four(0, 0, 0, 0), read_at=101.0),
        seen(6.0, ranks=four(5 * GB, 0, 0, 0), read_at=106.0),
    )
    # Nothing tells yet that the others wait.
    assert eta_seconds(state) == pytest.approx(10.0, rel=0.01)
    ended = [said("stage_end", "host_pool", 111.0), pool(10 * GB, 111.0, rank="TP1")]
    state = after(
        state,
        seen(11.0, events=ended, ranks=four(10 * GB, 0, 0, 0), read_at=111.0),
        seen(16.0, ranks=four(10 * GB, 5 * GB, 0, 0), read_at=116.0),
    )
    assert eta_seconds(state) == pytest.approx(25.0, rel=0.01)


def test_registering_is_reckoned_with_what_the_first_pool_took() -> None:
    first, second = pool(10 * GB, 101.0), pool(10 * GB, 121.0, "mamba")
    state = after(
        start(ranks=1, bytes_by_stage=(20 * GB,)),
        seen(1.0, events=[first], ranks=held(MIB), read_at=101.0),
        seen(6.0, ranks=held(MIB + 5 * GB), read_at=106.0),
        seen(11.0, ranks=held(MIB + 10 * GB), read_at=111.0),
        seen(21.0, events=[second], ranks=held(MIB + 10 * GB), read_at=121.0),
        seen(26.0, ranks=held(MIB + 15 * GB), read_at=126.0),
    )
    # 5 GB at 1 GB/s are to come, and then 10 s of registering, as for the first pool of the same size.
    assert eta_seconds(state) == pytest.approx(15.0, abs=1.5)
    state = after(state, seen(31.0, ranks=held(MIB + 20 * GB), read_at=131.0))
    assert eta_seconds(state) == pytest.approx(10.0, abs=0.5)
    assert eta_seconds(after(state, seen(36.0, ranks=held(MIB + 20 * GB)))) == pytest.approx(5.0, abs=0.5)


def test_pool_that_falls_back_to_shared_memory_is_metered_there() -> None:
    state = after(
        start(ranks=1, bytes_by_stage=(20 * GB,), meter="hugetlb"),
        seen(1.0, events=[pool(20 * GB, 101.0)], ranks=held(MIB, hugetlb_bytes=0), read_at=101.0),
        seen(6.0, ranks=held(MIB + 6 * GB, hugetlb_bytes=0), read_at=106.0),
        seen(7.0, ranks=held(MIB + 7 * GB, hugetlb_bytes=0), read_at=107.0),
    )
    assert pinned_bytes(state) == 7 * GB
    assert meter_in_use(state)[0] == "shmem"
    assert [note.code for note in notes(state)] == ["meter_changed"]


def test_parallel_allocation_that_no_plan_knew_of_shows_in_private_memory() -> None:
    state = after(
        start(ranks=1, bytes_by_stage=(20 * GB,)),
        seen(1.0, events=[pool(20 * GB, 101.0)], ranks=held(MIB, anon_bytes=3 * GB), read_at=101.0),
        seen(6.0, ranks=held(MIB, anon_bytes=9 * GB), read_at=106.0),
    )
    assert pinned_bytes(state) == 6 * GB
    assert meter_in_use(state) == ("anon", "Other counters than shmem grew with the pools: TP0 anon.")


def test_private_memory_that_a_rank_needs_besides_changes_no_meter() -> None:
    state = after(
        start(ranks=1, bytes_by_stage=(20 * GB,)),
        seen(1.0, events=[pool(20 * GB, 101.0)], ranks=held(MIB, anon_bytes=3 * GB), read_at=101.0),
        seen(2.0, ranks=held(2 * GB, anon_bytes=4 * GB), read_at=102.0),
    )
    assert meter_in_use(state)[0] == "shmem"
    assert notes(state) == ()


@pytest.mark.parametrize(
    ("meter", "before", "now"),
    [
        ("shmem", CgroupReading(shmem_bytes=10 * MIB), CgroupReading(shmem_bytes=10 * MIB + POOL)),
        ("anon", CgroupReading(anon_bytes=2 * GB), CgroupReading(anon_bytes=2 * GB + POOL)),
    ],
)
def test_control_group_is_the_meter_where_no_process_can_be_read(
    meter: str, before: CgroupReading, now: CgroupReading
) -> None:
    state = after(
        start(ranks=1, meter=meter),
        seen(1.0, cgroup=before, read_at=101.0),
        seen(2.0, events=[pool(POOL, 102.1)], cgroup=before, read_at=102.0),
        seen(9.0, cgroup=now, read_at=109.0),
    )
    assert pinned_bytes(state) == POOL
    assert all_pinned(state)
    assert meter_in_use(state)[0] == f"cgroup_{meter}"
    assert [note.code for note in notes(state)] == ["meter_changed"]


def test_time_left_is_told_by_a_meter_that_knows_no_ranks_too() -> None:
    state = after(
        start(ranks=1, meter="available", bytes_by_stage=(20 * GB,)),
        seen(1.0, events=[pool(20 * GB, 101.5)], host=HostReading(memory_available_bytes=90 * GB), read_at=101.0),
        seen(3.0, host=HostReading(memory_available_bytes=88 * GB), read_at=103.0),
        seen(5.0, host=HostReading(memory_available_bytes=86 * GB), read_at=105.0),
        seen(7.0, host=HostReading(memory_available_bytes=84 * GB), read_at=107.0),
    )
    assert pinned_bytes(state) == 6 * GB
    assert eta_seconds(state) == pytest.approx(14.0, rel=0.05)


def test_driver_memory_is_counted_from_where_pinning_began() -> None:
    state = after(
        start(ranks=1, meter="available"),
        seen(1.0, host=HostReading(memory_available_bytes=90 * GB), read_at=101.0),
        # What is loaded meanwhile takes memory too, which is not pinned.
        seen(5.0, host=HostReading(memory_available_bytes=70 * GB), read_at=105.0),
        seen(6.0, events=[pool(POOL, 105.5)], host=HostReading(memory_available_bytes=70 * GB - MIB), read_at=106.0),
    )
    assert pinned_bytes(state) == MIB


def test_ranks_that_show_more_than_their_group_holds_are_reported() -> None:
    size = 20 * GB
    state = after(
        start(bytes_by_stage=(size,)),
        seen(1.0, events=[pool(size, 1.0), pool(size, 1.0, rank="TP1")], ranks=both(MIB, MIB), cgroup=CgroupReading()),
        seen(9.0, ranks=both(MIB + size, MIB + size), cgroup=CgroupReading(shmem_bytes=size)),
    )
    assert [note.code for note in notes(state)] == ["meter_disagrees"]
    state = after(state, seen(10.0, ranks=both(MIB + size, MIB + size), cgroup=CgroupReading(shmem_bytes=2 * size)))
    assert notes(state) == ()


def test_private_bytes_alone_count_only_where_the_log_is_known_to_be_broken() -> None:
    def grown(log: LogHealth) -> StartupState:
        return after(
            start(ranks=1, meter="anon", bytes_by_stage=(20 * GB,)),
            seen(1.0, ranks=held(0, anon_bytes=3 * GB), log=log),
            seen(2.0, ranks=held(0, anon_bytes=15 * GB), log=log),
        )

    assert pinned_bytes(grown(LogHealth())) is None
    assert pinned_bytes(grown(LogHealth(readable=False))) == 12 * GB


def test_what_the_bytes_alone_had_shown_is_dated_by_its_line_when_that_comes() -> None:
    state = after(
        start(ranks=1),
        seen(1.0, ranks=held(MIB), read_at=101.0),
        seen(2.0, ranks=held(MIB + POOL // 2), read_at=102.0),
    )
    span = span_of(state, "host_pool", "TP0")
    assert span is not None and (span.by, span.began) == ("meter", 101.0)
    state = after(state, seen(3.0, events=[pool(POOL, 101.4)], ranks=held(MIB + POOL), read_at=103.0))
    span = span_of(state, "host_pool", "TP0")
    assert span is not None and (span.by, span.began) == ("log", 101.4)
    assert pinned_bytes(state) == POOL


def test_draft_and_target_are_two_visits_of_the_same_stage() -> None:
    lines = [
        said("stage_begin", "load", 10.0),
        said("stage_end", "load", 50.0),
        said("stage_end", "device_pool", 51.0),
        said("stage_begin", "load", 60.0),
        said("stage_end", "load", 65.0),
    ]
    state = after(start(ranks=1), seen(70.0, events=lines, started_at=1.0))
    assert stage_seconds(state, "load") == 45.0
    assert stage_seconds(state, "boot") == 9.0


def test_plan_is_no_limit_for_what_a_rank_announces() -> None:
    state = after(pinning(), seen(4.0, events=[pool(2 * POOL, 4.0)], ranks=both(MIB, MIB)))
    assert target_bytes(state, one(state)) == 410_000_000 + 2 * POOL


@pytest.mark.parametrize(
    ("version", "meter"), [("0.4.7", "available"), ("0.5.5", "anon"), ("0.5.12", "anon"), ("0.5.13", "shmem")]
)
def test_without_a_plan_the_release_tells_the_meter(version: str, meter: str) -> None:
    assert expectation_from_plan({}, None, 120.0, sglang_version=version).meter == meter
    assert expectation_from_plan({"host": {"meter": "hugetlb"}}, None, 120.0, sglang_version=version).meter == "hugetlb"


def test_reading_of_what_a_rank_forked_is_not_its_own() -> None:
    child = replace(reading("TP0", 5 * GB), pid=999, start_ticks=77)
    state = after(pinning(), seen(4.0, ranks=(child, *both(MIB + 5, MIB))))
    assert one(state).pinned_bytes == 5
    assert state.replaced == ()
    # Nor does it count before the rank itself is known: it is the younger one.
    fresh = after(start(ranks=1), seen(1.0, ranks=(child, reading("TP0", MIB))))
    assert one(fresh).pid == 200


def test_events_of_old_releases_are_read_as_before() -> None:
    begun = events(["TP0] Allocating 0.41 GB host memory for hierarchical KV cache."], 3.0, "0.5.9")
    assert [(event.label, event.after_allocating) for event in begun] == [("kv", False)]


@pytest.mark.parametrize(("meter", "there_before"), [("shmem", 8 * MIB), ("anon", 900 * MIB)])
def test_line_that_the_log_stamped_late_takes_nothing_from_its_pool(meter: str, there_before: int) -> None:
    def shown(size: int) -> tuple[RankReading, ...]:
        return (reading("TP0", 0, **{f"{meter}_bytes": there_before + size}),)

    state = after(
        start(ranks=1, bytes_by_stage=(20 * GB,), meter=meter),
        seen(1.0, events=[said("stage_end", "capture", 101.0)], ranks=shown(0), read_at=101.0),
        seen(4.0, ranks=shown(0), read_at=104.0),
        # It allocates from 104.5 on, and the journal stamps its line 2 s later.
        seen(6.0, ranks=shown(3 * GB), read_at=106.0),
        seen(7.0, events=[pool(20 * GB, 106.5)], ranks=shown(5 * GB), read_at=107.0),
    )
    assert pinned_bytes(state) == 5 * GB


def test_pools_are_metered_from_their_line_where_nothing_speaks_against_it() -> None:
    # What NCCL shares before the pools is no part of them.
    state = after(
        start(ranks=1, bytes_by_stage=(20 * GB,)),
        seen(1.0, events=[said("stage_end", "capture", 101.0)], ranks=held(8 * MIB), read_at=101.0),
        seen(6.0, ranks=held(40 * MIB), read_at=106.0),
        seen(7.0, events=[pool(20 * GB, 106.5)], ranks=held(40 * MIB + GB), read_at=107.0),
    )
    assert pinned_bytes(state) == GB


def test_watcher_that_comes_amid_a_pool_counts_what_was_there_once_the_line_tells() -> None:
    state = after(
        start(ranks=1, bytes_by_stage=(4 * GB,)),
        seen(1.0, ranks=held(2 * GB), read_at=101.0),
        seen(2.0, ranks=held(3 * GB), read_at=102.0),
    )
    assert pinned_bytes(state) == GB
    line = pool(4 * GB, 103.9, "v4_paged", after_allocating=True)
    assert pinned_bytes(after(state, seen(4.0, events=[line], ranks=held(4 * GB), read_at=104.0))) == 4 * GB
