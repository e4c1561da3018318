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

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import ModelFacts, model_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import MachineFacts, machine_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

DEFAULT_MARGIN_BYTES = 2 * GIB
DEFAULT_HOST_RESERVE_BYTES = 10 * GIB


@dataclass(frozen=True)
class ServerRequest:
    device: str = "cuda"
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    attention_data_parallel_size: int = 1
    expert_parallel_size: int = 1
    page_size: int | None = None
    kv_cache_dtype: str = "auto"
    dtype: str = "auto"
    max_total_tokens: int | None = None
    mem_fraction_static: float | None = None
    # Instead of a fraction: the largest safe one, what is to stay idle of each GPU, or the tokens that are wanted.
    mem_fraction_auto: bool = False
    leave_bytes: int | None = None
    target_tokens: int | None = None
    max_running_requests: int | None = None
    chunked_prefill_size: int | None = None
    context_length: int | None = None
    attention_backend: str | None = None
    gpus: tuple[int, ...] = ()
    numa_nodes: tuple[int, ...] = ()
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
    # Instead of these: the largest safe pool, what is to stay available on the host, or the tokens that are wanted.
    auto: bool = False
    leave_bytes: int | None = None
    target_tokens: int | None = None
    io_backend: str | None = None
    mem_layout: str | None = None
    write_policy: str | None = None


@dataclass(frozen=True)
class SpeculativeRequest:
    """Speculative decoding; C(model) are the facts of the draft, None where the target's own layers draft."""

    algorithm: str
    model: ModelFacts | None = None
    model_path: str | None = None
    num_steps: int | None = None
    eagle_topk: int | None = None
    num_draft_tokens: int | None = None


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
    machine: MachineFacts
    server: ServerRequest
    hicache: HiCacheRequest
    speculative: SpeculativeRequest | None = None
    observed: Observed = Observed()
    margin_bytes: int = DEFAULT_MARGIN_BYTES
    host_reserve_bytes: int = DEFAULT_HOST_RESERVE_BYTES
    allow_oversubscription: bool = False


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
    for name in ("gpus", "numa_nodes"):
        if name in server:
            server[name] = tuple(server[name])
    hicache = given("hicache")
    speculative = given("speculative")
    if isinstance(speculative.get("model"), Mapping):
        speculative["model"] = model_facts(speculative["model"])
    extra = {
        key: int(arguments[key]) for key in ("margin_bytes", "host_reserve_bytes") if arguments.get(key) is not None
    }
    return PlanRequest(
        sglang_version=str(arguments["sglang_version"]),
        model=model_facts(arguments["model"]),
        machine=machine_facts(arguments.get("topology") or {}),
        server=ServerRequest(**server),
        hicache=HiCacheRequest(**hicache),
        speculative=SpeculativeRequest(**speculative) if speculative else None,
        observed=Observed(**given("observed")),
        allow_oversubscription=bool(arguments.get("allow_oversubscription", False)),
        **extra,
    )
