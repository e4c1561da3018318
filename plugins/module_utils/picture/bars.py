# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the bars of a plan's picture hold, in bytes: each GPU, each NUMA node and the host. No geometry here.

A bar's segments lie one after another and never overlap. What a plan does not know (the host's memory in all, a card's
size) is left out of its bar, never estimated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Kinds of segments beside those of pools (kv, swa, mamba, indexer, draft).
DRIVER, WEIGHTS, DRAFT_WEIGHTS, SPARE, REST = "driver", "weights", "draft_weights", "spare", "rest"
RESERVE, IDLE = "reserve", "idle"
PINNED, HELD, FREE, OTHER, UNUSED = "pinned", "held", "free", "other", "unused"

NAMES = {
    DRIVER: "driver and CUDA context",
    WEIGHTS: "weights",
    DRAFT_WEIGHTS: "weights of the draft",
    "kv": "KV cache",
    "swa": "KV cache of windows",
    "mamba": "states",
    "indexer": "index keys",
    "draft": "KV cache of the draft",
    "c4": "KV cache, 1 row for 4",
    "c4_indexer": "index keys, 1 for 4",
    "c128": "KV cache, 1 row for 128",
    "c4_state": "states, 1 row for 4",
    "c4_indexer_state": "states of index keys",
    "c128_state": "states, 1 row for 128",
    SPARE: "KV budget left over",
    REST: "not accounted for",
    RESERVE: "reserve",
    IDLE: "idle, as observed",
    PINNED: "pinned pools",
    HELD: "weights and KV cache on CPUs",
    FREE: "free",
    OTHER: "other use",
    UNUSED: "not used by this instance",
}

# What fits beside the name of a bar.
_PLACE_CHARACTERS = 15
_NOT_TAKEN = frozenset({SPARE, RESERVE, IDLE, REST, FREE, OTHER, UNUSED})


@dataclass(frozen=True)
class Segment:
    """C(detail) tells parts of one kind apart, such as the ranks of a node."""

    kind: str
    size_bytes: int
    detail: str = ""


@dataclass(frozen=True)
class Bar:
    """C(limit_bytes) is where what may be taken ends, None where that is not known."""

    label: str
    place: str
    segments: tuple[Segment, ...]
    limit_bytes: int | None

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def taken_bytes(self) -> int:
        """By weights and pools: what is neither kept back nor left."""
        return sum(one.size_bytes for one in self.segments if one.kind not in _NOT_TAKEN)

    @property
    def short_bytes(self) -> int:
        """How much of what is planned lies beyond the limit."""
        return 0 if self.limit_bytes is None else max(0, self.taken_bytes - self.limit_bytes)


