# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The part of a topology that placing ranks and planning memory need, out of what gpu_topology_info returns.

On paper a subset is enough: what is left out is unknown, and a node that does not say otherwise has CPUs and memory.
What is malformed is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

_EXPECTED = "Expected what gpu_topology_info returns."
# Less than that is no size in bytes: a number of GB or MB stands where bytes belong.
_LEAST_BYTES = 1 << 20
_MOST_BYTES = 1 << 60
_CAPABILITY = re.compile(r"^(\d{1,2})(?:\.(\d{1,2}))?$", re.ASCII)
_NVLINK = re.compile(r"^NV(\d{1,3})$", re.ASCII)


@dataclass(frozen=True)
class GpuFacts:
    """C(trouble) says why a server cannot have the whole GPU, None where it can; C(users) names the processes on it.

    C(memory_by_user) is what each of them holds, None where the driver does not tell.
    """

    index: int
    name: str | None = None
    memory_total_bytes: int | None = None
    numa_node: int | None = None
    compute_capability: tuple[int, int] | None = None
    uuid: str | None = None
    pci_address: str | None = None
    trouble: str | None = None
    users: tuple[str, ...] = ()
    memory_by_user: tuple[int | None, ...] = ()
    memory_used_bytes: int | None = None


@dataclass(frozen=True)
class HugepageFacts:
    """Pages of one size that were taken out of a node's memory, and those of them that nothing uses."""

    size_bytes: int
    total: int
    free: int


@dataclass(frozen=True)
class NodeFacts:
    """C(distances) is by node id. C(cpus) are those that a service may use.

    C(hugepages) is None where nothing is said of them.
    """

    id: int
    memory_total_bytes: int | None = None
    memory_available_bytes: int | None = None
    cpus: str | None = None
    has_cpus: bool = True
    kind: str | None = None
    usable: bool = True
    distances: Mapping[int, int] = field(default_factory=dict)
    hugepages: tuple[HugepageFacts, ...] | None = None

    @property
    def is_home(self) -> bool:
        """Whether a rank can live here: CPUs to run on and memory for its pool, both open to a service.

        The memory of GPUs, expanders (CXL) and the like is no place for pools, however large it is.
        """
        return self.has_cpus and self.usable and self.kind in (None, "general") and self.memory_total_bytes != 0


@dataclass(frozen=True)
class Link:
    """How two GPUs are joined: NVML's level (PIX to SYS), and the number of NVLinks."""

    level: str | None = None
    nvlinks: int = 0


@dataclass(frozen=True)
class MachineFacts:
    """C(gpus) by index, C(nodes) by id, C(links) by a pair of indexes in either order."""

    gpus: tuple[GpuFacts, ...]
    nodes: tuple[NodeFacts, ...]
    memory_total_bytes: int | None
    memory_available_bytes: int | None
    cgroup_limit_bytes: int | None
    cgroup_available_bytes: int | None = None
    assumptions: tuple[str, ...] = ()
    links: Mapping[tuple[int, int], Link] = field(default_factory=dict)

    @property
    def unidentified(self) -> frozenset[int]:
        """Indexes of GPUs of which the name or the memory is not known, while that of others is."""
        found: set[int] = set()
        for known in ([gpu.name for gpu in self.gpus], [gpu.memory_total_bytes for gpu in self.gpus]):
            if any(value is not None for value in known):
                found.update(gpu.index for gpu, value in zip(self.gpus, known) if value is None)
        return frozenset(found)

    @property
    def homes(self) -> tuple[NodeFacts, ...]:
        return tuple(node for node in self.nodes if node.is_home)


def machine_facts(topology: Mapping[str, Any]) -> MachineFacts:
    """What gpu_topology_info returns, or the same on paper, as frozen values."""
    host = topology.get("host") or {}
    if not isinstance(host, Mapping):
        raise Refusal("value_malformed", "topology.host is not a mapping.", _EXPECTED)
    boards = _mappings(topology.get("gpus"), "topology.gpus")
    gpus = [_gpu(entry, position, f"topology.gpus[{position}]") for position, entry in enumerate(boards)]
    nodes = _nodes(_mappings(topology.get("numa_nodes"), "topology.numa_nodes"), host)
    _check(gpus, nodes)
    _check_part(host, "memory_available_bytes", "memory_total_bytes", "topology.host")
    assumptions = topology.get("assumptions") or ()
    if isinstance(assumptions, (str, Mapping)) or not hasattr(assumptions, "__iter__"):
        raise Refusal("value_malformed", "topology.assumptions is not a list.", "Expected a list of sentences.")
    return MachineFacts(
        gpus=tuple(sorted(gpus, key=lambda gpu: gpu.index)),
        nodes=tuple(sorted(nodes, key=lambda node: node.id)),
        memory_total_bytes=_bytes(host, "memory_total_bytes", "topology.host", _LEAST_BYTES, none=False),
        memory_available_bytes=_bytes(host, "memory_available_bytes", "topology.host"),
        cgroup_limit_bytes=_bytes(host, "cgroup_limit_bytes", "topology.host"),
        cgroup_available_bytes=_bytes(host, "cgroup_available_bytes", "topology.host"),
        assumptions=tuple(str(text) for text in assumptions),
        links=_links(topology.get("gpu_links"), [gpu.index for gpu in gpus]),
    )


