# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can be wrong with a search for capacity: code, severity, what it means, what to do about it."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import ProblemCode

CODES: dict[str, ProblemCode] = {
    "boards_not_served": ProblemCode(
        "error",
        "SGLang serves no GPU of so low a compute capability.",
        "Take a newer board.",
    ),
    "context_exceeds_model": ProblemCode(
        "error",
        "The workload asks for longer contexts than the model takes.",
        "Lower workload.context_tokens, or take another model.",
    ),
    "gpu_counts_beyond_node": ProblemCode(
        "error",
        "An instance would have more GPUs than a node holds.",
        "Raise node_gpus, or lower gpu_counts.",
    ),
    "gpus_missing": ProblemCode(
        "error",
        "The machine has no GPU that a server can have.",
        "Give topology.gpus, or boards of the catalogue.",
    ),
    "host_cache_too_small": ProblemCode(
        "error",
        "The host tier keeps fewer tokens than the workload asks for.",
        "Give the host more memory, or lower workload.host_cache_tokens.",
    ),
    "host_memory_ambiguous": ProblemCode(
        "error",
        "host_memory_available_bytes is given beside a topology, which tells it itself.",
        "Set topology.host.memory_available_bytes.",
    ),
    "layouts_excluded": ProblemCode(
        "error",
        "No layout of the GPUs is allowed; the message tells the first of the reasons.",
        "Do what the message says.",
    ),
    "machines_ambiguous": ProblemCode(
        "error",
        "A topology and boards are both given.",
        "Give one of the two.",
    ),
    "models_missing": ProblemCode(
        "error",
        "No model is given.",
        "Give the facts of at least one model.",
    ),
    "observed_ambiguous": ProblemCode(
        "error",
        "Measurements are given for several models or machines, and belong to one.",
        "Give that model and the topology of that machine alone, or leave observed out.",
    ),
    "workload_too_large": ProblemCode(
        "error",
        "Fewer requests of this length can run at once than the workload asks for.",
        "Take more or larger GPUs, shorter contexts or fewer requests.",
    ),
}
