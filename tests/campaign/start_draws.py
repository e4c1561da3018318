# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Draws starts: ranks and pools, speeds that change, stages that are silent, and what goes wrong."""

from __future__ import annotations

import random
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import LogEvent
from ansible_collections.gpufleet.sglang.tests.campaign.start_worlds import Growth, RankTruth, World
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import MIB

FAULTS = ("rank_killed", "unit_died", "restarted", "oom", "hang_quiet", "hang_busy", "fatal_line")
LOSSES = ("suppressed", "gap", "unreadable", "silent")
LABELS = ("kv", "mamba", "indexer", "swa")
# Set for every draw; a stage that is silent by nature stays within what the watch allows it.
STALL_SECONDS = 30.0


def line(kind: str, at: float, stage: str | None, rank: str | None = None, **others: Any) -> LogEvent:
    fields: dict[str, Any] = {"text": f"{kind} {stage}", "stage": stage, "rank": rank, "timestamp": at, **others}
    return LogEvent(kind, **fields)


def curve(dice: random.Random, begin: float, size: int, steps: int) -> Growth:
    """Bytes that come at a speed which changes now and then, with pauses that are no stall."""
    corners = [(begin, 0.0)]
    at, left = begin, float(size)
    for step in range(steps):
        part = left if step == steps - 1 else left * dice.uniform(0.1, 0.6)
        at += part / (dice.choice([0.3, 1.0, 3.0]) * 1e9)
        left -= part
        corners.append((at, size - left))
        if left and dice.random() < 0.2:
            at += dice.uniform(1.0, STALL_SECONDS * 0.5)
            corners.append((at, size - left))
    return Growth(tuple(corners))


def rank_truth(
    dice: random.Random, index: int, begin: float, pools: tuple[int, ...]
) -> tuple[RankTruth, list[LogEvent]]:
    """One rank's pools one after the other, each registered before the next, with their lines.

    Sizes are printed with two decimals; a line may come after its pool was allocated.
    """
    label = f"TP{index}"
    at, done, filled = begin, 0.0, begin
    corners: list[tuple[float, float]] = [(begin, 0.0)]
    lines: list[LogEvent] = []
    for number, size in enumerate(pools):
        after = dice.random() < 0.3
        growth = curve(dice, at, size, dice.randint(1, 4))
        filled = growth.corners[-1][0]
        printed = round(size / 1e7) * 10_000_000
        lines.append(
            line(
                "stage_begin",
                filled if after else at,
                "host_pool",
                label,
                bytes=printed,
                label=LABELS[number],
                tokens=size // 4096,
                after_allocating=after,
            )
        )
        corners += [(when, done + there) for when, there in growth.corners]
        done += size
        at = filled + dice.uniform(0.0, STALL_SECONDS * 0.6)
        corners.append((at, done))
    if dice.random() < 0.7:
        lines.append(line("stage_end", at, "host_pool", label))
    level = dice.randrange(40) * MIB
    truth = RankTruth(label, 200 + index, pools, begin, filled, at, Growth(tuple(corners)), level)
    return truth, lines


def world(dice: random.Random, fault: str | None, loss: str | None, jump: bool) -> World:
    """A start with the given trouble; everything else is drawn."""
    count = dice.choice([1, 2, 4, 8])
    meter = dice.choice(["shmem", "shmem", "anon", "hugetlb", "available"])
    pools = tuple(dice.randrange(1, 20) * 1_073_741_824 + 4096 for _pool in range(dice.randint(1, 3)))
    lines: list[LogEvent] = []
    at = dice.uniform(6.0, 20.0)
    shows_cpu = dice.random() < 0.7
    for index in range(count):
        lines.append(line("stage_begin", at + 0.1 * index, "load", f"TP{index}", values=(("available_bytes", 10**10),)))
    at += dice.uniform(2.0, 60.0)
    for index in range(count):
        moment = at + 0.1 * index
        lines.append(line("stage_end", moment, "load", f"TP{index}", bytes=10**9))
        lines.append(line("stage_end", moment + 1.0, "device_pool", f"TP{index}"))
        lines.append(line("stage_begin", moment + 1.5, "capture", f"TP{index}"))
    at += 2.5
    # Graphs are captured in silence, but not without CPU time.
    at += dice.choice([1.0, 30.0, 300.0, 800.0])
    for index in range(count):
        lines.append(line("stage_end", at, "capture", f"TP{index}"))
    lines.append(line("capacity", at, None, "TP0", tokens=1000))
    at += 0.5
    ranks: list[RankTruth] = []
    begin = at
    staggered = dice.random() < 0.3
    for index in range(count):
        truth, told = rank_truth(dice, index, begin, pools)
        begin = truth.filled_at if staggered else begin + dice.uniform(0.0, 2.0)
        ranks.append(truth)
        lines += told
    at = max(rank.left_at for rank in ranks) + 0.5
    lines.append(line("stage_begin", at, "warm_up"))
    ready = at + dice.uniform(1.0, 500.0)
    lines.append(line("ready", ready, "ready"))
    fault_at = dice.uniform(8.0, ready - 0.5)
    if fault == "fatal_line":
        lines.append(line("failure", fault_at, "host_pool", "TP0", label="host_memory_guard"))
    lines.sort(key=lambda event: event.timestamp or 0.0)
    return World(
        dice=dice,
        meter=meter,
        ranks=ranks,
        lines=lines,
        ready_at=ready,
        fault=fault,
        fault_at=fault_at if fault else float("inf"),
        jump_at=dice.uniform(1.0, ready) if jump else float("inf"),
        jump_seconds=dice.choice([-7200.0, -90.0, -15.0, 20.0, 300.0, 86400.0]),
        shows_monotonic=dice.random() < 0.5,
        shows_cpu=shows_cpu,
        shows_samples=dice.random() < 0.6,
        shows_listener=dice.random() < 0.5,
        stranger=False,
        loss=loss,
    )
