# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a plan is asked for: the machine, the model, the server and its HiCache, as frozen values.

The mappings that come in are those of the documented options (plugins/modules/memory_plan.py); the shapes of
C(model) and C(topology) are those that model_info and gpu_topology_info return, of which a subset is enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.environment import checked_environment
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.goals.threshold import DEFAULT_CHANGE_THRESHOLD
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.measured.observation import (
    LastStart,
    last_start_of,
    with_hand_given,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.measured.settings import settings_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request_checks import (
    check_numbers,
    check_observed,
)
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
    environment: Mapping[str, str] = field(default_factory=dict)  # see environment.py

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
    # Where the pools lie and how they are populated; see host_allocation.py.
    hugepage_size: str | None = None
    parallel_alloc_threads: int | None = None


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
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlanRequest:
    sglang_version: str
    model: ModelFacts
    machine: MachineFacts
    server: ServerRequest
    hicache: HiCacheRequest
    speculative: SpeculativeRequest | None = None
    observed: Observed = Observed()
    settings: Mapping[str, Any] = field(default_factory=dict)
    last_start: LastStart | None = None
    change_threshold: float = DEFAULT_CHANGE_THRESHOLD
    margin_bytes: int = DEFAULT_MARGIN_BYTES
    host_reserve_bytes: int = DEFAULT_HOST_RESERVE_BYTES
    allow_oversubscription: bool = False


def _change_threshold(arguments: Mapping[str, Any]) -> float:
    given = arguments.get("change_threshold")
    threshold = DEFAULT_CHANGE_THRESHOLD if given is None else float(given)
    if not 0 <= threshold < 1:
        raise Refusal(
            "change_threshold_out_of_range",
            f"change_threshold is {threshold:g}.",
            "Expected a share of the tokens, 0 or more and below 1, for example 0.02.",
            {"change_threshold": threshold},
        )
    return threshold


def plan_request(arguments: Mapping[str, Any]) -> PlanRequest:
    """A request out of validated module arguments; keys that are null keep their defaults."""

    def given(name: str) -> dict[str, Any]:
        return {key: value for key, value in (arguments.get(name) or {}).items() if value is not None}

    machine = machine_facts(arguments.get("topology") or {})
    check_numbers(arguments)
    last_start = last_start_of(arguments.get("ledger") or {}, arguments)
    if last_start is not None:
        merged = with_hand_given(last_start.observed, arguments.get("observed") or {})
        arguments = {**arguments, "observed": merged}
    check_observed(arguments.get("observed") or {}, machine)
    server = given("server")
    for name in ("gpus", "numa_nodes"):
        if name in server:
            server[name] = tuple(server[name])
    server["environment"] = checked_environment(server.get("environment") or {}, server.get("device", "cuda"))
    hicache, observed = given("hicache"), given("observed")
    if "assumptions" in observed:
        observed["assumptions"] = tuple(observed["assumptions"])
    speculative = given("speculative")
    if isinstance(speculative.get("model"), Mapping):
        speculative["model"] = model_facts(speculative["model"], may_draft=True)
    extra = {
        key: int(arguments[key]) for key in ("margin_bytes", "host_reserve_bytes") if arguments.get(key) is not None
    }
    return PlanRequest(
        sglang_version=str(arguments["sglang_version"]),
        model=model_facts(arguments["model"]),
        machine=machine,
        server=ServerRequest(**server),
        hicache=HiCacheRequest(**hicache),
        speculative=SpeculativeRequest(**speculative) if speculative else None,
        observed=Observed(**observed),
        settings=settings_of(arguments),
        last_start=last_start,
        change_threshold=_change_threshold(arguments),
        allow_oversubscription=bool(arguments.get("allow_oversubscription", False)),
        **extra,
    )
