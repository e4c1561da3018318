# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which prefill graphs a server captures by itself: none, or those up to a number of tokens.

Source: SGLang, server_args.py and arg_groups/cuda_graph_hook.py; the rules by release are in
sglang/releases/memory_versions.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.multimodal import flags_of, is_set
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import ServerRequest, SpeculativeRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import ModelFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.memory_versions import (
    BREAKABLE,
    NO_PREFILL_GRAPHS,
    PIECEWISE,
    FractionRules,
)

DISABLED = "disabled"
# Model classes with Kimi delta attention (configs/model_config.py uses_kda_attention); GLM's is captured all the same.
_DELTA_ATTENTION = frozenset({"KimiLinearForCausalLM", "KimiK3ForConditionalGeneration"})
# Flags that keep a server from prefill graphs, by the name of their cause; those that are refused are no cause.
_FLAGS = {
    "torch_compile": ("enable-torch-compile",),
    "lora": ("enable-lora", "lora-paths"),
    "diffusion": ("dllm-algorithm",),
    "deterministic": ("enable-deterministic-inference",),
    "symmetric_memory": ("enable-symm-mem",),
    "expert_recorder": ("enable-eplb", "expert-distribution-recorder-mode"),
    "graph_debugging": ("debug-cuda-graph",),
    "two_batch_overlap": ("enable-two-batch-overlap",),
}
_NOTHING: tuple[Any, ...] = (None, False, 0, "0", 1, "1", "null", "none", [])
# Above 512 tokens, in releases from 0.5.9 on; FractionRules has those of every release.
_STEPS = ((576, 1025, 64), (1280, 4097, 256), (4608, 1 << 30, 512))
# C(apply_deepep_adjustments): the largest where none is asked for.
_TOKENS_OF_ALIGNED = 2048
_CAPTURED_EXCHANGES = ("deepep", "megamoe", "flashinfer")


@dataclass(frozen=True)
class PrefillGraphs:
    """C(tokens) is the largest that would be captured, C(count) how many are; 0 where C(backend) is disabled."""

    backend: str
    tokens: int
    count: int
    aligned: bool = False  # to eight tokens

    @property
    def largest(self) -> int:
        """Tokens of the largest that is captured."""
        sizes = _sizes(self.tokens, self.aligned)
        return sizes[-1] if sizes and self.backend != DISABLED else 0

    def within(self, tokens: int) -> PrefillGraphs:
        """Those that are left where a step has fewer tokens."""
        if self.backend == DISABLED or self.tokens <= tokens:
            return self
        return PrefillGraphs(self.backend, tokens, len(_sizes(tokens, self.aligned)), self.aligned)


def exchange_of(flags: Mapping[str, Any]) -> str:
    """The backend of the exchange between experts, "none" unless one is named."""
    if is_set(flags, "enable-deepep-moe"):
        return "deepep"
    return str(flags.get("moe-a2a-backend") or "none")