def device_bars(plan: Mapping[str, Any]) -> tuple[Bar, ...]:
    """One bar for each GPU of the machine, those of the instance first, in rank order; none for ranks on CPUs."""
    device = plan["device"]
    if device["device"] == "cpu":
        return ()
    boards = plan["machine"]["gpus"]
    sizes = {board["memory_total_bytes"] for board in boards}
    # Where boards differ, a plan goes by the smallest that it uses and does not say which GPU is which board.
    size = next(iter(sizes)) if len(sizes) == 1 else None
    seats = [seat for seat in plan["placement"] if seat.get("gpu") is not None]
    stages = device.get("stages") or [device]
    # Ranks are numbered stage by stage.
    bars = [
        Bar(
            f"GPU {seat['gpu']}",
            _seat(seat),
            _device_segments(device, stages[place * len(stages) // len(seats)], size),
            size,
        )
        for place, seat in enumerate(seats)
    ]
    others = sum(board["count"] for board in boards) - len(bars)
    if others > 0 and size is not None:
        label = f"{others} more GPU{'' if others == 1 else 's'}"
        bars.append(Bar(label, "each", (Segment(UNUSED, size),), size))
    return tuple(bars)


def _seat(seat: Mapping[str, Any]) -> str:
    node = seat.get("numa_node")
    return f"rank {seat['rank']}" + (f", node {node}" if node is not None else "")


def _device_segments(device: Mapping[str, Any], stage: Mapping[str, Any], size: int | None) -> tuple[Segment, ...]:
    """C(stage) has the pools and weights of a rank's pipeline stage.

    Before loading there is the card without the driver's part. What weights and pools take beyond the fraction (a draft
    that the release does not count) comes out of the reserve. A cap on tokens leaves some of the KV budget over; what
    no figure accounts for is the rest. Idle memory was observed while the server worked: it is what nothing needed of
    what is over, then of the reserve, then of the rest.
    """
    before, weights = device["available_before_load_bytes"], stage["weights_bytes"] or 0
    draft, idle = device.get("draft_weights_bytes") or 0, device["headroom_bytes"] or 0
    pools = [Segment(pool["kind"], pool["allocated_bytes"]) for pool in stage["pools"]]
    taken = weights + draft + sum(pool.size_bytes for pool in pools)
    reserved = device["reserved_bytes"] or 0
    if before is not None:
        reserved = min(reserved, max(0, before - taken))
    rest = 0 if before is None else max(0, before - taken - reserved)
    spare = min(rest, max(0, (device.get("budget_bytes") or 0) - device["kv_pool_bytes"]))
    rest -= spare
    of_spare = min(idle, spare)
    of_reserve = min(idle - of_spare, reserved)
    of_rest = min(idle - of_spare - of_reserve, rest)
    driver = 0 if before is None or size is None else max(0, size - before)
    parts = (
        Segment(DRIVER, driver),
        Segment(WEIGHTS, weights),
        Segment(DRAFT_WEIGHTS, draft),
        *pools,
        Segment(REST, rest - of_rest),
        Segment(SPARE, spare - of_spare),
        Segment(RESERVE, reserved - of_reserve),
        Segment(IDLE, of_spare + of_reserve + of_rest),
    )
    return tuple(part for part in parts if part.size_bytes > 0)


def node_bars(plan: Mapping[str, Any]) -> tuple[Bar, ...]:
    """One bar for each NUMA node that pools can lie on; none without HiCache."""
    host, machine = plan["host"], plan["machine"]
    totals = dict(zip(machine["numa_nodes"], machine.get("numa_memory_bytes") or ()))
    nodes = host["numa"] if host["enabled"] else []
    pools = [(pool["kind"], _pinned(pool)) for pool in host["pools"]]
    return tuple(
        _node_bar(node, pools, host["reserve_bytes"] // len(nodes), totals.get(node["node"])) for node in nodes
    )


def whole_bars(plan: Mapping[str, Any]) -> tuple[Bar, ...]:
    """The bar of the whole host; none where nothing is known of its memory and nothing is pinned."""
    host = plan["host"]
    pinned = tuple(
        Segment(pool["kind"], _pinned(pool) * host["ranks"], f"pinned by {host['ranks']} ranks")
        for pool in host["pools"]
    )
    total = host.get("pinned_bytes_total", host["bytes_total"])
    if sum(segment.size_bytes for segment in pinned) != total:
        pinned = (Segment(PINNED, total),)
    if host["held_by_device_bytes"]:
        pinned = (Segment(HELD, host["held_by_device_bytes"]), *pinned)
    available = host["available_bytes"]
    segments = _host_segments(pinned, host["reserve_bytes"], available, plan["machine"].get("memory_total_bytes"))
    return (Bar("whole host", "", segments, available),) if segments else ()


def _pinned(pool: Mapping[str, Any]) -> int:
    """What a rank pins for a pool: more than it holds where it is rounded up to huge pages."""
    size: int = pool.get("pinned_bytes", pool["bytes_per_rank"])
    return size


def _node_bar(
    node: Mapping[str, Any], pools: Sequence[tuple[str, int]], reserve_bytes: int, total_bytes: int | None
) -> Bar:
    ranks = node["ranks"]
    pinned = tuple(Segment(kind, size, f"rank {rank}") for rank in ranks for kind, size in pools)
    if sum(segment.size_bytes for segment in pinned) != node["pinned_bytes"]:
        # Ranks differ (pipeline stages): the plan gives what they pin together.
        pinned = (Segment(PINNED, node["pinned_bytes"]),)
    told = f"rank{'' if len(ranks) == 1 else 's'} {_numbers(ranks)}" if ranks else "no rank"
    if len(told) > _PLACE_CHARACTERS:
        told = f"{len(ranks)} ranks"
    available = node["available_bytes"]
    segments = _host_segments(pinned, reserve_bytes, available, total_bytes)
    return Bar(f"NUMA node {node['node']}", told, segments, available)


def _host_segments(
    pinned: Sequence[Segment], reserve_bytes: int, available_bytes: int | None, total_bytes: int | None
) -> tuple[Segment, ...]:
    taken = sum(segment.size_bytes for segment in pinned)
    parts = list(pinned)
    if available_bytes is not None:
        left = max(0, available_bytes - taken)
        reserve = min(reserve_bytes, left)
        parts += [Segment(RESERVE, reserve), Segment(FREE, left - reserve)]
        if total_bytes is not None:
            parts.append(Segment(OTHER, max(0, total_bytes - max(available_bytes, taken))))
    return tuple(part for part in parts if part.size_bytes > 0)


def _numbers(ranks: Sequence[int]) -> str:
    """C([0, 1, 2, 3]) -> C(0 to 3)."""
    if len(ranks) > 2 and list(ranks) == list(range(ranks[0], ranks[0] + len(ranks))):
        return f"{ranks[0]} to {ranks[-1]}"
    return ", ".join(str(rank) for rank in ranks)
