# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What capacity_options is asked: a workload, and the models and machines that may serve it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.capacity.layouts import Layout
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.options import (
    HICACHE_OPTIONS,
    OBSERVED_OPTIONS,
    SERVER_OPTIONS,
    SPECULATIVE_OPTIONS,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import (
    DEFAULT_HOST_RESERVE_BYTES,
    DEFAULT_MARGIN_BYTES,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

DEFAULT_COUNTS = (1, 2, 4, 8, 16)
DEFAULT_NODE_GPUS = 8

# What can be asked of a server before there is one; its layout and its GPUs are what is weighed.
_SERVER = (
    "page_size",
    "kv_cache_dtype",
    "dtype",
    "max_total_tokens",
    "mem_fraction_static",
    "mem_fraction_auto",
    "leave_bytes",
    "max_running_requests",
    "chunked_prefill_size",
    "context_length",
    "attention_backend",
    "extra_arguments",
)
_HICACHE = (
    "enabled",
    "ratio",
    "size_gb",
    "host_memory_fraction",
    "auto",
    "leave_bytes",
    "target_tokens",
    "io_backend",
    "mem_layout",
    "write_policy",
)

# What is held by the running instance is none of a capacity's.
_OBSERVED = tuple(name for name in OBSERVED_OPTIONS if name != "own_pinned_bytes")
_LAYOUT = ("tensor_parallel_size", "pipeline_parallel_size", "attention_data_parallel_size")

WORKLOAD_OPTIONS: dict[str, Any] = {
    "context_tokens": {"type": "int", "required": True},
    "concurrent_requests": {"type": "int", "default": 1},
    "host_cache_tokens": {"type": "int"},
}
ARGUMENT_SPEC: dict[str, Any] = {
    "sglang_version": {"type": "str", "required": True},
    "models": {"type": "list", "elements": "dict", "required": True},
    "workload": {"type": "dict", "options": WORKLOAD_OPTIONS, "required": True},
    "topology": {"type": "dict"},
    "boards": {"type": "list", "elements": "str"},
    "gpu_counts": {"type": "list", "elements": "int", "default": list(DEFAULT_COUNTS)},
    "node_gpus": {"type": "int", "default": DEFAULT_NODE_GPUS},
    "host_memory_available_bytes": {"type": "int"},
    "server": {
        "type": "dict",
        "options": {name: SERVER_OPTIONS[name] for name in _SERVER},
        "default": {},
    },
    "hicache": {"type": "dict", "options": {name: HICACHE_OPTIONS[name] for name in _HICACHE}, "default": {}},
    "speculative": {"type": "dict", "options": SPECULATIVE_OPTIONS},
    "observed": {"type": "dict", "options": {name: OBSERVED_OPTIONS[name] for name in _OBSERVED}},
    "observed_layout": {
        "type": "dict",
        "options": {name: {"type": "int", "default": 1} for name in _LAYOUT},
    },
    "margin_bytes": {"type": "int", "default": DEFAULT_MARGIN_BYTES},
    "host_reserve_bytes": {"type": "int", "default": DEFAULT_HOST_RESERVE_BYTES},
}


@dataclass(frozen=True)
class Workload:
    """C(context_tokens) are prompt and output of one request; C(host_cache_tokens) those that the host has to keep."""

    context_tokens: int
    concurrent_requests: int = 1
    host_cache_tokens: int | None = None


@dataclass(frozen=True)
class CapacityRequest:
    """C(common) are the arguments of memory_plan that every option shares; C(topology) is None where boards are asked
    for. What was C(observed) holds for one layout."""

    models: tuple[Mapping[str, Any], ...]
    workload: Workload
    topology: Mapping[str, Any] | None
    boards: tuple[str, ...] | None
    counts: tuple[int, ...]
    host_memory_available_bytes: int | None
    common: Mapping[str, Any] = field(default_factory=dict)
    observed: Mapping[str, Any] = field(default_factory=dict)
    observed_layout: Layout | None = None

    def observed_of(self, layout: Layout) -> Mapping[str, Any]:
        """What was measured, for the layout that it was measured with, and nothing for the others."""
        return self.observed if layout == self.observed_layout else {}


def capacity_request(arguments: Mapping[str, Any]) -> CapacityRequest:
    """A request out of validated module arguments."""
    if not arguments["models"]:
        raise Refusal("models_missing", "models is empty.", "Give the facts of at least one model.")
    topology, boards = arguments.get("topology"), arguments.get("boards")
    if topology is not None and boards is not None:
        raise Refusal(
            "machines_ambiguous",
            "topology and boards are both given.",
            "Give the topology of a machine to learn what fits on it, or boards to learn how many of them are needed.",
        )
    observed = {key: value for key, value in (arguments.get("observed") or {}).items() if value not in (None, [])}
    if observed and (topology is None or len(arguments["models"]) > 1):
        raise Refusal(
            "observed_ambiguous",
            "observed is given, and what was measured belongs to one model on one machine.",
            "Give the topology of that machine and that model alone, or leave observed out.",
        )
    layout = {key: value for key, value in (arguments.get("observed_layout") or {}).items() if value is not None}
    memory = arguments.get("host_memory_available_bytes")
    if topology is not None and memory is not None:
        raise Refusal(
            "host_memory_ambiguous",
            "host_memory_available_bytes is given beside topology.",
            "It is the host's of a machine made of boards; set topology.host.memory_available_bytes instead.",
        )
    workload = Workload(**{key: value for key, value in arguments["workload"].items() if value is not None})
    node_gpus = arguments.get("node_gpus") or DEFAULT_NODE_GPUS
    counts = arguments.get("gpu_counts") or DEFAULT_COUNTS
    for name, value in (
        ("workload.context_tokens", workload.context_tokens),
        ("workload.concurrent_requests", workload.concurrent_requests),
        ("workload.host_cache_tokens", workload.host_cache_tokens),
        ("host_memory_available_bytes", memory),
        ("node_gpus", node_gpus),
        *(("gpu_counts", count) for count in counts),
    ):
        if value is not None and value < 1:
            raise Refusal(
                "value_not_positive",
                f"{name} is {value}.",
                "Expected a whole number above 0.",
                {"option": name, "value": value},
            )
    within = tuple(sorted({count for count in counts if count <= node_gpus}))
    if not within:
        raise Refusal(
            "gpu_counts_beyond_node",
            f"gpu_counts is {', '.join(str(count) for count in counts)}, and a node holds {node_gpus} GPUs.",
            "Raise node_gpus: one instance is planned within one node.",
        )
    return CapacityRequest(
        models=tuple(arguments["models"]),
        workload=workload,
        topology=topology,
        boards=None if boards is None else tuple(boards),
        counts=within,
        host_memory_available_bytes=memory,
        common={
            key: arguments[key]
            for key in ("sglang_version", "server", "hicache", "speculative", "margin_bytes", "host_reserve_bytes")
            if arguments.get(key) is not None
        },
        observed=observed,
        observed_layout=Layout(**{name: layout.get(name, 1) for name in _LAYOUT}) if observed else None,
    )
