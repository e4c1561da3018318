# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The judgement of a plan: what cannot be had, which is a Refusal, and what can but deserves a warning."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device import DevicePlan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host import BY_FRACTION, DEPENDS
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host_plan import HostPlan, asked_for
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import PlanRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count, format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import Attention
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.binding import STRICT
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.versions import VersionFacts


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


def judge_host(facts: VersionFacts, device: DevicePlan, host: HostPlan) -> Refusal | None:
    """Why the host pools cannot be had, or None. The remedy names the largest value that fits every bound."""
    if not host.pools:
        short = host.left_bytes is not None and host.left_bytes < host.reserve_bytes
        if short and host.held_by_device_bytes:
            return Refusal(
                "host_memory_short",
                f"On a CPU the KV cache and the weights take {format_gb(host.held_by_device_bytes)} of host memory; "
                f"{format_gb(host.available_bytes or 0)} are available, and {format_gb(host.reserve_bytes)} of them "
                "stay reserved.",
                "Lower max_total_tokens.",
                {"required_available_bytes": host.required_available_bytes, "available_bytes": host.available_bytes},
            )
        return None
    asked = asked_for(host)
    evidence: dict[str, object] = {
        "largest_ratio": host.largest_ratio,
        "largest_size_gb": host.largest_size_gb,
        "bytes_per_rank": host.bytes_per_rank,
        "bytes_total": host.bytes_total,
        "required_available_bytes": host.required_available_bytes,
        "available_bytes": host.available_bytes,
        "limits": {limit.name: limit.bytes_per_rank for limit in host.limits},
    }
    if host.tokens <= 0:
        return Refusal(
            "host_pool_empty",
            f"{asked} gives a host pool of no tokens.",
            "Ask for more, or set hicache.enabled to false.",
            evidence,
        )
    if facts.smaller_than_device_is_fatal and host.tokens <= device.max_total_num_tokens:
        return Refusal(
            "host_pool_below_device",
            f"{asked} gives {format_count(host.tokens)} host tokens, and SGLang {facts.version} insists on more than "
            f"the {format_count(device.max_total_num_tokens)} of the device.",
            "Set hicache.ratio above 1"
            + (f"; up to {host.largest_ratio} fits." if host.largest_ratio else "; no ratio fits this machine."),
            evidence,
        )
    if not host.limits or host.bytes_per_rank <= host.limits[0].bytes_per_rank:
        return None
    limit = host.limits[0]
    code = "host_memory_short"
    if limit.name.startswith("guard"):
        code = "guard_refuses"
    elif limit.name.startswith("numa"):
        code = "numa_node_short"
    message = (
        f"{asked} pins {format_gb(host.bytes_per_rank)} a rank, {format_gb(host.bytes_total)} with {host.ranks} "
        f"rank{'s' if host.ranks > 1 else ''}; the {limit.name} allows {format_gb(limit.bytes_per_rank)} a rank: "
        f"{limit.explanation}."
    )
    if host.largest_ratio is not None:
        size = f" (or hicache.size_gb {host.largest_size_gb})" if host.largest_size_gb else ""
        remedy = f"Set hicache.ratio to {host.largest_ratio} or less{size}."
    else:
        remedy = "No ratio fits: free host memory, lower max_total_tokens, or set hicache.enabled to false."
    if code == "guard_refuses" and facts.auto_sizes_host_pool and host.sizing.mode != BY_FRACTION:
        remedy += " With hicache.host_memory_fraction instead, the server books all pools against one snapshot."
    return Refusal(code, message, remedy, evidence)


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
    if host.available_bytes is None:
        found.append(
            Problem(
                "host_memory_unknown",
                "warning",
                "The available host memory is not known, so nothing was checked against it.",
                "Give topology.host.memory_available_bytes.",
            )
        )
    # Where the machine as a whole is short, its nodes are no news.
    if host.numa_binding != STRICT and (host.left_bytes or 0) >= 0:
        found.extend(
            Problem(
                "numa_node_overflows",
                "warning",
                f"The ranks of NUMA node {share.node} pin {format_gb(share.pinned_bytes)} where "
                f"{format_gb(share.available_bytes or 0)} are available; the rest comes from other nodes.",
                "Lower hicache.ratio, or spread the ranks over the nodes.",
            )
            for share in host.nodes
            if share.ranks and share.left_bytes is not None and share.left_bytes < 0
        )
    guard = host.guard
    if guard is not None and host.available_bytes is not None:
        usable = host.available_bytes - host.held_by_device_bytes
        if guard.variant == "A" and guard.verdict(usable) == DEPENDS:
            found.append(
                Problem(
                    "guard_blind",
                    "warning",
                    f"SGLang {facts.version} checks one rank's request at a time and would let this start; the pools "
                    "do not fit.",
                    "Do not rely on the server's own check.",
                )
            )
    if device.device == "cpu" and host.io_backend != "direct":
        found.append(
            Problem(
                "io_backend_needs_gpu",
                "warning",
                f"hicache.io_backend is {host.io_backend}, whose copies are GPU kernels, and the device is cpu.",
                "Set hicache.io_backend to direct and hicache.mem_layout to layer_first.",
            )
        )
    return found
