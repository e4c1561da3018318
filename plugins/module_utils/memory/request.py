# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a plan is asked for: the machine, the model, the server and its HiCache, as frozen values.

The mappings that come in are those of the documented options (plugins/modules/memory_plan.py); the shapes of
C(model) and C(topology) are those that model_info and gpu_topology_info return, of which a subset is enough.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.architecture import ModelFacts, model_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

DEFAULT_MARGIN_BYTES = 2 * GIB
DEFAULT_HOST_RESERVE_BYTES = 10 * GIB


@dataclass(frozen=True)
class Gpu:
    index: int
    name: str | None
    memory_total_bytes: int | None
    numa_node: int | None
    compute_capability: tuple[int, int] | None


@dataclass(frozen=True)
class NumaNode:
    id: int
    memory_total_bytes: int | None
    memory_available_bytes: int | None


@dataclass(frozen=True)
class Machine:
    """The part of a topology that a memory plan needs."""

    gpus: tuple[Gpu, ...]
    nodes: tuple[NumaNode, ...]
    memory_total_bytes: int | None
    memory_available_bytes: int | None
    cgroup_limit_bytes: int | None
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True)
class ServerRequest:
    device: str = "cuda"
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    page_size: int | None = None
    kv_cache_dtype: str = "auto"
    dtype: str = "auto"
    max_total_tokens: int | None = None
    mem_fraction_static: float | None = None
    chunked_prefill_size: int | None = None
    context_length: int | None = None
    attention_backend: str | None = None
    gpus: tuple[int, ...] = ()
    host: str | None = None
    port: int | None = None
    served_model_name: str | None = None
    model_path: str | None = None
    enable_metrics: bool = True
    extra_arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ranks(self) -> int:
        return self.tensor_parallel_size * self.pipeline_parallel_size


@dataclass(frozen=True)
class HiCacheRequest:
    enabled: bool = True
    ratio: float | None = None
    size_gb: int | None = None
    host_memory_fraction: float | None = None
    io_backend: str | None = None
    mem_layout: str | None = None
    write_policy: str | None = None


@dataclass(frozen=True)
class Observed:
    """Measured values of an earlier start of the same instance; each replaces an estimate."""

    kv_pool_bytes: int | None = None
    mem_fraction_static: float | None = None
    available_before_load_bytes: int | None = None
    available_after_load_bytes: int | None = None
    idle_bytes_per_gpu: int | None = None
    own_pinned_bytes: int | None = None
    pin_bytes_per_second: float | None = None
    load_seconds: float | None = None
    rest_seconds: float | None = None


@dataclass(frozen=True)
class PlanRequest:
    sglang_version: str
    model: ModelFacts
    machine: Machine
    server: ServerRequest
    hicache: HiCacheRequest
    observed: Observed = Observed()
    margin_bytes: int = DEFAULT_MARGIN_BYTES
    host_reserve_bytes: int = DEFAULT_HOST_RESERVE_BYTES
    allow_oversubscription: bool = False


def _integer(value: Any, where: str) -> int | None:
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


def _capability(value: Any) -> tuple[int, int] | None:
    """C("12.0"), 12.0 or [12, 0]."""
    if value is None:
        return None
    parts = value if isinstance(value, (list, tuple)) else str(value).split(".")
    try:
        return int(parts[0]), int(parts[1]) if len(parts) > 1 else 0
    except (TypeError, ValueError, IndexError):
        return None


