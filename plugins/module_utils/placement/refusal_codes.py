# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What cannot be placed at all: code, severity, what it means, what to do about it."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import ProblemCode

CODES: dict[str, ProblemCode] = {
    "gpu_count_mismatch": ProblemCode(
        "error",
        "The GPUs that an instance names are not as many different ones as it has ranks.",
        "Name one GPU a rank, or leave gpus empty.",
    ),
    "gpu_taken": ProblemCode(
        "error",
        "Two instances name the same GPU.",
        "Give each GPU to one instance.",
    ),
    "gpu_unknown": ProblemCode(
        "error",
        "An instance names a GPU that the machine does not have.",
        "Name GPUs that exist, by index, UUID or PCI address.",
    ),
    "gpu_unusable": ProblemCode(
        "error",
        "An instance names a GPU that cannot be used.",
        "Name another one, or put it right first: see the problems that gpu_topology_info states.",
    ),
    "gpus_too_few": ProblemCode(
        "error",
        "More GPUs are needed than are free on the machine.",
        "Ask for fewer ranks, or find out why GPUs are not free.",
    ),
    "instance_named_twice": ProblemCode(
        "error",
        "Two instances have the same name.",
        "Give each a name of its own.",
    ),
    "numa_node_count_mismatch": ProblemCode(
        "error",
        "numa_nodes of an instance has not one entry a rank.",
        "State one NUMA node a rank, or leave it empty.",
    ),
    "numa_node_missing": ProblemCode(
        "error",
        "A GPU lies on a NUMA node that the topology does not hold.",
        "Add the node, or correct the GPU's numa_node.",
    ),
    "numa_node_unfit": ProblemCode(
        "error",
        "An instance names a NUMA node without CPUs or memory that a service may use.",
        "Name one of the nodes that the message lists.",
    ),
    "topology_ambiguous": ProblemCode(
        "error",
        "Something that has to be unique stands twice in the topology.",
        "State each once.",
    ),
    "topology_inconsistent": ProblemCode(
        "error",
        "A part is larger than its whole in the topology.",
        "Correct the two figures.",
    ),
}
