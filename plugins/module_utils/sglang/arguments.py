# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The launch resolver: from a request to the flags of C(sglang.launch_server), as one mapping for its --config file.

Only what was asked for is emitted, except where leaving a value to the server would make the plan a guess. What the
server would silently rewrite is refused here, with what it would become.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host import (
    BY_FRACTION,
    BY_RATIO,
    BY_SIZE,
    DISABLED,
    Sizing,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import HiCacheRequest, ServerRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.versions import VersionFacts, flag_absence

# Flags that a plan decides, and the option that decides them.
OWNED_FLAGS = {
    "model-path": "server.model_path",
    "model": "server.model_path",
    "served-model-name": "server.served_model_name",
    "host": "server.host",
    "port": "server.port",
    "device": "server.device",
    "tp": "server.tensor_parallel_size",
    "tp-size": "server.tensor_parallel_size",
    "tensor-parallel-size": "server.tensor_parallel_size",
    "pp": "server.pipeline_parallel_size",
    "pp-size": "server.pipeline_parallel_size",
    "pipeline-parallel-size": "server.pipeline_parallel_size",
    "base-gpu-id": "server.gpus",
    "gpu-id-step": "server.gpus",
    "numa-node": "server.numa_nodes",
    "page-size": "server.page_size",
    "kv-cache-dtype": "server.kv_cache_dtype",
    "dtype": "server.dtype",
    "max-total-tokens": "server.max_total_tokens",
    "mem-fraction-static": "server.mem_fraction_static",
    "chunked-prefill-size": "server.chunked_prefill_size",
    "context-length": "server.context_length",
    "attention-backend": "server.attention_backend",
    "enable-metrics": "server.enable_metrics",
    "enable-hierarchical-cache": "hicache.enabled",
    "enable-hicache": "hicache.enabled",
    "hicache-ratio": "hicache.ratio",
    "hicache-size": "hicache.size_gb",
    "hicache-host-memory-fraction": "hicache.host_memory_fraction",
    "hicache-io-backend": "hicache.io_backend",
    "hicache-mem-layout": "hicache.mem_layout",
    "hicache-write-policy": "hicache.write_policy",
}
# Flags that change how much memory is taken or by whom, in ways that this release does not compute.
UNPLANNED_FLAGS = {
    "dp": "data parallelism multiplies the ranks",
    "dp-size": "data parallelism multiplies the ranks",
    "data-parallel-size": "data parallelism multiplies the ranks",
    "enable-dp-attention": "attention data parallelism divides the KV heads differently",
    "attn-dp-size": "attention data parallelism divides the KV heads differently",
    "attention-data-parallel-size": "attention data parallelism divides the KV heads differently",
    "dcp-size": "context parallelism divides the KV cache",
    "attn-cp-size": "context parallelism divides the KV cache",
    "attention-context-parallel-size": "context parallelism divides the KV cache",
    "nnodes": "several machines share the ranks",
    "node-rank": "several machines share the ranks",
    "disaggregation-mode": "prefill and decode are separate servers with other pools",
    "enable-unified-memory": "the pools are one",
    "enable-memory-saver": "the pools are virtual",
    "cpu-offload-gb": "weights live in host memory",
    "hicache-storage-backend": "a storage tier is not planned yet",
    "hicache-host-memory-mode": "a storage tier is not planned yet",
    "config": "the plan itself is the configuration file",
}
# Cannot be had together with HiCache (server_args.py).
EXCLUDES_HICACHE = frozenset({"disable-radix-cache", "enable-lmcache"})
SECRET_FLAGS = frozenset({"api-key", "admin-api-key"})
_FLAG = re.compile(r"[a-z0-9][a-z0-9-]*\Z")
DRAFT_FLAGS = frozenset(
    {"speculative-algorithm", "speculative-draft-model-path", "speculative-num-draft-tokens", "speculative-num-steps"}
)


def refuse_unknown_choice(option: str, value: str, choices: Iterable[str], facts: VersionFacts) -> None:
    known = list(choices)
    if value in known:
        return
    closest = difflib.get_close_matches(value, known, n=1)
    raise Refusal(
        "choice_unknown",
        f"{option} is '{value}', which SGLang {facts.version} does not know.",
        f"Expected one of {', '.join(known)}" + (f"; the closest is {closest[0]}." if closest else "."),
        {"option": option, "value": value, "choices": known},
    )


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


def resolve_transfer(facts: VersionFacts, hicache: HiCacheRequest) -> tuple[str | None, str | None]:
    """(io backend, memory layout) in force; pairs that the server would rewrite are refused."""
    backend, layout = hicache.io_backend, hicache.mem_layout
    if backend is not None:
        refuse_unknown_choice("hicache.io_backend", backend, facts.io_backends, facts)
    if layout is not None:
        refuse_unknown_choice("hicache.mem_layout", layout, facts.mem_layouts, facts)
    if hicache.write_policy is not None:
        refuse_unknown_choice("hicache.write_policy", hicache.write_policy, facts.write_policies, facts)
    in_force_backend = backend or facts.default_io_backend
    in_force_layout = layout or facts.default_mem_layout
    if in_force_backend == "direct" and in_force_layout == "page_first" and "page_first_direct" in facts.mem_layouts:
        if layout is not None:
            raise Refusal(
                "hicache_layout_rewritten",
                "hicache.mem_layout page_first does not go with io_backend direct: SGLang would switch to "
                "page_first_direct.",
                "Set hicache.mem_layout to page_first_direct or layer_first, or hicache.io_backend to kernel.",
                {"io_backend": "direct", "mem_layout": "page_first", "rewritten_mem_layout": "page_first_direct"},
            )
        return "direct", "page_first_direct"
    if in_force_backend == "kernel" and in_force_layout == "page_first_direct":
        if backend is not None:
            raise Refusal(
                "hicache_io_backend_rewritten",
                "hicache.io_backend kernel does not go with mem_layout page_first_direct: SGLang would switch to "
                "direct.",
                "Set hicache.io_backend to direct, or hicache.mem_layout to page_first.",
                {"io_backend": "kernel", "mem_layout": "page_first_direct", "rewritten_io_backend": "direct"},
            )
        return "direct", "page_first_direct"
    return in_force_backend, in_force_layout


def check_server(facts: VersionFacts, server: ServerRequest) -> None:
    """What the server would refuse or misread, and what this release does not plan."""
    if not facts.reads_config_file:
        raise Refusal(
            "config_file_unsupported",
            f"SGLang {facts.version} cannot read its arguments from a file.",
            "This collection starts servers with --config, which begins with SGLang 0.5.3.",
        )
    refuse_unknown_choice("server.device", server.device, ("cuda", "cpu"), facts)
    refuse_unknown_choice("server.kv_cache_dtype", server.kv_cache_dtype, facts.kv_cache_dtypes, facts)
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
    if server.pipeline_parallel_size != 1:
        raise Refusal(
            "pipeline_parallel_unplanned",
            f"server.pipeline_parallel_size is {server.pipeline_parallel_size}, and the layers' division over "
            "pipeline stages is not planned yet.",
            "Set it to 1.",
        )
    if server.device == "cpu" and server.gpus:
        raise Refusal("gpus_on_cpu", "server.gpus is given and server.device is cpu.", "Drop one of the two.")


def check_extra_arguments(facts: VersionFacts, server: ServerRequest, hicache_enabled: bool) -> list[Problem]:
    """Refuse extra flags that the plan owns or cannot follow; warn of those that are only half seen."""
    warnings: list[Problem] = []
    for key in server.extra_arguments:
        flag = flag_name(key)
        if not _FLAG.match(flag):
            raise Refusal(
                "extra_argument_malformed",
                f"extra_arguments holds {key!r}, which is no flag.",
                "Expected the name of a flag without its leading dashes, such as max-running-requests.",
                {"flag": flag},
            )
        if flag in SECRET_FLAGS:
            raise Refusal(
                "secret_in_arguments",
                f"extra_arguments holds {key}: SGLang prints its arguments in the journal and under /server_info.",
                "Leave it out, and let a proxy before the server ask for the key.",
                {"flag": flag},
            )
        # argparse takes any unambiguous beginning of a flag for the flag.
        longer = sorted(name for name in {*OWNED_FLAGS, *UNPLANNED_FLAGS} if name.startswith(flag) and name != flag)
        if longer and flag not in OWNED_FLAGS and flag not in UNPLANNED_FLAGS and len(flag) > 1:
            raise Refusal(
                "extra_argument_shortened",
                f"extra_arguments holds {key}, which the server may take for {longer[0]}.",
                "Write the flag in full.",
                {"flag": flag, "beginning_of": longer},
            )
        if flag in OWNED_FLAGS:
            raise Refusal(
                "extra_argument_owned",
                f"extra_arguments holds {key}, which the plan decides.",
                f"Set {OWNED_FLAGS[flag]} instead.",
                {"flag": flag},
            )
        if flag in UNPLANNED_FLAGS:
            raise Refusal(
                "extra_argument_unplanned",
                f"extra_arguments holds {key}: {UNPLANNED_FLAGS[flag]}, which the plan of this release does not count.",
                "Leave it out.",
                {"flag": flag},
            )
        if hicache_enabled and flag in EXCLUDES_HICACHE:
            raise Refusal(
                "extra_argument_excludes_hicache",
                f"extra_arguments holds {key}, and HiCache is on: SGLang refuses the two together.",
                "Leave it out, or set hicache.enabled to false.",
                {"flag": flag},
            )
        absence = flag_absence(flag, facts.version)
        if absence is not None:
            raise Refusal(
                "extra_argument_absent",
                f"extra_arguments holds {key}, which SGLang {facts.version} does not know: {absence}.",
                "Correct or leave out the flag.",
                {"flag": flag},
            )
    if any(flag_name(key) in DRAFT_FLAGS for key in server.extra_arguments):
        warnings.append(
            Problem(
                "draft_not_planned",
                "warning",
                "A speculative draft model is asked for; its weights, its KV cache and its host pool are not counted.",
                "Give observed.kv_pool_bytes and observed.idle_bytes_per_gpu of a start with the draft, and leave "
                "room on the host.",
            )
        )
    return warnings


def flag_name(key: str) -> str:
    """C(--max_running_requests) -> C(max-running-requests)."""
    return str(key).lstrip("-").replace("_", "-")


def resolve_arguments(
    server: ServerRequest,
    hicache: HiCacheRequest,
    sizing: Sizing,
    transfer: tuple[str | None, str | None],
    model_path: str | None,
) -> dict[str, Any]:
    """Flags without dashes and their values, for SGLang's C(--config) file."""
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
        "mem-fraction-static": server.mem_fraction_static,
        "chunked-prefill-size": server.chunked_prefill_size,
        "context-length": server.context_length,
        "attention-backend": server.attention_backend,
        "enable-metrics": True if server.enable_metrics else None,
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
    arguments.update({flag_name(key): value for key, value in server.extra_arguments.items()})
    return {flag: value for flag, value in arguments.items() if value is not None}
