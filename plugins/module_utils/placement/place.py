# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ranks to GPUs to NUMA nodes, for one or several instances on a node.

Pure: the same topology and instances give the same placement, whatever the order of the GPUs. What is explicit is
seated first and wins; the choice among the rest is in search.py, the nodes in seats.py, the
binding in binding.py and the pools in pools.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.binding import Binding, binding_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import GpuFacts, MachineFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.instances import (
    Instance,
    check_numa_nodes,
    named_gpus,
    refuse_taken,
    refuse_too_few,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.pools import (
    NodeLoad,
    loads_as_dicts,
    node_loads,
    node_there_bytes,
    pool_problems,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.problem_codes import problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.search import (
    Room,
    Wish,
    choose,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.seats import (
    Seat,
    gpu_names,
    home_of,
    seats_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.ways import worst_link
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import VersionFacts

# SGLang's own processes are instances of this node, which are seated here anew; everybody else's are to be left alone.
# A program, a module or a console script that bears the name, as in sglang::scheduler_TP0 or sglang.launch_server.
_OWN = re.compile(r"(?:^|/)sglang(?![A-Za-z0-9])[^/]*$")
_OWN_SCRIPT = re.compile(r"(?:^|/)sglang/.*\.py$")
# What runs another program, and arguments of such that are no program.
_RUNNERS = re.compile(r"(?:^|/)(?:python[\d.]*|pypy[\d.]*|env|nice|numactl|taskset|torchrun)$")
_NUMBERS = re.compile(r"[\d,+-]+")


@dataclass(frozen=True)
class PlacedInstance:
    """C(link) is the level of the slowest link among the GPUs, None for one GPU or where links are not known."""

    name: str
    gpus: tuple[GpuFacts, ...]
    seats: tuple[Seat, ...]
    link: str | None
    numa_nodes: tuple[int, ...]
    binding: Binding
    environment: Mapping[str, str]
    problems: tuple[Problem, ...]


@dataclass(frozen=True)
class Placement:
    """C(instances) in the order that they were given; C(free_gpus) are indexes of usable GPUs that nobody got."""

    instances: tuple[PlacedInstance, ...]
    free_gpus: tuple[int, ...]
    nodes: tuple[NodeLoad, ...]
    problems: tuple[Problem, ...]


def place(
    machine: MachineFacts,
    instances: Sequence[Instance],
    facts: VersionFacts | None = None,
    avoid_in_use: bool = True,
    reserve_bytes: int = 0,
) -> Placement:
    """Seat all instances, or raise Refusal. C(facts) of the release that will run, None where it is not known."""
    chosen = _choose(machine, instances, avoid_in_use, node_there_bytes(machine, reserve_bytes))
    alone = len(instances) == 1
    placed = [_placed(machine, instance, chosen[place], facts, alone) for place, instance in enumerate(instances)]
    taken = {gpu.index for one in placed for gpu in one.gpus}
    seated = [(instance, one.seats, one.binding) for instance, one in zip(instances, placed)]
    return Placement(
        instances=tuple(placed),
        free_gpus=tuple(gpu.index for gpu in machine.gpus if gpu.trouble is None and gpu.index not in taken),
        nodes=node_loads(machine, seated, reserve_bytes),
        problems=pool_problems(machine, seated, reserve_bytes, facts),
    )


def _choose(
    machine: MachineFacts, instances: Sequence[Instance], avoid_in_use: bool, there: Mapping[int, int | None]
) -> dict[int, tuple[GpuFacts, ...]]:
    """GPUs of each instance in rank order, by the instance's place in the list."""
    chosen: dict[int, tuple[GpuFacts, ...]] = {}
    holders: dict[int, str] = {}
    for place, instance in enumerate(instances):
        check_numa_nodes(machine, instance)
        if instance.gpus:
            chosen[place] = named_gpus(machine, instance)
            refuse_taken(holders, instance, chosen[place])
            holders.update({gpu.index: instance.name for gpu in chosen[place]})
    open_places = [place for place in range(len(instances)) if place not in chosen]
    wanted = [instances[place] for place in open_places]
    free = [gpu for gpu in machine.gpus if gpu.index not in holders and gpu.trouble is None]
    refuse_too_few(machine, sum(instance.ranks for instance in wanted), free, wanted)
    if wanted:
        in_use = frozenset(gpu.index for gpu in free if avoid_in_use and foreign_users(gpu))
        wishes = [_wish(place, instances[place]) for place in open_places]
        room = Room(there, _settled_pools(machine, instances, chosen))
        found = choose(machine, free, wishes, in_use, room)
        chosen.update({place: found[str(place)] for place in open_places})
    return chosen


def _wish(place: int, instance: Instance) -> Wish:
    # Where the nodes are stated, the pools lie there whatever the GPUs.
    return Wish(str(place), instance.ranks, 0 if instance.numa_nodes else instance.pool_bytes_per_rank or 0)


def _settled_pools(
    machine: MachineFacts, instances: Sequence[Instance], chosen: Mapping[int, Sequence[GpuFacts]]
) -> dict[int, int]:
    """Bytes of pools on each node that lie there whichever GPUs are chosen for the others."""
    found: dict[int, int] = {}
    for place, instance in enumerate(instances):
        nodes = instance.numa_nodes or [home_of(machine, gpu.numa_node) for gpu in chosen.get(place, ())]
        for node in nodes:
            if node is not None:
                found[node] = found.get(node, 0) + (instance.pool_bytes_per_rank or 0)
    return found


def foreign_users(gpu: GpuFacts) -> tuple[str, ...]:
    return tuple(name for name in gpu.users if not runs_sglang(name))


def runs_sglang(command: str) -> bool:
    """Whether a command runs SGLang, be it by its name, by C(python -m) or by the path of a script."""
    before = ""
    for word in command.split():
        module = before == "-m"
        if word.startswith("-m") and _OWN.search(word[2:]):
            return True
        if _OWN.search(word) or (_OWN_SCRIPT.search(word) and not module):
            return before not in ("-X", "-W")
        value = before in ("-X", "-W") or word.startswith("-") or "=" in word or _NUMBERS.fullmatch(word)
        if not value and (module or not _RUNNERS.search(word)):
            return False
        before = word
    return False


def _placed(
    machine: MachineFacts,
    instance: Instance,
    gpus: tuple[GpuFacts, ...],
    facts: VersionFacts | None,
    alone: bool,
) -> PlacedInstance:
    seats, seat_problems = seats_of(machine, gpus, instance.numa_nodes)
    binding, binding_problems = binding_of(machine, instance, seats, facts)
    return PlacedInstance(
        name=instance.name,
        gpus=gpus,
        seats=seats,
        link=worst_link(machine, gpus),
        numa_nodes=tuple(sorted({seat.numa_node for seat in seats if seat.numa_node is not None})),
        binding=binding,
        environment=visible_devices(machine, gpus, alone),
        problems=(*_gpu_problems(machine, instance, gpus), *seat_problems, *binding_problems),
    )


def _gpu_problems(machine: MachineFacts, instance: Instance, gpus: Sequence[GpuFacts]) -> list[Problem]:
    found = []
    unidentified = [gpu.index for gpu in gpus if gpu.index in machine.unidentified]
    if unidentified:
        message = f"{instance.label}the name or the memory of {gpu_names(unidentified)} is not known."
        found.append(problem("gpus_unidentified", message))
    kinds: dict[tuple[str | None, int | None], list[int]] = {}
    for gpu in gpus:
        kinds.setdefault((gpu.name, gpu.memory_total_bytes), []).append(gpu.index)
    if len(kinds) > 1:
        parts = [f"{gpu_names(indexes)} ({name or 'unnamed'})" for (name, _size), indexes in kinds.items()]
        found.append(problem("gpus_mixed", f"{instance.label}the GPUs are of several kinds: {', '.join(parts)}."))
    used = [f"GPU {gpu.index} ({', '.join(sorted(set(foreign_users(gpu))))})" for gpu in gpus if foreign_users(gpu)]
    if used:
        found.append(problem("gpus_in_use", f"{instance.label}others use {', '.join(used)}."))
    troubled = [gpu.index for gpu in machine.gpus if gpu.trouble is not None]
    if len(gpus) > 1 and _by_uuid(machine, gpus):
        message = f"{instance.label}{gpu_names(troubled)} cannot be used, so CUDA is told the GPUs by UUID."
        found.append(problem("gpus_named_by_uuid", message))
    return found


def _by_uuid(machine: MachineFacts, gpus: Sequence[GpuFacts]) -> bool:
    """Whether indexes are in doubt, as CUDA does not count GPUs that are lost or divided, and UUIDs can be had."""
    return any(gpu.trouble is not None for gpu in machine.gpus) and all(
        gpu.uuid is not None and gpu.uuid.startswith("GPU-") for gpu in gpus
    )


def visible_devices(machine: MachineFacts, gpus: Sequence[GpuFacts], alone: bool = True) -> dict[str, str]:
    """Environment that puts rank 0 on the first of C(gpus) and so on; empty where SGLang's own order does it.

    Beside other instances each is kept to its own GPUs, and so is one on a machine with boards of several kinds, as
    CUDA puts the fastest first. Beside GPUs that cannot be used they are named by UUID.
    """
    if _by_uuid(machine, gpus):
        names = ",".join(str(gpu.uuid) for gpu in gpus)
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": names}
    chosen = [gpu.index for gpu in gpus]
    alike = len({(gpu.name, gpu.memory_total_bytes) for gpu in machine.gpus}) <= 1
    if alone and alike and chosen == list(range(len(chosen))):
        return {}
    # CUDA's own order is by speed; NVML's, which the indexes are in, is by PCI address.
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(str(index) for index in chosen)}


def placement_as_dict(placement: Placement) -> dict[str, Any]:
    """The documented form of a placement (RETURN of the filter)."""
    return {
        "instances": [
            {
                "name": one.name,
                "seats": [asdict(seat) for seat in one.seats],
                "gpus": [gpu.index for gpu in one.gpus],
                "link": one.link,
                "numa_nodes": list(one.numa_nodes),
                "binding": {
                    "mode": one.binding.mode,
                    "reason": one.binding.reason,
                    "numa_nodes": list(one.binding.numa_nodes),
                    "possible": list(one.binding.possible),
                },
                "environment": dict(one.environment),
                "problems": [entry.as_dict() for entry in one.problems],
            }
            for one in placement.instances
        ],
        "free_gpus": list(placement.free_gpus),
        "nodes": [dict(load) for load in loads_as_dicts(placement.nodes)],
        "problems": [entry.as_dict() for entry in placement.problems],
    }
