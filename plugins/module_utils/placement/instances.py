# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What instances ask of a node: how many ranks, which GPUs, which NUMA nodes. Explicit lists win or are refused."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import GpuFacts, MachineFacts, integer
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.seats import gpu_names, why_no_home
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.texts import parse_pci_address

# More ranks than this are no request for one node.
MAX_RANKS = 1024


@dataclass(frozen=True)
class Instance:
    """C(gpus) are indexes, UUIDs or PCI addresses in rank order; C(numa_nodes) has a node for each rank.

    Either is empty where the placement may choose.
    """

    name: str
    ranks: int
    gpus: tuple[Any, ...] = ()
    numa_nodes: tuple[int, ...] = ()
    pool_bytes_per_rank: int | None = None

    @property
    def label(self) -> str:
        """How sentences begin that speak of this instance among others."""
        return f"Instance {self.name}: " if self.name else ""


def instances_of(entries: Any) -> tuple[Instance, ...]:
    """Instances out of a list of mappings with the keys of Instance; ranks may be left out where gpus are named."""
    if not isinstance(entries, (list, tuple)) or not entries:
        raise _malformed("instances", entries, "a list of mappings, one for each instance")
    instances = tuple(_instance(entry, f"instances[{place}]") for place, entry in enumerate(entries))
    names = [instance.name for instance in instances]
    for name in names:
        if names.count(name) > 1:
            raise Refusal(
                "instance_named_twice", f"Two instances have the name {name}.", "Give each a name of its own."
            )
    return instances


def _malformed(where: str, value: Any, expected: str) -> Refusal:
    return Refusal("value_malformed", f"{where} is {value!r}.", f"Expected {expected}.")


def _instance(entry: Any, where: str) -> Instance:
    if not isinstance(entry, Mapping):
        raise _malformed(where, entry, "a mapping")
    known = [field.name for field in fields(Instance)]
    for key in entry:
        if key not in known:
            closest = difflib.get_close_matches(str(key), known, n=1)
            remedy = f"The closest is {closest[0]}." if closest else f"Expected one of {', '.join(known)}."
            raise Refusal("option_unknown", f"{where} holds {key}, which is not known.", remedy)
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        raise _malformed(f"{where}.name", name, "the name of the instance")
    gpus = _list(entry.get("gpus"), f"{where}.gpus")
    stated = _list(entry.get("numa_nodes"), f"{where}.numa_nodes")
    nodes = [node for node in (integer(node, f"{where}.numa_nodes") for node in stated) if node is not None]
    if len(nodes) != len(stated):
        raise _malformed(f"{where}.numa_nodes", list(stated), "the id of a NUMA node for each rank")
    ranks = integer(entry.get("ranks"), f"{where}.ranks")
    ranks = len(gpus) if ranks is None else ranks
    if not 1 <= ranks <= MAX_RANKS:
        raise _malformed(f"{where}.ranks", entry.get("ranks"), f"a number from 1 to {MAX_RANKS}, or the list gpus")
    pool = integer(entry.get("pool_bytes_per_rank"), f"{where}.pool_bytes_per_rank")
    if pool is not None and pool < 0:
        raise _malformed(f"{where}.pool_bytes_per_rank", pool, "a number of bytes, 0 or more")
    return Instance(name, ranks, tuple(gpus), tuple(nodes), pool)


def _list(value: Any, where: str) -> Sequence[Any]:
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        raise _malformed(where, value, "a list")
    return value


def named_gpus(machine: MachineFacts, instance: Instance) -> tuple[GpuFacts, ...]:
    """The GPUs that an instance names, in its order."""
    found = [_gpu(machine, instance, key) for key in instance.gpus]
    indexes = [gpu.index for gpu in found]
    if len(set(indexes)) != len(indexes) or len(indexes) != instance.ranks:
        raise Refusal(
            "gpu_count_mismatch",
            f"{instance.label}gpus names {len(set(indexes))} different GPU{'s' if len(set(indexes)) > 1 else ''} in "
            f"{len(indexes)} entries, and {_ranks(instance)}.",
            f"Name {instance.ranks} different GPUs, one a rank, or leave gpus empty.",
            {"instance": instance.name, "gpus": indexes, "wanted": instance.ranks},
        )
    for gpu in found:
        if gpu.trouble is not None:
            raise Refusal(
                "gpu_unusable",
                f"{instance.label}gpus names GPU {gpu.index}, and {gpu.trouble}.",
                "Name another one, or put this one right first: see the problems that gpu_topology_info states.",
                {"instance": instance.name, "gpu": gpu.index},
            )
    return tuple(found)


