# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the host pools of all instances fit the NUMA nodes that their ranks live on, and what fits else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.binding import Binding, how_to
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.binding_modes import NONE, STRICT
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import MachineFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.instances import Instance
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.problem_codes import problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.seats import Seat
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import VersionFacts

Seated = Sequence[tuple[Instance, Sequence[Seat], Binding]]


@dataclass(frozen=True)
class NodeLoad:
    """What the pools on one NUMA node need and what is there for them, the reserve taken off.

    C(pool_ranks) are the ranks with a pool, or all of them where no instance has pools.
    C(largest_pool_bytes_per_rank) is what each of those could have beside all others; None where the memory is not
    known or there are none of them.
    """

    node: int
    ranks: int
    needed_bytes: int
    there_bytes: int | None
    pool_ranks: int = 0
    largest_pool_bytes_per_rank: int | None = None

    @property
    def fits(self) -> bool | None:
        return None if self.there_bytes is None else self.needed_bytes <= self.there_bytes


def node_loads(machine: MachineFacts, seated: Seated, reserve_bytes: int) -> tuple[NodeLoad, ...]:
    """One for each node that ranks can live on. The host's reserve is divided evenly among them."""
    there = node_there_bytes(machine, reserve_bytes)
    pools: dict[int | None, list[int]] = {}
    for instance, seats, _binding in seated:
        for seat in seats:
            pools.setdefault(seat.numa_node, []).append(instance.pool_bytes_per_rank or 0)
    some = any(size for sizes in pools.values() for size in sizes)
    counted = {node: sum(1 for size in sizes if size or not some) for node, sizes in pools.items()}
    largest = _largest(there, counted, host_there_bytes(machine, reserve_bytes))
    return tuple(
        NodeLoad(
            node,
            len(pools.get(node, ())),
            sum(pools.get(node, ())),
            size,
            counted.get(node, 0),
            None if size is None else largest.get(node),
        )
        for node, size in there.items()
    )


def _largest(
    there: Mapping[int, int | None], ranks: Mapping[int | None, int], whole: int | None
) -> dict[int | None, int | None]:
    """What each rank on a node can have. Where the whole does not give all nodes what they hold, ranks share alike."""
    room: dict[int | None, int] = {}
    for node, count in ranks.items():
        size = whole if node is None else there.get(node, whole)
        if count and size is not None:
            room[node] = size // count
    found: dict[int | None, int | None] = {}
    left = whole
    ranks_left = sum(ranks.values())
    for node in sorted(room, key=lambda node: room[node]):
        share = room[node]
        if left is not None:
            share = min(share, left // ranks_left)
            left -= share * ranks[node]
        ranks_left -= ranks[node]
        found[node] = share
    return found


def node_there_bytes(machine: MachineFacts, reserve_bytes: int) -> dict[int, int | None]:
    """What is there for pools on each node that ranks can live on: no more than a service can have in all."""
    homes = machine.homes
    whole = host_there_bytes(machine, reserve_bytes)
    found: dict[int, int | None] = {}
    for node in homes:
        size = node.memory_available_bytes
        if size is not None:
            size = max(0, size - reserve_bytes // len(homes))
            size = size if whole is None else min(size, whole)
        found[node.id] = size
    return found


def host_there_bytes(machine: MachineFacts, reserve_bytes: int) -> int | None:
    """What all pools together can have: the host's memory, a control group's limit and the nodes all bound it."""
    bounds = [machine.memory_available_bytes, machine.cgroup_limit_bytes, machine.cgroup_available_bytes]
    parts = [node.memory_available_bytes for node in machine.homes]
    if parts and None not in parts:
        bounds.append(sum(part for part in parts if part is not None))
    known = [bound for bound in bounds if bound is not None]
    return max(0, min(known) - reserve_bytes) if known else None


def pool_problems(
    machine: MachineFacts, seated: Seated, reserve_bytes: int, facts: VersionFacts | None
) -> tuple[Problem, ...]:
    """Pools that do not fit, with the bytes, and under which binding they would."""
    if not any(instance.pool_bytes_per_rank for instance, _seats, _binding in seated):
        return ()
    loads = node_loads(machine, seated, reserve_bytes)
    there = host_there_bytes(machine, reserve_bytes)
    needed = sum((instance.pool_bytes_per_rank or 0) * len(seats) for instance, seats, _binding in seated)
    ranks = sum(len(seats) for instance, seats, _binding in seated if instance.pool_bytes_per_rank)
    if there is not None and needed > there:
        return (
            problem(
                "pools_exceed_host",
                f"The pools of {ranks} rank{'s' if ranks > 1 else ''} need {format_gb(needed)}, and "
                f"{format_gb(there)} are there with {format_gb(reserve_bytes)} kept in reserve; "
                f"{format_gb(there // ranks)} a rank fit, whatever the binding.",
            ),
        )
    found = []
    reserve = reserve_bytes // max(1, len(loads))
    for load in loads:
        if load.fits is None and load.needed_bytes:
            message = f"NUMA node {load.node} is to hold {format_gb(load.needed_bytes)} of pools"
            found.append(problem("pool_memory_unknown", f"{message}, and its available memory is not known."))
        elif load.fits is False:
            found.append(problem("pool_exceeds_node", _overflow(load, seated, reserve, there, ranks, facts)))
    return tuple(found)


def _overflow(
    load: NodeLoad, seated: Seated, reserve: int, there: int | None, all_ranks: int, facts: VersionFacts | None
) -> str:
    here = load.there_bytes or 0
    kept = f" with {format_gb(reserve)} kept in reserve" if reserve else ""
    on_node = [
        (instance, binding)
        for instance, seats, binding in seated
        for seat in seats
        if seat.numa_node == load.node and instance.pool_bytes_per_rank
    ]
    largest_pool = max(instance.pool_bytes_per_rank or 0 for instance, _binding in on_node)
    bound = any(binding.mode == STRICT for _instance, binding in on_node)
    message = (
        f"The pools of {load.pool_ranks} rank{'s' if load.pool_ranks > 1 else ''} on NUMA node {load.node} need "
        f"{format_gb(load.needed_bytes)}, and {format_gb(here)} are there{kept}; "
        + ("bound strictly, a rank will fail to get its memory" if bound else "the rest comes from other nodes")
        + f". On this node fit {format_gb(load.largest_pool_bytes_per_rank or 0)} a rank"
    )
    fewer = here // largest_pool
    if 0 < fewer < load.pool_ranks:
        message += f", or {fewer} rank{'s' if fewer > 1 else ''} with {format_gb(largest_pool)} each"
    if not bound:
        return f"{message}."
    others = [mode for mode in _common(on_node) if mode != STRICT]
    if not others:
        return f"{message}. This release can only bind strictly."
    share = f", where {format_gb(there // all_ranks)} a rank fit" if there is not None else ""
    return f"{message}. Larger ones need {' or '.join(how_to(mode, facts) for mode in others)}{share}."


def _common(on_node: Sequence[tuple[Instance, Binding]]) -> list[str]:
    modes = [set(binding.possible) for _instance, binding in on_node]
    return [mode for mode in on_node[0][1].possible if all(mode in known for known in modes)] if modes else [NONE]


def loads_as_dicts(loads: Sequence[NodeLoad]) -> list[Mapping[str, object]]:
    return [
        {
            "node": load.node,
            "ranks": load.ranks,
            "needed_bytes": load.needed_bytes,
            "there_bytes": load.there_bytes,
            "largest_pool_bytes_per_rank": load.largest_pool_bytes_per_rank,
            "fits": load.fits,
        }
        for load in loads
    ]
