# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wrong or worth knowing about the host's memory, NUMA nodes and CPUs."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.joined import Joined, spelled
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.texts import (
    format_cpu_list,
    parse_cpu_list,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Host, NumaNode
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.problem_codes import problem

# Nodes differ by some per cent as the firmware and the kernel keep memory on one of them.
UNEVEN_FROM = 1.25


def node_problems(pairs: Sequence[Joined], nodes: Sequence[NumaNode], host: Host) -> list[Problem]:
    found = []
    if host.memory_total_bytes is None:
        found.append(problem("memory_not_reported", "There is no MemTotal in /proc/meminfo."))
    if not nodes:
        found.append(problem("numa_not_reported", "There are no NUMA nodes below /sys/devices/system/node."))
    return [
        *found,
        *_places_of_gpus(pairs, nodes),
        *_kinds_of_nodes(nodes),
        *_what_is_left_out(nodes, host),
        *_what_groups_allow(nodes, host),
        *_what_memory_is_taken(host),
    ]


def _listed(nodes: Sequence[NumaNode], verb: str) -> str:
    """The beginning of a sentence: C(NUMA node 3 is), C(NUMA nodes 3-5 are)."""
    one, several = verb.split("/")
    ids = format_cpu_list([node.id for node in nodes])
    return f"NUMA node {ids} {one}" if len(nodes) == 1 else f"NUMA nodes {ids} {several}"


def _places_of_gpus(pairs: Sequence[Joined], nodes: Sequence[NumaNode]) -> list[Problem]:
    found = []
    gpus = [one.gpu for one in pairs]
    homes = [node for node in nodes if node.has_cpus]
    known = {node.id for node in nodes}
    for one in pairs:
        named = one.pci.numa_node if one.pci else None
        if known and named is not None and named not in known:
            found.append(
                problem("gpu_numa_absent", f"GPU {one.gpu.index}: the kernel names node {named}, which is not online.")
            )
    absent = {one.gpu.index for one in pairs if one.pci and one.pci.numa_node is not None}
    unknown = [gpu.index for gpu in gpus if gpu.numa_node is None and gpu.index not in absent]
    if unknown and len(homes) > 1:
        found.append(
            problem("gpu_numa_unknown", f"GPU {spelled(unknown)}: NUMA node unknown, the host has {len(homes)}.")
        )
    used = {gpu.numa_node for gpu in gpus}
    if len(gpus) > 1 and len(homes) > 1 and len(used) == 1 and None not in used:
        only = next(node for node in used)
        found.append(problem("gpus_on_one_numa_node", f"All {len(gpus)} GPUs are on node {only} of {len(homes)}."))
    for node in nodes:
        if node.gpus and node.kind in ("cpus", "empty"):
            what = f"GPU {spelled(node.gpus)}: node {node.id} has no memory."
            found.append(problem("gpu_node_without_memory", what))
        if node.gpus and not node.has_cpus:
            found.append(problem("gpu_node_without_cpus", f"GPU {spelled(node.gpus)}: node {node.id} has no CPUs."))
    sizes = {node.id: node.memory_total_bytes for node in nodes if node.gpus and node.kind == "general"}
    told = {node: size for node, size in sizes.items() if size}
    if told and max(told.values()) > UNEVEN_FROM * min(told.values()):
        each = spelled(f"node {node} has {format_gb(size)}" for node, size in told.items())
        found.append(problem("gpu_nodes_uneven", f"The nodes of the GPUs differ: {each}."))
    return found


def _size(nodes: Sequence[NumaNode]) -> str:
    """C(64.00 GB); a size that cannot be read is no 0."""
    told = [node.memory_total_bytes for node in nodes if node.memory_total_bytes is not None]
    if not told:
        return "an unknown amount of memory"
    return f"{'at least ' if len(told) < len(nodes) else ''}{format_gb(sum(told))}"


def _kinds_of_nodes(nodes: Sequence[NumaNode]) -> list[Problem]:
    found = []
    of_gpus = [node for node in nodes if node.kind == "gpu_memory"]
    if of_gpus:
        what = f"{_listed(of_gpus, 'is/are')} memory of GPUs, {_size(of_gpus)} of what the host counts as its own."
        found.append(problem("gpu_memory_as_numa_node", what))
    bare = [node for node in nodes if node.kind == "memory"]
    if bare:
        found.append(problem("memory_without_cpus", f"{_listed(bare, 'has/have')} {_size(bare)} and no CPUs."))
    return found


def _what_is_left_out(nodes: Sequence[NumaNode], host: Host) -> list[Problem]:
    found = []
    if host.cpus_offline:
        found.append(problem("cpus_offline", f"Offline CPUs: {host.cpus_offline}."))
    if host.cpus_isolated:
        found.append(problem("cpus_isolated", f"Isolated CPUs: {host.cpus_isolated}."))
    if host.numa_nodes_offline:
        found.append(problem("numa_nodes_offline", f"Offline NUMA nodes: {host.numa_nodes_offline}."))
    housed = frozenset(cpu for node in nodes for cpu in parse_cpu_list(node.cpus))
    homeless = frozenset(parse_cpu_list(host.cpus)) - housed
    if nodes and homeless:
        what = f"CPUs {format_cpu_list(homeless)} are online and belong to no NUMA node that is."
        found.append(problem("cpus_without_node", what))
    return found


def _what_groups_allow(nodes: Sequence[NumaNode], host: Host) -> list[Problem]:
    found = []
    limit, total = host.cgroup_limit_bytes, host.memory_total_bytes
    if limit is not None and (total is None or limit < total):
        left = host.cgroup_available_bytes
        rest = f", of which {format_gb(left)} are left" if left is not None and left < limit else ""
        found.append(problem("cgroup_memory_limited", f"Control groups allow {format_gb(limit)}{rest}."))
    if host.cpus_usable is not None:
        what = f"Control groups allow the CPUs {host.cpus_usable} of {host.cpus or 'an unknown number'}."
        found.append(problem("cgroup_cpus_limited", what))
    cpus = len(parse_cpu_list(host.cpus_usable or host.cpus))
    if host.cpu_quota is not None and (not cpus or host.cpu_quota < cpus):
        what = f"Control groups allow as much CPU time as {host.cpu_quota:g} CPUs have."
        found.append(problem("cgroup_cpu_quota", what))
    if host.memory_nodes_usable is not None:
        what = f"Control groups allow memory of NUMA node {host.memory_nodes_usable} only."
        found.append(problem("cgroup_memory_nodes_limited", what))
    for node in nodes:
        no_cpus = host.cpus_usable is not None and node.has_cpus and not node.cpus_usable
        lacking = " and ".join(["memory"] * (not node.usable) + ["CPUs"] * no_cpus)
        if node.gpus and lacking:
            what = f"GPU {spelled(node.gpus)}: control groups allow no {lacking} of their node {node.id}."
            found.append(problem("cgroup_bars_gpu_node", what))
    return found


def _what_memory_is_taken(host: Host) -> list[Problem]:
    if not host.hugepages_total_bytes:
        return []
    return [problem("hugepages_reserved", f"{format_gb(host.hugepages_total_bytes)} lie in huge pages.")]
