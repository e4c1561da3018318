# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The launch resolver: from a request to the flags of C(sglang.launch_server), as one mapping for its --config file.

Only what was asked for is emitted, except where leaving a value to the server would make the plan a guess. What the
server would silently rewrite is refused, with what it would become: transfer.py. Flags that pass through are settled by
extra_arguments.py.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host import (
    BY_FRACTION,
    BY_RATIO,
    BY_SIZE,
    DISABLED,
    Sizing,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import (
    HiCacheRequest,
    ServerRequest,
    SpeculativeRequest,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.choice import refuse_unknown_choice
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.flags import choices_of, has_flag
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import VersionFacts


def resolve_sizing(facts: VersionFacts, hicache: HiCacheRequest) -> Sizing:
    """Which of ratio, size and fraction sizes the host pool; more than one is refused."""
    if not hicache.enabled:
        return Sizing(DISABLED)
    given = {
        "hicache.ratio": hicache.ratio,
        "hicache.size_gb": hicache.size_gb,
        "hicache.host_memory_fraction": hicache.host_memory_fraction,
    }
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise Refusal(
            "hicache_sizing_ambiguous",
            f"{' and '.join(named)} are both given ({', '.join(f'{name} {given[name]}' for name in named)}).",
            "SGLang would silently let one win: a size over a ratio, either over a fraction. Keep one.",
            {name: given[name] for name in named},
        )
    if hicache.ratio is not None:
        if hicache.ratio <= 0:
            raise Refusal(
                "hicache_ratio_not_positive",
                f"hicache.ratio is {hicache.ratio:g}.",
                "Expected a number above 0, for example 2.0; set hicache.enabled to false to do without HiCache.",
                {"ratio": hicache.ratio},
            )
        return Sizing(BY_RATIO, ratio=hicache.ratio)
    if hicache.size_gb is not None:
        if hicache.size_gb <= 0:
            raise Refusal(
                "hicache_size_not_positive",
                f"hicache.size_gb is {hicache.size_gb}.",
                "Expected a whole number of GB (1e9 bytes) a rank above 0; SGLang would ignore this one and use the "
                "ratio.",
                {"size_gb": hicache.size_gb},
            )
        return Sizing(BY_SIZE, size_gb=hicache.size_gb)
    fraction = hicache.host_memory_fraction
    if fraction is not None and not facts.auto_sizes_host_pool:
        raise Refusal(
            "hicache_fraction_unsupported",
            f"hicache.host_memory_fraction is given, and SGLang {facts.version} has no --hicache-host-memory-fraction.",
            "It begins with SGLang 0.5.21. Set hicache.ratio or hicache.size_gb.",
        )
    if fraction is not None and not 0 < fraction <= 1:
        raise Refusal(
            "hicache_fraction_out_of_range",
            f"hicache.host_memory_fraction is {fraction:g}.",
            "Expected a number above 0 and not above 1, for example 0.8.",
            {"host_memory_fraction": fraction},
        )
    if facts.auto_sizes_host_pool:
        return Sizing(BY_FRACTION, fraction=fraction or facts.default_host_memory_fraction)
    return Sizing(BY_RATIO, ratio=facts.default_ratio)


def check_server(facts: VersionFacts, server: ServerRequest) -> None:
    """What the server would refuse or misread."""
    refuse_unknown_choice("server.device", server.device, ("cuda", "cpu"), facts)
    refuse_unknown_choice("server.kv_cache_dtype", server.kv_cache_dtype, facts.kv_cache_dtypes, facts)
    for option, named in (("dtype", server.dtype), ("attention_backend", server.attention_backend)):
        choices = choices_of(option.replace("_", "-"), facts.version)
        if named is not None and choices is not None:
            refuse_unknown_choice(f"server.{option}", named, choices, facts)
    for option, value in (
        ("tensor_parallel_size", server.tensor_parallel_size),
        ("pipeline_parallel_size", server.pipeline_parallel_size),
        ("page_size", server.page_size),
        ("max_total_tokens", server.max_total_tokens),
        ("context_length", server.context_length),
    ):
        if value is not None and value < 1:
            raise Refusal(
                "value_not_positive",
                f"server.{option} is {value}.",
                "Expected a whole number above 0.",
                {"option": option, "value": value},
            )
    if server.port is not None and not 1 <= server.port <= 65535:
        raise Refusal(
            "port_out_of_range", f"server.port is {server.port}.", "Expected 1 to 65535.", {"port": server.port}
        )
    chunk = server.chunked_prefill_size
    if chunk is not None and chunk != -1 and chunk < 1:
        raise Refusal(
            "value_not_positive",
            f"server.chunked_prefill_size is {chunk}.",
            "Expected a number of tokens above 0, or -1 to switch chunking off.",
            {"option": "chunked_prefill_size", "value": chunk},
        )
    if server.device == "cpu" and server.gpus:
        raise Refusal("gpus_on_cpu", "server.gpus is given and server.device is cpu.", "Drop one of the two.")


def release_problems(facts: VersionFacts) -> list[Problem]:
    """Why a release that can be planned cannot be started by this collection."""
    if facts.reads_config_file:
        return []
    return [
        Problem(
            "config_file_unsupported",
            "error",
            f"SGLang {facts.version} cannot read its arguments from a file.",
            "This collection starts servers with --config, which begins with SGLang 0.5.3; plan with this one only.",
        )
    ]


def resolve_arguments(
    facts: VersionFacts,
    server: ServerRequest,
    hicache: HiCacheRequest,
    sizing: Sizing,
    transfer: tuple[str | None, str | None],
    model_path: str | None,
    speculative: SpeculativeRequest | None = None,
) -> dict[str, Any]:
    """Flags without dashes and their values; the extra arguments of C(server) are settled already."""
    arguments: dict[str, Any] = {
        "model-path": model_path,
        "served-model-name": server.served_model_name,
        "host": server.host,
        "port": server.port,
        "device": server.device,
        "tp-size": server.tensor_parallel_size,
        "page-size": server.page_size,
        "kv-cache-dtype": None if server.kv_cache_dtype == "auto" else server.kv_cache_dtype,
        "dtype": None if server.dtype == "auto" else server.dtype,
        "max-total-tokens": server.max_total_tokens,
        "max-running-requests": server.max_running_requests,
        "mem-fraction-static": server.mem_fraction_static,
        "chunked-prefill-size": server.chunked_prefill_size,
        "context-length": server.context_length,
        "attention-backend": server.attention_backend,
        "enable-metrics": True if server.enable_metrics else None,
        **_parallel_arguments(facts, server),
        **_speculative_arguments(speculative),
    }
    if sizing.mode != DISABLED:
        backend, layout = transfer
        arguments["enable-hierarchical-cache"] = True
        arguments["hicache-ratio"] = sizing.ratio if sizing.mode == BY_RATIO else None
        arguments["hicache-size"] = sizing.size_gb if sizing.mode == BY_SIZE else None
        arguments["hicache-host-memory-fraction"] = sizing.fraction if sizing.mode == BY_FRACTION else None
        # With one of the pair given, the other is too: the server's own completion of it differs by release.
        stated = hicache.io_backend is not None or hicache.mem_layout is not None
        arguments["hicache-io-backend"] = backend if stated else None
        arguments["hicache-mem-layout"] = layout if stated else None
        arguments["hicache-write-policy"] = hicache.write_policy
    arguments.update(server.extra_arguments)
    return {flag: value for flag, value in arguments.items() if value is not None}


def _parallel_arguments(facts: VersionFacts, server: ServerRequest) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if server.pipeline_parallel_size > 1:
        found["pp-size"] = server.pipeline_parallel_size
    groups = server.attention_data_parallel_size
    if groups > 1:
        # The older pair is read by the command line of later releases, and refused by their configuration file.
        if has_flag("attn-dp-size", facts.version):
            found["attn-dp-size"] = groups
        else:
            found.update({"enable-dp-attention": True, "dp-size": groups})
    if server.expert_parallel_size > 1:
        found["ep-size"] = server.expert_parallel_size
        # Before there was a configuration file, experts were only divided under a switch.
        if not facts.reads_config_file:
            found["enable-ep-moe"] = True
    return found


def _speculative_arguments(speculative: SpeculativeRequest | None) -> dict[str, Any]:
    if speculative is None:
        return {}
    draft = speculative.model_path or (speculative.model.path if speculative.model is not None else None)
    return {
        "speculative-algorithm": speculative.algorithm.upper(),
        "speculative-draft-model-path": draft,
        "speculative-num-steps": speculative.num_steps,
        "speculative-eagle-topk": speculative.eagle_topk,
        "speculative-num-draft-tokens": speculative.num_draft_tokens,
    }
