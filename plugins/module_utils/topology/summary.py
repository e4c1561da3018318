# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A survey in a few lines for a person: host, driver, GPUs, the ways between them, NUMA nodes, what is wrong.

C(survey) is what gpu_topology_info returned, C(stack) what host_stack_info did, which may be empty.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gb, format_gib
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.texts import (
    format_cpu_list,
    parse_cpu_list,
)

LABEL_WIDTH = 11
TEXT_WIDTH = 106
# Worst first, as the first line is the one that is read.
_SEVERITIES = ("error", "warning", "info")
_LEVELS = ("NV", "PIX", "PXB", "PHB", "NODE", "SYS")
# More pairs than this are counted instead of listed.
_PAIRS_LISTED = 8
_KINDS = {
    "general": "",
    "cpus": ", no memory",
    "memory": ", no CPUs",
    "gpu_memory": ", the memory of a GPU",
    "empty": ", empty",
}
_ROUTES = {
    "nvlink": "over NVLink",
    "switch": "over the switch",
    "redirected": "up to the host, as ACS redirects it",
    "host": "through the host",
}


def survey_lines(survey: Mapping[str, Any], stack: Mapping[str, Any] | None = None) -> list[str]:
    problems = [*survey["problems"], *((stack or {}).get("problems") or [])]
    return [
        *_entry("Host", _host(survey["host"])),
        *_entry("Driver", _driver(survey["driver"], stack or {})),
        *_entry("GPUs", _gpus(survey["gpus"])),
        *_entry("Links", _links(survey["gpus"], survey["gpu_links"])),
        *_entry("NUMA", _nodes(survey["numa_nodes"])),
        *_entry("Service", _limits(survey["host"])),
        *(line for severity in _SEVERITIES for line in _entry(severity.capitalize(), _problems(problems, severity))),
    ]


def _entry(label: str, texts: list[str]) -> list[str]:
    return [f"{label if position == 0 else '':<{LABEL_WIDTH}}{text}" for position, text in enumerate(texts)]


def _joined(parts: Iterable[str | None]) -> str:
    return ", ".join(part for part in parts if part)


def _numbers(values: Sequence[int]) -> str:
    return format_cpu_list(values)


def _host(host: Mapping[str, Any]) -> list[str]:
    guest = host["virtualization"]
    cpus = len(parse_cpu_list(host["cpus"]))
    first = _joined(
        [host["product"], host["cpu_model"], f"{cpus} CPUs online" if cpus else None, _virtualization(guest)]
    )
    total, available = host["memory_total_bytes"], host["memory_available_bytes"]
    memory = f"{format_gb(total, 1)} of memory" if total is not None else "memory unknown"
    if available is not None:
        memory += f", {format_gb(available, 1)} available"
    second = _joined(
        [
            memory,
            f"kernel {host['kernel']}" if host["kernel"] else None,
            f"IOMMU {host['iommu']}" if host["iommu"] else None,
        ]
    )
    return [line for line in (first, second) if line]


def _virtualization(guest: str | None) -> str | None:
    if guest is None:
        return None
    return "bare metal" if guest == "none" else f"guest ({guest})"


def _driver(driver: Mapping[str, Any], stack: Mapping[str, Any]) -> list[str]:
    told = {"nvml": "NVML answered", "pci": "NVML did not answer, GPUs are from the PCI bus", "none": "no GPU"}
    loaded = ((stack.get("driver") or {}).get("loaded")) or {}
    flavour = loaded.get("flavour")
    version = driver["version"] or "none loaded"
    return [
        _joined(
            [
                f"{version} ({flavour} kernel module)" if flavour else version,
                f"CUDA up to {driver['cuda_version']}" if driver["cuda_version"] else None,
                told.get(driver["source"]),
            ]
        )
    ]