def _sizes(limit: int, aligned: bool = False, steps: tuple[tuple[int, int, int], ...] = _STEPS) -> list[int]:
    """Tokens of each prefill graph up to a limit (C(generate_prefill_cuda_graph_batch_sizes))."""
    sizes = (
        *range(4, 33, 4),
        *range(48, 257, 16),
        *range(288, 513, 32),
        *(size for first, below, step in steps for size in range(first, min(below, limit + 1), step)),
    )
    within = [size for size in sizes if size <= limit]
    return sorted({-(-size // 8) * 8 for size in within}) if aligned else within


def prefill_graph_sizes(limit: int, steps: tuple[tuple[int, int, int], ...] = _STEPS) -> int:
    """How many prefill graphs are captured up to a token count."""
    return len(_sizes(limit, steps=steps))


def _causes(
    model: ModelFacts,
    server: ServerRequest,
    speculative: SpeculativeRequest | None,
    hicache: bool,
    multimodal: bool,
    flags: Mapping[str, Any],
) -> frozenset[str]:
    exchange = exchange_of(flags)
    index = model.attention.latent and model.attention.index is not None
    given = {
        "speculative": speculative is not None,
        "attention_dp": server.attention_data_parallel_size > 1,
        "pipeline": server.pipeline_parallel_size > 1,
        "multimodal": multimodal,
        "hicache": hicache,
        "latent": model.attention.latent,
        "index": index,
        "latent_without_index": model.attention.latent and not index,
        "nemotron": model.architecture.startswith("NemotronH"),
        "delta_attention": model.architecture in _DELTA_ATTENTION,
        "exchange": exchange != "none",
        "other_exchange": exchange != "none" and exchange not in _CAPTURED_EXCHANGES,
        "gguf": "gguf" in (flags.get("load-format"), flags.get("quantization"), model.quantization),
    }
    told = {cause for cause, names in _FLAGS.items() if any(_is_set(flags.get(name)) for name in names)}
    return frozenset(cause for cause, holds in given.items() if holds) | told


def _is_set(value: Any) -> bool:
    return value is True or value not in _NOTHING


def _backend(
    rules: FractionRules,
    model: ModelFacts,
    server: ServerRequest,
    speculative: SpeculativeRequest | None,
    hicache: bool,
    multimodal: bool,
    flags: Mapping[str, Any],
) -> str:
    prefill = rules.prefill
    if prefill.backend == NO_PREFILL_GRAPHS:
        return PIECEWISE if _is_set(flags.get("enable-piecewise-cuda-graph")) else DISABLED
    if flags.get("cuda-graph-backend-prefill") is not None:
        return str(flags["cuda-graph-backend-prefill"])
    if any(_is_set(flags.get(name)) for name in ("disable-prefill-cuda-graph", "disable-piecewise-cuda-graph")):
        return DISABLED
    # The one switch for all graphs reaches those of prefill since both phases have one configuration.
    if rules.graphs_of_both_phases and _is_set(flags.get("disable-cuda-graph")):
        return DISABLED
    if _is_set(flags.get("enforce-piecewise-cuda-graph")):
        return PIECEWISE
    causes = _causes(model, server, speculative, hicache, multimodal, flags)
    backend, off = prefill.backend, prefill.off
    if backend == BREAKABLE and "pipeline" in causes & off:
        return DISABLED
    if backend == BREAKABLE and model.architecture in prefill.piecewise_towers - prefill.breakable_towers:
        # Another kind of capture, with rules of its own.
        backend, off = PIECEWISE, rules.piecewise_off
    towers = prefill.piecewise_towers if backend == PIECEWISE else prefill.breakable_towers
    if model.architecture in towers:
        causes -= {"multimodal"}
    # DeepSeek-V4's class is on the list of those without piecewise graphs, and by a rule of its own without others.
    if model.attention.compressed is not None:
        return DISABLED
    if causes & off or (backend == PIECEWISE and model.architecture in prefill.off_architectures):
        return DISABLED
    return backend


def prefill_graphs(
    rules: FractionRules,
    model: ModelFacts,
    server: ServerRequest,
    speculative: SpeculativeRequest | None,
    hicache: bool,
    multimodal: bool,
    chunk: int,
) -> PrefillGraphs:
    """What is captured when memory is divided, before attention DP divides the chunk."""
    flags = flags_of(server)
    backend = _backend(rules, model, server, speculative, hicache, multimodal, flags)
    given = flags.get("cuda-graph-max-bs-prefill", flags.get("piecewise-cuda-graph-max-tokens"))
    if backend == BREAKABLE and rules.exchange_aligns_prefill and exchange_of(flags) == "deepep":
        # Settled before any other limit is.
        sizes = _sizes(int(given or _TOKENS_OF_ALIGNED), aligned=True)
        return PrefillGraphs(backend, sizes[-1] if sizes else 0, len(sizes), aligned=True)
    if given is not None:
        tokens = int(given)
    else:
        limit = rules.latent_prefill_limit
        if rules.prefill_tokens is not None:
            tokens = rules.prefill_tokens
        elif not model.attention.latent or limit is None:
            tokens = chunk
        else:
            tokens = min(limit, chunk) if rules.latent_prefill_within_chunk else limit
        if rules.prefill_cut_by_tokens:
            if server.max_total_tokens is not None:
                tokens = min(tokens, server.max_total_tokens)
            if "llama-2" in (server.model_path or model.path or "").lower():
                tokens = min(tokens, 4096)
    if rules.prefill_cut_by_context and server.context_length is not None:
        tokens = min(tokens, server.context_length)
    return PrefillGraphs(
        backend, tokens, 0 if backend == DISABLED else prefill_graph_sizes(tokens, rules.prefill_steps)
    )