def _gpu(machine: MachineFacts, instance: Instance, key: Any) -> GpuFacts:
    text = str(key).strip()
    address = parse_pci_address(text if text.count(":") > 1 else f"0000:{text}")
    for gpu in machine.gpus:
        same_uuid = gpu.uuid is not None and text.lower() == gpu.uuid.lower()
        same_place = address is not None and address == parse_pci_address(gpu.pci_address)
        if text == str(gpu.index) or same_uuid or same_place:
            return gpu
    raise Refusal(
        "gpu_unknown",
        f"{instance.label}gpus names {key!r}, and the machine has {_inventory(machine)}.",
        "Name GPUs that exist, by index, UUID or PCI address.",
        {"instance": instance.name, "gpus": [gpu.index for gpu in machine.gpus]},
    )


def _inventory(machine: MachineFacts) -> str:
    return gpu_names([gpu.index for gpu in machine.gpus])


def _ranks(instance: Instance) -> str:
    return f"there {'is 1 rank' if instance.ranks == 1 else f'are {instance.ranks} ranks'}"


def refuse_taken(holders: Mapping[int, str], instance: Instance, gpus: Sequence[GpuFacts]) -> None:
    """C(holders): the instance that has each GPU already, by the GPU's index."""
    for gpu in gpus:
        if gpu.index in holders:
            raise Refusal(
                "gpu_taken",
                f"{instance.label}gpus names GPU {gpu.index}, which instance {holders[gpu.index]} names too.",
                "Give each GPU to one instance.",
                {"instance": instance.name, "gpu": gpu.index, "holder": holders[gpu.index]},
            )


def refuse_too_few(machine: MachineFacts, wanted: int, free: Sequence[GpuFacts], wishes: Sequence[Instance]) -> None:
    """C(free) are the GPUs that no instance names and nothing is wrong with."""
    if wanted <= len(free):
        return
    troubled = [f"GPU {gpu.index} ({gpu.trouble})" for gpu in machine.gpus if gpu.trouble is not None]
    without = f" Not counted: {', '.join(troubled)}." if troubled else ""
    named = len(machine.gpus) - len(troubled) - len(free)
    taken = f", {named} of them named by other instances" if named else ""
    names = f" for {', '.join(wish.name for wish in wishes)}" if all(wish.name for wish in wishes) else ""
    raise Refusal(
        "gpus_too_few",
        f"{wanted} GPUs are needed{names}, one a rank, and the machine has {_inventory(machine)}{taken}.{without}",
        f"Ask for {len(free)} ranks or fewer."
        if free
        else "Find out why no GPU is free: see the problems that gpu_topology_info states.",
        {
            "wanted": wanted,
            "gpus": len(free),
            "unusable": [gpu.index for gpu in machine.gpus if gpu.trouble is not None],
        },
    )


def check_numa_nodes(machine: MachineFacts, instance: Instance) -> None:
    """The nodes that an instance states are one a rank, exist, and can take threads and memory."""
    if not instance.numa_nodes:
        return
    if len(instance.numa_nodes) != instance.ranks:
        raise Refusal(
            "numa_node_count_mismatch",
            f"{instance.label}numa_nodes has {len(instance.numa_nodes)} entries, and {_ranks(instance)}.",
            "State one NUMA node a rank, or leave numa_nodes empty.",
            {"instance": instance.name, "wanted": instance.ranks},
        )
    known = {node.id: node for node in machine.nodes}
    homes = [node.id for node in machine.homes]
    fitting = ", ".join(str(node) for node in homes) or "none"
    for node in instance.numa_nodes:
        if node in homes or (not known and node >= 0):
            continue
        why = why_no_home(known[node]) if node in known else "does not exist"
        raise Refusal(
            "numa_node_unfit",
            f"{instance.label}numa_nodes names NUMA node {node}, which {why}.",
            f"Name nodes with CPUs and memory that a service may use; this machine has: {fitting}.",
            {"instance": instance.name, "numa_node": node, "fitting": homes},
        )
