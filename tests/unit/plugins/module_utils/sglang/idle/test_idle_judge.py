# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.holders import (
    BY_FOLDER,
    GpuMemory,
    HugePages,
    NodeMemory,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.judge import (
    GPU,
    HOST,
    HUGE_PAGES,
    NODE,
    PROCESS,
    Hold,
    held_gpu_bytes,
    held_host_bytes,
    hold_from_dict,
    holds_of,
    missing_host_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.needs import Bounds, Needs
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.idle.idle_cases import (
    GB,
    RANK,
    STRANGER,
    gpu,
    look,
)

HOST_NEEDS = Needs(host=Bounds(50 * GB, 45 * GB))


def kinds(holds: tuple[Hold, ...]) -> list[str]:
    return [hold.kind for hold in holds]


def test_an_idle_node_is_held_by_nobody() -> None:
    assert holds_of(look(gpus=[gpu(0), gpu(1)]), HOST_NEEDS) == ()


def test_processes_of_the_instance_are_in_the_way_wherever_they_are() -> None:
    leaked = replace(RANK, pid=300, unit="session-3.scope", belongs=BY_FOLDER)
    other = replace(RANK, pid=400, unit="sglang-other.service", belongs=None)
    holds = holds_of(look(processes=[RANK, leaked, other]), Needs())
    assert [(hold.kind, hold.pid, hold.bytes) for hold in holds] == [(PROCESS, 201, GB), (PROCESS, 300, GB)]


def test_a_gpu_that_others_hold_is_in_the_way_with_who_it_is() -> None:
    (hold,) = holds_of(look(gpus=[gpu(3, 30 * GB, (STRANGER, 30 * GB))]), Needs())
    assert (hold.kind, hold.gpu, hold.pid, hold.user, hold.container) == (GPU, 3, 4711, "bob", "0123456789ab")
    assert hold.bytes == 30 * GB


def test_a_gpu_is_idle_with_what_displays_and_monitors_take() -> None:
    assert holds_of(look(gpus=[gpu(0, GIB, (STRANGER, GIB))]), Needs()) == ()
    assert kinds(holds_of(look(gpus=[gpu(0, GIB + 1, (STRANGER, GIB + 1))]), Needs())) == [GPU]


def test_a_gpu_whose_other_user_the_plan_counts_on_is_not_in_the_way() -> None:
    shared = gpu(0, 30 * GB, (STRANGER, 30 * GB))
    assert holds_of(look(gpus=[shared]), Needs(gpu_free_bytes=70 * GB)) == ()
    assert kinds(holds_of(look(gpus=[shared]), Needs(gpu_free_bytes=70 * GB + 1))) == [GPU]


def test_an_own_process_on_a_gpu_is_in_the_way_however_little_it_has() -> None:
    holds = holds_of(look(processes=[RANK], gpus=[gpu(0, GB // 2, (RANK, GB // 2))]), Needs())
    assert [(hold.kind, hold.bytes) for hold in holds] == [(PROCESS, GB), (GPU, GB // 2)]


def test_memory_of_a_gpu_that_nobody_is_named_for_is_in_the_way() -> None:
    (hold,) = holds_of(look(gpus=[gpu(0, 20 * GB)]), Needs())
    assert (hold.pid, hold.bytes) == (None, 20 * GB)
    named, unnamed = holds_of(look(gpus=[gpu(0, 20 * GB, (STRANGER, 5 * GB))]), Needs())
    assert (named.pid, named.bytes, unnamed.pid, unnamed.bytes) == (4711, 5 * GB, None, 15 * GB)
    # A process whose part the driver does not tell may hold all of it.
    (hold,) = holds_of(look(gpus=[gpu(0, 20 * GB, (STRANGER, None))]), Needs())
    assert (hold.pid, hold.bytes) == (4711, None)


def test_what_cannot_be_known_is_not_waited_for() -> None:
    assert holds_of(look(available=None, gpus=None), HOST_NEEDS) == ()
    assert holds_of(look(gpus=[GpuMemory(0)]), Needs(gpu_free_bytes=GB)) == ()
    assert holds_of(look(), Needs(nodes=((0, Bounds(GB, GB)),))) == ()
    assert holds_of(look(), Needs(hugepage_bytes=GIB, hugepages=((0, GB), (None, GB)))) == ()


@pytest.mark.parametrize(
    ("available", "missing", "bearable"),
    [(50 * GB, None, None), (50 * GB - 1, 1, True), (45 * GB, 5 * GB, True), (45 * GB - 1, 5 * GB + 1, False)],
)
def test_host_memory_is_short_bearably_or_not(available: int, missing: int | None, bearable: bool | None) -> None:
    holds = holds_of(look(available), HOST_NEEDS)
    assert [(hold.kind, hold.bytes, hold.bearable) for hold in holds] == (
        [] if missing is None else [(HOST, missing, bearable)]
    )


def test_a_node_can_be_short_while_the_host_is_not() -> None:
    nodes = [NodeMemory(0, available_bytes=30 * GB), NodeMemory(1, available_bytes=10 * GB)]
    needs = replace(HOST_NEEDS, nodes=((0, Bounds(25 * GB, 20 * GB)), (1, Bounds(25 * GB, 20 * GB))))
    (hold,) = holds_of(look(nodes=nodes), needs)
    assert (hold.kind, hold.numa_node, hold.bytes, hold.bearable) == (NODE, 1, 15 * GB, False)


def test_huge_pages_have_to_be_free_in_their_size() -> None:
    node = NodeMemory(0, hugepages=(HugePages(2 << 20, 100, 100), HugePages(GIB, 40, 10)))
    needs = Needs(hugepage_bytes=GIB, hugepages=((0, 20 * GIB),))
    (hold,) = holds_of(look(nodes=[node]), needs)
    assert (hold.kind, hold.bytes, hold.numa_node) == (HUGE_PAGES, 10 * GIB, 0)


def test_figures_of_what_is_held() -> None:
    holds = holds_of(look(48 * GB, [RANK], [gpu(0, 20 * GB, (STRANGER, 20 * GB))]), HOST_NEEDS)
    assert (missing_host_bytes(holds), held_host_bytes(holds), held_gpu_bytes(holds)) == (2 * GB, 2 * GB, 20 * GB)
    assert held_host_bytes(holds_of(look(processes=[RANK]), HOST_NEEDS)) == GB


def test_holds_survive_the_way_from_the_node() -> None:
    holds = holds_of(look(48 * GB, [RANK], [gpu(0, 20 * GB, (STRANGER, 20 * GB))]), HOST_NEEDS)
    assert tuple(hold_from_dict(hold.as_dict()) for hold in holds) == holds