def _gpus(gpus: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line for each kind of GPU, with the indexes by NUMA node."""
    kinds: dict[tuple[str, int | None, str | None], list[Mapping[str, Any]]] = {}
    for gpu in gpus:
        name = gpu["name"] or gpu["pci_device_id"] or "unnamed GPU"
        kinds.setdefault((name, gpu["memory_total_bytes"], gpu["compute_capability"]), []).append(gpu)
    lines = []
    for (name, size, capability), members in kinds.items():
        source = " (usual for the board)" if members[0]["memory_source"] == "catalogue" else ""
        text = _joined(
            [
                f"{len(members)} x {name}",
                f"{format_gib(size, 1)} each{source}" if size is not None else "memory unknown",
                f"compute capability {capability}" if capability else None,
                _pcie(members),
            ]
        )
        by_node: dict[int | None, list[int]] = {}
        for gpu in members:
            by_node.setdefault(gpu["numa_node"], []).append(gpu["index"])
        places = (
            f"{_numbers(indexes)} on {'an unknown node' if node is None else f'node {node}'}"
            for node, indexes in by_node.items()
        )
        lines += [text, f"GPU {'; '.join(places)}"]
    out = [gpu["index"] for gpu in gpus if not gpu["usable"]]
    return [*lines, f"not for a server as they are: GPU {_numbers(out)}"] if out else lines


def _pcie(members: Sequence[Mapping[str, Any]]) -> str | None:
    links = {(gpu["pcie"]["generation_max"], gpu["pcie"]["width_max"], gpu["pcie"]["state"]) for gpu in members}
    if len(links) != 1:
        states = sorted({state or "unknown" for _generation, _width, state in links})
        return f"PCIe links {', '.join(states)}"
    generation, width, state = next(iter(links))
    if generation is None or width is None:
        return None
    return f"PCIe {generation} x{width}" + (f" ({state})" if state not in (None, "full") else "")


def _links(gpus: Sequence[Mapping[str, Any]], links: Sequence[Sequence[Mapping[str, Any]]]) -> list[str]:
    """Each level with the pairs that it joins, the closest first, and the way the traffic takes."""
    if len(gpus) < 2:
        return []
    pairs: dict[tuple[str, str | None, str | None], list[str]] = {}
    for one, row in enumerate(links):
        for two in range(one + 1, len(row)):
            link = row[two]
            key = (link["level"] or "unknown", _way(link), link["p2p"])
            pairs.setdefault(key, []).append(f"{gpus[one]['index']}+{gpus[two]['index']}")

    def closeness(key: tuple[str, str | None, str | None]) -> tuple[int, str]:
        places = [place for place, level in enumerate(_LEVELS) if key[0].startswith(level)]
        return (places[0] if places else len(_LEVELS), key[0])

    lines = []
    for level, way, p2p in sorted(pairs, key=closeness):
        found = pairs[level, way, p2p]
        which = " ".join(found) if len(found) <= _PAIRS_LISTED else f"{len(found)} pairs"
        peers = {None: None, "ok": "peer access ok"}.get(p2p, f"peer access {p2p}")
        lines.append(f"{_joined([level, way, peers])}: {which}")
    return lines


def _way(link: Mapping[str, Any]) -> str | None:
    if link["level"] and link["route"] is None and link["nvlinks"] is None:
        return "NVLink unknown"
    return _ROUTES.get(link["route"] or "")


def _nodes(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = []
    empty = [node["id"] for node in nodes if node["kind"] == "empty"]
    for node in nodes:
        if node["kind"] == "empty":
            continue
        total, available = node["memory_total_bytes"], node["memory_available_bytes"]
        memory = f"{format_gb(total, 1)}" if total is not None else "memory unknown"
        if available is not None:
            memory += f", {format_gb(available, 1)} available"
        usable = None if node["usable"] else "closed to services by a cpuset"
        cpus = f"CPUs {node['cpus']}" if node["has_cpus"] else None
        gpus = f"GPU {_numbers(node['gpus'])}" if node["gpus"] else None
        lines.append(f"node {node['id']}{_KINDS.get(node['kind'], '')}: {_joined([cpus, memory, gpus, usable])}")
    return [*lines, f"{len(empty)} empty nodes: {_numbers(empty)}"] if empty else lines


def _limits(host: Mapping[str, Any]) -> list[str]:
    """What control groups leave to a service; nothing where they set no limit."""
    limit, quota = host["cgroup_limit_bytes"], host["cpu_quota"]
    every = host["cpus_usable"] in (None, host["cpus"])
    text = _joined(
        [
            None if every else f"CPUs {host['cpus_usable']}",
            None if quota is None else f"the time of {quota:g} CPUs",
            None if limit is None else f"{format_gb(limit, 1)} of memory",
            None if host["memory_nodes_usable"] is None else f"memory of node {host['memory_nodes_usable']}",
        ]
    )
    return [f"may use {text}"] if text else []


def _problems(problems: Iterable[Mapping[str, str]], severity: str) -> list[str]:
    return [
        line
        for item in problems
        if item["severity"] == severity
        for line in textwrap.wrap(
            f"{item['message']} {item['remedy']} [{item['code']}]", TEXT_WIDTH, subsequent_indent="  "
        )
    ]