def integer(value: Any, where: str) -> int | None:
    """A whole number, or None; C("8") and 8.0 are 8, as templates and JSON write them."""
    if value is None:
        return None
    try:
        if isinstance(value, bool):
            raise ValueError
        number = float(value)
        if number != int(number):
            raise ValueError
        # int(float) loses bits above 2**53; whole numbers keep them all.
        return int(value) if not isinstance(value, float) else int(number)
    except (TypeError, ValueError, OverflowError):
        raise Refusal("value_malformed", f"{where} is {value!r}.", "Expected a whole number, or null.") from None


def _mappings(value: Any, where: str) -> list[Mapping[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, (list, tuple)) or any(not isinstance(item, Mapping) for item in value):
        raise Refusal("value_malformed", f"{where} is not a list of mappings.", _EXPECTED)
    return list(value)


def _flag(value: Any, where: str, absent: bool) -> bool:
    if value is None:
        return absent
    if not isinstance(value, bool):
        raise Refusal("value_malformed", f"{where} is {value!r}.", "Expected true or false.")
    return value


def _text(value: Any, where: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise Refusal("value_malformed", f"{where} is {value!r}.", "Expected a text, or null.")
    return value


def _capability(value: Any, where: str) -> tuple[int, int] | None:
    """C("12.0"), 12.0 or [12, 0]."""
    if value is None:
        return None
    text = ".".join(str(part) for part in value) if isinstance(value, (list, tuple)) else str(value)
    told = None if isinstance(value, bool) else _CAPABILITY.match(text)
    if told is None:
        raise Refusal(
            "value_malformed",
            f"{where} is {value!r}.",
            "Expected the compute capability as the driver tells it, such as 9.0, or null.",
        )
    return int(told.group(1)), int(told.group(2) or 0)


def _bytes(entry: Mapping[str, Any], key: str, where: str, least: int = 0, none: bool = True) -> int | None:
    """A size in bytes; 0 only where there may be none of it."""
    size = integer(entry.get(key), f"{where}.{key}")
    if size is None or (size == 0 and none) or max(least, 1 if not none else 0) <= size <= _MOST_BYTES:
        return size
    expected = f"a number of bytes, {least:,} or more" if least else "a number of bytes, 0 or more"
    raise Refusal(
        "value_malformed",
        f"{where}.{key} is {size}.",
        f"Expected {expected}{' or 0' if least and none else ''}, or null.",
        {"key": f"{where}.{key}", "value": size},
    )


def _check_part(entry: Mapping[str, Any], part: str, whole: str, where: str) -> None:
    one, all_of_it = integer(entry.get(part), f"{where}.{part}"), integer(entry.get(whole), f"{where}.{whole}")
    if one is not None and all_of_it is not None and one > all_of_it:
        raise Refusal(
            "topology_inconsistent",
            f"{where}.{part} is {one} bytes, more than {where}.{whole} with {all_of_it} bytes.",
            f"Expected a part of {whole}.",
            {"key": f"{where}.{part}", "value": one, "largest": all_of_it},
        )


def _gpu(entry: Mapping[str, Any], position: int, where: str) -> GpuFacts:
    index = integer(entry.get("index"), f"{where}.index")
    node = integer(entry.get("numa_node"), f"{where}.numa_node")
    processes = _mappings(entry.get("processes"), f"{where}.processes")
    for process in processes:
        integer(process.get("pid"), f"{where}.processes.pid")
    return GpuFacts(
        index=position if index is None else index,
        name=_text(entry.get("name"), f"{where}.name"),
        memory_total_bytes=_bytes(entry, "memory_total_bytes", where, _LEAST_BYTES, none=False),
        # A guest's -1 means that the kernel does not know.
        numa_node=None if node is None or node < 0 else node,
        compute_capability=_capability(entry.get("compute_capability"), f"{where}.compute_capability"),
        uuid=_text(entry.get("uuid"), f"{where}.uuid"),
        pci_address=_text(entry.get("pci_address"), f"{where}.pci_address"),
        trouble=_trouble(entry) if not _flag(entry.get("usable"), f"{where}.usable", True) else None,
        users=tuple(str(process.get("name") or f"process {process.get('pid')}") for process in processes),
        memory_by_user=tuple(_bytes(process, "memory_used_bytes", f"{where}.processes") for process in processes),
        memory_used_bytes=_bytes(entry, "memory_used_bytes", where),
    )


def _trouble(entry: Mapping[str, Any]) -> str | None:
    """Why the survey calls a GPU unusable, in the words of its own facts.

    A GPU that nouveau holds is on a host whose driver is yet to be installed, and is planned for the time after.
    """
    if entry.get("kernel_driver") == "nouveau":
        return None
    mig = entry.get("mig")
    if entry.get("state") in ("lost", "reset_required", "unreadable"):
        return {
            "lost": "the driver has lost it",
            "reset_required": "the driver wants it to be reset",
            "unreadable": "the driver cannot read it",
        }[str(entry["state"])]
    if isinstance(mig, Mapping) and mig.get("enabled"):
        return "MIG divides it"
    if entry.get("kernel_driver") not in (None, "nvidia"):
        return f"the kernel driver {entry['kernel_driver']} holds it"
    if entry.get("compute_mode") == "prohibited":
        return "its compute mode forbids compute processes"
    if entry.get("virtualization") in ("host_vgpu", "host_vsga"):
        return "it gives slices of itself to guests"
    return "the survey of the host calls it unusable"


def _nodes(entries: list[Mapping[str, Any]], host: Mapping[str, Any]) -> list[NodeFacts]:
    positions = range(len(entries))
    named = [integer(entry.get("id"), f"topology.numa_nodes[{place}].id") for place, entry in zip(positions, entries)]
    ids = [place if identity is None else identity for place, identity in zip(positions, named)]
    # Where no control group limits the CPUs of a service, it may use those that the node has.
    limited = host.get("cpus_usable") is not None
    nodes = []
    for place, entry in zip(positions, entries):
        where = f"topology.numa_nodes[{place}]"
        cpus = _text(entry.get("cpus_usable" if limited else "cpus"), f"{where}.cpus")
        has_cpus = _flag(entry.get("has_cpus"), f"{where}.has_cpus", True)
        distances = entry.get("distances") or ()
        if not isinstance(distances, (list, tuple)):
            raise Refusal("value_malformed", f"{where}.distances is not a list.", _EXPECTED)
        _check_part(entry, "memory_available_bytes", "memory_total_bytes", where)
        row = [integer(distance, f"{where}.distances") for distance in distances]
        nodes.append(
            NodeFacts(
                id=ids[place],
                memory_total_bytes=_bytes(entry, "memory_total_bytes", where, _LEAST_BYTES),
                memory_available_bytes=_bytes(entry, "memory_available_bytes", where),
                cpus=cpus,
                has_cpus=has_cpus and not (limited and cpus == ""),
                kind=_text(entry.get("kind"), f"{where}.kind"),
                usable=_flag(entry.get("usable"), f"{where}.usable", True),
                distances={
                    identity: distance
                    for identity, distance in zip(ids, row if len(row) == len(ids) else ())
                    if distance is not None
                },
                hugepages=_hugepages(entry.get("hugepages"), f"{where}.hugepages"),
            )
        )
    return nodes


def _hugepages(value: Any, where: str) -> tuple[HugepageFacts, ...] | None:
    if value is None:
        return None
    found = []
    for entry in _mappings(value, where):
        size = integer(entry.get("size_bytes"), f"{where}.size_bytes")
        total = integer(entry.get("total"), f"{where}.total") or 0
        free = integer(entry.get("free"), f"{where}.free")
        if size is None or size < 1 or total < 0 or (free is not None and not 0 <= free <= total):
            raise Refusal(
                "value_malformed",
                f"{where} holds {dict(entry)!r}.",
                "Expected size_bytes above 0, total pages, and free pages among them.",
            )
        found.append(HugepageFacts(size, total, total if free is None else free))
    return tuple(found)


def _links(rows: Any, indexes: list[int]) -> dict[tuple[int, int], Link]:
    if not rows:
        return {}
    if not isinstance(rows, (list, tuple)) or len(rows) != len(indexes):
        raise Refusal("value_malformed", f"topology.gpu_links is no row for each of {len(indexes)} GPUs.", _EXPECTED)
    links = {}
    for one, row in zip(indexes, rows):
        entries = _mappings(row, f"topology.gpu_links[{one}]")
        if len(entries) != len(indexes):
            raise Refusal("value_malformed", f"topology.gpu_links has {len(entries)} links of GPU {one}.", _EXPECTED)
        for two, entry in zip(indexes, entries):
            level = _text(entry.get("level"), "topology.gpu_links[].level")
            told = _NVLINK.match(level or "")
            count = integer(entry.get("nvlinks"), "topology.gpu_links[].nvlinks") or 0
            links[one, two] = Link(level, int(told.group(1)) if told else max(0, count))
    return links


def _check(gpus: list[GpuFacts], nodes: list[NodeFacts]) -> None:
    """Indexes and ids name one thing each, and a GPU's node is one of the machine's."""
    for label, found in (("GPU index", [gpu.index for gpu in gpus]), ("NUMA node id", [node.id for node in nodes])):
        twice = sorted({number for number in found if found.count(number) > 1})
        if twice:
            raise Refusal("topology_ambiguous", f"{label} {twice[0]} stands twice in topology.", "Expected each once.")
    known = {node.id for node in nodes}
    for gpu in gpus:
        if known and gpu.numa_node is not None and gpu.numa_node not in known:
            raise Refusal(
                "numa_node_missing",
                f"GPU {gpu.index} lies on NUMA node {gpu.numa_node}, and topology.numa_nodes holds "
                f"{', '.join(str(node) for node in sorted(known))}.",
                "Expected the GPU's node among them: add it, or correct the GPU's numa_node.",
            )
