# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wrong or worth knowing about the host's memory, NUMA nodes and CPUs."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.joined import spelled
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Gpu, Host, NumaNode
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.problem_codes import problem


def node_problems(gpus: Sequence[Gpu], nodes: Sequence[NumaNode], host: Host) -> list[Problem]:
    """Memory, NUMA nodes and CPUs."""
    found = []
    homes = [node for node in nodes if node.has_cpus]
    if host.memory_total_bytes is None:
        found.append(problem("memory_not_reported", "There is no MemTotal in /proc/meminfo."))
    if not nodes:
        found.append(problem("numa_not_reported", "There are no NUMA nodes below /sys/devices/system/node."))
    unknown = [gpu.index for gpu in gpus if gpu.numa_node is None]
    if unknown and len(homes) > 1:
        found.append(
            problem("gpu_numa_unknown", f"GPU {spelled(unknown)}: NUMA node unknown, the host has {len(homes)}.")
        )
    used = {gpu.numa_node for gpu in gpus}
    if len(gpus) > 1 and len(homes) > 1 and len(used) == 1 and None not in used:
        only = next(node for node in used)
        found.append(problem("gpus_on_one_numa_node", f"All {len(gpus)} GPUs are on node {only} of {len(homes)}."))
    bare = [node.id for node in nodes if not node.has_cpus]
    if bare:
        found.append(problem("gpu_memory_as_numa_node", f"Node {spelled(bare)} has no CPUs."))
    if host.hugepages_total_bytes:
        found.append(problem("hugepages_reserved", f"{format_gb(host.hugepages_total_bytes)} lie in huge pages."))
    limit, total = host.cgroup_limit_bytes, host.memory_total_bytes
    if limit is not None and (total is None or limit < total):
        found.append(problem("cgroup_memory_limited", f"Control groups allow {format_gb(limit)}."))
    if host.cpus_offline:
        found.append(problem("cpus_offline", f"Offline CPUs: {host.cpus_offline}."))
    return found
