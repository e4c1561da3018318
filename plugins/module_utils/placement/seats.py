# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which NUMA node a rank lives on: its threads run there and its host pool lies there.

SGLang binds threads and memory of a rank by one number, so they are not told apart here either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import GpuFacts, MachineFacts, NodeFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.problem_codes import problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem


@dataclass(frozen=True)
class Seat:
    """One rank's place; C(gpu) is None on a CPU, C(numa_node) where none is known.

    C(gpu_numa_node) is the GPU's own node, which is another one where that has no CPUs or no memory for a rank, or
    where the node was stated. C(cpus) are those of C(numa_node) that a service may use.
    """

    rank: int
    gpu: int | None
    numa_node: int | None
    gpu_numa_node: int | None = None
    cpus: str | None = None


def seats_of(
    machine: MachineFacts, gpus: Sequence[GpuFacts], numa_nodes: Sequence[int] = ()
) -> tuple[tuple[Seat, ...], tuple[Problem, ...]]:
    """A seat for each rank on C(gpus), on the nodes that are stated or else on those closest to the GPUs."""
    cpus = {node.id: node.cpus for node in machine.nodes}
    seats = []
    for rank, gpu in enumerate(gpus):
        node = numa_nodes[rank] if numa_nodes else home_of(machine, gpu.numa_node)
        seats.append(Seat(rank, gpu.index, node, gpu.numa_node, None if node is None else cpus.get(node)))
    return tuple(seats), (*_unknown(machine, seats), *_elsewhere(machine, seats, bool(numa_nodes)))


def cpu_seats(machine: MachineFacts, ranks: int, numa_nodes: Sequence[int] = ()) -> tuple[Seat, ...]:
    """Seats of ranks that compute on CPUs; with several nodes the server itself spreads them."""
    only = machine.homes[0].id if len(machine.homes) == 1 else None
    return tuple(Seat(rank, None, numa_nodes[rank] if numa_nodes else only) for rank in range(ranks))


def home_of(machine: MachineFacts, numa_node: int | None) -> int | None:
    """The node where the rank of a GPU on C(numa_node) lives: that node, else the nearest with CPUs and memory.

    A GPU whose node is not known leaves no doubt where the machine has but one such node. Where a machine lists no
    nodes at all, the GPU's word is all there is.
    """
    homes = machine.homes
    if not machine.nodes:
        return numa_node
    if len(homes) == 1:
        return homes[0].id
    if numa_node is None or not homes:
        return None
    if any(node.id == numa_node for node in homes):
        return numa_node
    own = next(node for node in machine.nodes if node.id == numa_node)

    def away(node: NodeFacts) -> tuple[bool, int, int]:
        told = distance_of(own, node)
        return told is None, told or 0, node.id

    return min(homes, key=away).id


def distance_of(one: NodeFacts, two: NodeFacts) -> int | None:
    """As the firmware tells it, the smaller of what either side says; None where neither does."""
    told = [side for side in (one.distances.get(two.id), two.distances.get(one.id)) if side is not None]
    return min(told, default=None)


def why_no_home(node: NodeFacts) -> str:
    """What keeps ranks from living on a node that is no home, for a sentence."""
    if not node.has_cpus and node.memory_total_bytes is None and node.memory_available_bytes is None:
        return "has no CPUs that are known, and its memory is not known"
    if not node.has_cpus:
        return "has no CPUs that a service may use"
    if not node.usable:
        return "has memory that the control group of a service may not take"
    if node.memory_total_bytes == 0 or node.kind == "cpus":
        return "has no memory"
    return f"is of the kind {node.kind}"


def _unknown(machine: MachineFacts, seats: Sequence[Seat]) -> list[Problem]:
    lost = [seat for seat in seats if seat.numa_node is None]
    if not lost or not machine.nodes:
        return []
    gpus = gpu_names([seat.gpu for seat in lost if seat.gpu is not None])
    if not machine.homes:
        found = ", and no NUMA node of the machine has both CPUs and memory that a service may use"
    else:
        found = f", and the machine has {len(machine.homes)} nodes that it could be"
    return [problem("numa_affinity_unknown", f"The NUMA node of {gpus} is not known{found}.")]


def _elsewhere(machine: MachineFacts, seats: Sequence[Seat], stated: bool) -> list[Problem]:
    by_id = {node.id: node for node in machine.nodes}
    moved: dict[tuple[int, int], list[int]] = {}
    for seat in seats:
        own, home = seat.gpu_numa_node, seat.numa_node
        if own is not None and home is not None and own != home and seat.gpu is not None:
            moved.setdefault((own, home), []).append(seat.gpu)
    found = []
    for (own, home), gpus in moved.items():
        far = by_id[own].distances.get(home) if own in by_id else None
        distance = f" (distance {far})" if far is not None else ""
        if stated:
            message = f"numa_nodes seats {gpu_names(gpus)} on NUMA node {home}{distance}, and the own node is {own}."
            found.append(problem("numa_node_remote", message))
        else:
            message = (
                f"NUMA node {own} of {gpu_names(gpus)} {why_no_home(by_id[own])}; node {home}{distance} stands in."
            )
            found.append(problem("numa_home_elsewhere", message))
    return found


def gpu_names(indexes: Sequence[int]) -> str:
    """C([0, 1, 5]) -> C(GPUs 0, 1 and 5)."""
    texts = [str(index) for index in indexes]
    if len(texts) < 2:
        return f"GPU {texts[0]}" if texts else "no GPU"
    return f"GPUs {', '.join(texts[:-1])} and {texts[-1]}"
