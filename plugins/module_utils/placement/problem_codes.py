# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every problem that a placement can state: code, severity, what it means, what to do about it.

What cannot be placed at all is a refusal, with its own sentence and remedy.
"""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, ProblemCode

CODES: dict[str, ProblemCode] = {
    "gpus_mixed": ProblemCode(
        "warning",
        "The GPUs of an instance are of several kinds, so the smallest and slowest of them sets the pace.",
        "Give the instance fewer ranks, or name GPUs of one kind in gpus.",
    ),
    "gpus_in_use": ProblemCode(
        "warning",
        "Processes that are no SGLang server use a GPU of an instance, because no other was free or it was named.",
        "Stop the processes, or name other GPUs in gpus.",
    ),
    "gpus_unidentified": ProblemCode(
        "warning",
        "An instance got GPUs of which the name or the memory is not known, because no others were left.",
        "Find out why the driver does not tell it (gpu_topology_info), or name other GPUs in gpus.",
    ),
    "gpus_named_by_uuid": ProblemCode(
        "info",
        "A GPU of the machine cannot be used, which may shift CUDA's indexes, so the GPUs are named by UUID. SGLang's "
        "custom all-reduce reads indexes only and stays off, which costs some speed.",
        "Put the GPU that cannot be used right, or remove it, to have indexes again.",
    ),
    "numa_affinity_unknown": ProblemCode(
        "warning",
        "The NUMA node of a GPU is not known, so its rank is not bound and its host pool is not counted on a node.",
        "On a guest, ask for a virtual topology that exposes it, or state the node of each rank in numa_nodes.",
    ),
    "numa_home_elsewhere": ProblemCode(
        "warning",
        "The NUMA node of a GPU has no memory or no CPUs that a service may use, so its rank lives on another node.",
        "Populate or open that node (DIMMs, cpuset.mems, cpuset.cpus), or accept the longer way.",
    ),
    "numa_node_remote": ProblemCode(
        "warning",
        "A rank was told to live on another NUMA node than its GPU's, so its copies cross between nodes.",
        "Leave numa_nodes empty to keep each rank beside its GPU.",
    ),
    "numa_nodes_not_bound": ProblemCode(
        "warning",
        "NUMA nodes are stated for the ranks, and this release of SGLang cannot be told them.",
        "Use SGLang 0.5.2 or later, which has --numa-node, or leave numa_nodes empty.",
    ),
    "pool_exceeds_node": ProblemCode(
        "warning",
        "The host pools of the ranks on a NUMA node do not fit into the memory that is there.",
        "Make the pools as small as the message says, spread the ranks, or choose a binding under which they fit.",
    ),
    "pools_exceed_host": ProblemCode(
        "error",
        "The host pools of all ranks do not fit into the memory of the host, however they are bound.",
        "Make the pools as small as the message says, or seat fewer instances on this host.",
    ),
    "pool_memory_unknown": ProblemCode(
        "warning",
        "The available memory of a NUMA node is not known, so the host pools there are not checked.",
        "Give memory_available_bytes of the node, or plan from a survey of the host.",
    ),
}


def problem(code: str, message: str) -> Problem:
    """The problem C(code) with the message of the case at hand."""
    return CODES[code].of(code, message)