def _mappings(value: Any, where: str) -> list[Mapping[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, (list, tuple)) or any(not isinstance(item, Mapping) for item in value):
        raise Refusal(
            "value_malformed", f"{where} is not a list of mappings.", "Expected what gpu_topology_info returns."
        )
    return list(value)


def machine_from_topology(topology: Mapping[str, Any]) -> Machine:
    """The planner's part of what gpu_topology_info returns, or of the same on paper."""
    gpus = []
    for position, gpu in enumerate(_mappings(topology.get("gpus"), "topology.gpus")):
        index = _integer(gpu.get("index"), f"topology.gpus[{position}].index")
        node = _integer(gpu.get("numa_node"), f"topology.gpus[{position}].numa_node")
        gpus.append(
            Gpu(
                index=position if index is None else index,
                name=gpu.get("name"),
                memory_total_bytes=_integer(
                    gpu.get("memory_total_bytes"), f"topology.gpus[{position}].memory_total_bytes"
                ),
                # A guest's -1 means that the kernel does not know.
                numa_node=None if node == -1 else node,
                compute_capability=_capability(gpu.get("compute_capability")),
            )
        )
    nodes = []
    for position, entry in enumerate(_mappings(topology.get("numa_nodes"), "topology.numa_nodes")):
        where = f"topology.numa_nodes[{position}]"
        identity = _integer(entry.get("id"), f"{where}.id")
        nodes.append(
            NumaNode(
                id=position if identity is None else identity,
                memory_total_bytes=_integer(entry.get("memory_total_bytes"), f"{where}.memory_total_bytes"),
                memory_available_bytes=_integer(entry.get("memory_available_bytes"), f"{where}.memory_available_bytes"),
            )
        )
    _check_machine(gpus, nodes)
    host = topology.get("host") or {}
    if not isinstance(host, Mapping):
        raise Refusal("value_malformed", "topology.host is not a mapping.", "Expected what gpu_topology_info returns.")
    return Machine(
        gpus=tuple(sorted(gpus, key=lambda gpu: gpu.index)),
        nodes=tuple(sorted(nodes, key=lambda node: node.id)),
        memory_total_bytes=_integer(host.get("memory_total_bytes"), "topology.host.memory_total_bytes"),
        memory_available_bytes=_integer(host.get("memory_available_bytes"), "topology.host.memory_available_bytes"),
        cgroup_limit_bytes=_integer(host.get("cgroup_limit_bytes"), "topology.host.cgroup_limit_bytes"),
        assumptions=tuple(str(text) for text in topology.get("assumptions") or ()),
    )


def _check_machine(gpus: list[Gpu], nodes: list[NumaNode]) -> None:
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


def _check_numbers(arguments: Mapping[str, Any]) -> None:
    """What is measured or reserved is neither negative nor endless, and agrees with itself."""
    observed = arguments.get("observed") or {}
    numbers = {
        **{f"observed.{key}": value for key, value in observed.items()},
        **{key: arguments.get(key) for key in ("margin_bytes", "host_reserve_bytes")},
        **{f"hicache.{key}": value for key, value in (arguments.get("hicache") or {}).items()},
        "server.mem_fraction_static": (arguments.get("server") or {}).get("mem_fraction_static"),
    }
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        if isinstance(value, float) and not math.isfinite(value):
            raise Refusal("value_malformed", f"{name} is {value}.", "Expected a finite number, or null.")
        if value < 0 and not name.startswith(("hicache.", "server.")):
            raise Refusal("value_negative", f"{name} is {value}.", "Expected 0 or more, or null.")
    for name in ("observed.mem_fraction_static", "server.mem_fraction_static"):
        fraction = numbers.get(name)
        if fraction is not None and not 0 < float(fraction) < 1:
            raise Refusal(
                "mem_fraction_static_out_of_range",
                f"{name} is {fraction}.",
                "Expected a share between 0 and 1, or null.",
            )
    for name in ("observed.pin_bytes_per_second", "observed.kv_pool_bytes"):
        if numbers.get(name) == 0:
            raise Refusal("value_malformed", f"{name} is 0.", "Expected a number above 0, or null.")
    before = observed.get("available_before_load_bytes")
    for name in ("available_after_load_bytes", "idle_bytes_per_gpu", "kv_pool_bytes"):
        part = observed.get(name)
        if before is not None and part is not None and part > before:
            raise Refusal(
                "observed_inconsistent",
                f"observed.{name} is {part} bytes, more than observed.available_before_load_bytes with {before} bytes.",
                "Expected a part of what was available before loading.",
            )


def plan_request(arguments: Mapping[str, Any]) -> PlanRequest:
    """A request out of validated module arguments; keys that are null keep their defaults."""

    def given(name: str) -> dict[str, Any]:
        return {key: value for key, value in (arguments.get(name) or {}).items() if value is not None}

    _check_numbers(arguments)
    server = given("server")
    if "gpus" in server:
        server["gpus"] = tuple(server["gpus"])
    hicache = given("hicache")
    extra = {
        key: int(arguments[key]) for key in ("margin_bytes", "host_reserve_bytes") if arguments.get(key) is not None
    }
    return PlanRequest(
        sglang_version=str(arguments["sglang_version"]),
        model=model_facts(arguments["model"]),
        machine=machine_from_topology(arguments.get("topology") or {}),
        server=ServerRequest(**server),
        hicache=HiCacheRequest(**hicache),
        observed=Observed(**given("observed")),
        allow_oversubscription=bool(arguments.get("allow_oversubscription", False)),
        **extra,
    )
