# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NUMA nodes and memory: /sys/devices/system/node, /proc/meminfo, huge pages."""

from __future__ import annotations

from typing import Any

from .entries import Entries, Profile
from .lists import list_of, numbers_of

BASE = "sys/devices/system/node"
DEFAULT_DISTANCE = 20


def memory(profile: Profile) -> Entries:
    nodes = profile["numa_nodes"]
    ids = [node["id"] for node in nodes]
    possible = profile["host"].get("nodes_possible")
    with_cpus = [node["id"] for node in nodes if _online_cpus(profile, node)]
    with_memory = [node["id"] for node in nodes if node["memory_total_kib"]]
    if nodes:
        yield f"{BASE}/online", list_of(ids)
        yield f"{BASE}/possible", list_of(ids) if possible is None else str(possible)
        yield f"{BASE}/has_memory", list_of(with_memory)
        # Memory of boards and expanders is movable; the kernel's own data lies on nodes with CPUs.
        yield f"{BASE}/has_normal_memory", list_of(set(with_memory) & set(with_cpus))
        yield f"{BASE}/has_cpu", list_of(with_cpus)
    distances = _distances(ids, profile.get("distances") or {})
    reserved: dict[int, int] = {}
    for node in nodes:
        here = f"{BASE}/node{node['id']}"
        yield f"{here}/cpulist", list_of(_online_cpus(profile, node))
        yield f"{here}/distance", " ".join(str(distances[node["id"], other]) for other in ids)
        yield f"{here}/meminfo", _node_meminfo(node)
        for size_kib, count in node["hugepages"].items():
            reserved[size_kib] = reserved.get(size_kib, 0) + count
            pages = f"{here}/hugepages/hugepages-{size_kib}kB"
            yield f"{pages}/nr_hugepages", str(count)
            yield f"{pages}/free_hugepages", str(count)
            yield f"{pages}/surplus_hugepages", "0"
    for size_kib, count in reserved.items():
        pages = f"sys/kernel/mm/hugepages/hugepages-{size_kib}kB"
        yield f"{pages}/nr_hugepages", str(count)
        yield f"{pages}/free_hugepages", str(count)
    yield "proc/meminfo", _host_meminfo(profile, reserved.get(2048, 0))


def _online_cpus(profile: Profile, node: dict[str, Any]) -> list[int]:
    """A node's list leaves out what is offline, as the kernel's does."""
    offline = set(numbers_of(profile["host"]["cpus_offline"]))
    return [cpu for cpu in numbers_of(node["cpus"]) if cpu not in offline]


def _distances(ids: list[int], rules: dict[str, int]) -> dict[tuple[int, int], int]:
    """Distance of every pair. A rule C("0 1-3": 32) holds from each node of the first list to each of the second and
    back; of several the last; C(others) holds where none does."""
    found = {(one, two): rules.get("others", DEFAULT_DISTANCE) for one in ids for two in ids}
    for rule, distance in rules.items():
        if rule != "others":
            ones, twos = (numbers_of(part) for part in rule.split())
            for one in ones:
                for two in twos:
                    found[one, two] = found[two, one] = distance
    found.update({(one, one): 10 for one in ids})
    return found


def _node_meminfo(node: dict[str, Any]) -> str:
    pages = node["hugepages"].get(2048, 0)
    file_kib = node["memory_file_kib"]
    rows = {
        "MemTotal": node["memory_total_kib"],
        "MemFree": node["memory_free_kib"],
        "MemUsed": node["memory_total_kib"] - node["memory_free_kib"],
        "Active(file)": file_kib // 2,
        "Inactive(file)": file_kib - file_kib // 2,
        "FilePages": file_kib,
        "Shmem": 0,
        "KReclaimable": node["memory_slab_reclaimable_kib"],
        "SReclaimable": node["memory_slab_reclaimable_kib"],
    }
    lines = [f"Node {node['id']} {name + ':':15s}{value:8d} kB" for name, value in rows.items()]
    lines += [f"Node {node['id']} {name + ':':15s}{pages:6d}" for name in ("HugePages_Total", "HugePages_Free")]
    return "\n".join(lines)


def _host_meminfo(profile: Profile, pages: int) -> str:
    def total(key: str) -> int:
        return sum(node[key] for node in profile["numa_nodes"])

    free = total("memory_free_kib") + total("memory_file_kib") + total("memory_slab_reclaimable_kib")
    swap_kib = (profile.get("stack") or {}).get("swap_kib", 0)
    rows = {
        "MemTotal": total("memory_total_kib"),
        "MemFree": total("memory_free_kib"),
        "MemAvailable": profile["host"].get("memory_available_kib", free),
        "Buffers": 0,
        "Cached": total("memory_file_kib"),
        "SwapTotal": swap_kib,
        "SwapFree": swap_kib,
        "Shmem": 0,
        "KReclaimable": total("memory_slab_reclaimable_kib"),
        "SReclaimable": total("memory_slab_reclaimable_kib"),
        "CommitLimit": total("memory_total_kib") // 2 + swap_kib,
        "Committed_AS": total("memory_total_kib") // 50,
    }
    lines = [f"{name + ':':16s}{value:8d} kB" for name, value in rows.items()]
    lines += [f"{name + ':':16s}{pages:6d}" for name in ("HugePages_Total", "HugePages_Free")]
    lines += [f"{'Hugepagesize:':16s}{2048:8d} kB", f"{'Hugetlb:':16s}{pages * 2048:8d} kB"]
    return "\n".join(lines)
