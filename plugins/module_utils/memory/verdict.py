# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The judgement of a plan: what can be had but deserves a warning. Host pools are judged in host_verdict.py."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device import DevicePlan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_plan import HostPlan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_warnings import host_warnings
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import PlanRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count, format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import Attention
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import VersionFacts


def check_tensor_parallel(attention: Attention, tensor_parallel_size: int) -> None:
    """Heads divide evenly over the ranks, or ranks over the KV heads (SGLang asserts both)."""
    heads, kv_heads = attention.num_attention_heads, attention.num_kv_heads

    def even(ranks: int) -> bool:
        smaller, larger = sorted((kv_heads, ranks))
        # MLA has one latent head, whole on every rank.
        return heads % ranks == 0 and (attention.latent or larger % smaller == 0)

    if not even(tensor_parallel_size):
        fitting = [size for size in range(1, 2 * tensor_parallel_size) if even(size)]
        raise Refusal(
            "tensor_parallel_uneven",
            f"tensor_parallel_size {tensor_parallel_size} does not divide {heads} attention heads and {kv_heads} KV "
            "heads evenly.",
            f"Expected one of {', '.join(str(size) for size in fitting)}.",
            {"tensor_parallel_size": tensor_parallel_size, "fitting": fitting},
        )


def _above_budget(facts: VersionFacts, device: DevicePlan) -> list[Problem]:
    """Pools that take more than the release itself counts for them, as rows with scales do to 0.5.16."""
    budget, base, fraction = device.budget_bytes, device.fraction_base_bytes, device.mem_fraction_static
    if budget is None or device.kv_pool_bytes <= budget:
        return []
    more = device.kv_pool_bytes - budget
    remedy = "Lower mem_fraction_static, or take a release that counts what it allocates."
    if base is not None and fraction is not None:
        # The pools shrink with their budget, by as much as they are above it.
        lower = math.floor((fraction - budget * more / device.kv_pool_bytes / base) * 1000) / 1000
        if lower > 0:
            remedy = f"Set mem_fraction_static to {lower:g}, or take a release that counts what it allocates."
    beyond = device.reserved_bytes is not None and more > device.reserved_bytes
    return [
        Problem(
            "pools_exceed_budget",
            "error" if beyond else "warning",
            f"SGLang {facts.version} counts less for a token than it allocates: the pools take "
            f"{format_gb(device.kv_pool_bytes)} of each GPU where {format_gb(budget)} are meant for them, and the "
            f"{format_gb(more)} more come out of "
            + ("a reserve that is smaller." if beyond else "what is kept for activations and graphs."),
            remedy,
        )
    ]


def warnings_of(
    request: PlanRequest, facts: VersionFacts, device: DevicePlan, host: HostPlan, placed: Sequence[Problem]
) -> list[Problem]:
    """What an operator should know of a plan that can be had; C(placed) is what its placement states."""
    found = list(placed)
    if not facts.exact:
        found.append(
            Problem(
                "version_not_verified",
                "warning",
                f"SGLang {facts.version} is planned by the rules read from "
                + ("its source" if facts.examined else f"the source of {facts.version.base}")
                + "; they were not held against a running server of that release.",
                "Compare the first start with this plan.",
            )
        )
    cap = request.server.max_total_tokens
    if device.device == "cuda" and cap is not None and cap > device.max_total_num_tokens + device.page_size:
        found.append(
            Problem(
                "token_cap_not_reached",
                "warning",
                f"max_total_tokens is {format_count(cap)}, and the memory holds "
                f"{format_count(device.max_total_num_tokens)}.",
                "SGLang takes the smaller; drop the cap or raise mem_fraction_static.",
            )
        )
    found += _above_budget(facts, device)
    context = request.server.context_length
    if context is not None and context > device.max_total_num_tokens:
        found.append(
            Problem(
                "context_exceeds_cache",
                "warning",
                f"context_length is {format_count(context)}, and the KV cache holds "
                f"{format_count(device.max_total_num_tokens)} tokens.",
                "A request of full length cannot be served; lower context_length or make room.",
            )
        )
    if not host.pools:
        return found
    found += host_warnings(request.machine, facts, host)
    if device.device == "cpu" and host.io_backend != "direct":
        found.append(
            Problem(
                "io_backend_needs_gpu",
                "warning",
                f"hicache.io_backend is {host.io_backend}, whose copies are GPU kernels, and the device is cpu.",
                "Set hicache.io_backend to direct, and hicache.mem_layout to layer_first (page_first_direct for a "
                "model with states, or with values of another width than its keys).",
            )
        )
    return found
