# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How each release divides a GPU when it is not told how, as data; the companion of versions.py.

Read in C(ServerArgs.__post_init__) of server_args.py (0.4.7 to 0.5.2), C(_handle_gpu_memory_settings) of server_args.py
(0.5.3 to 0.5.18) and arg_groups/memory_hook.py (0.5.19 on), by comparing the source of these functions from release to
release. Sizes are MiB as nvidia-smi prints them. tests/conformance/test_defaults.py holds every row against what the
real resolver answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import parse_version, value_at

GIB_IN_MIB = 1024
ANY = "*"

# How the fraction comes about: a share by the number of ranks, a reserve by the size of the card, or a reserve put
# together from what needs it.
BY_RANKS, BY_CARD, BY_PARTS = "by_ranks", "by_card", "by_parts"
# What captures prefill into graphs unless told otherwise.
NO_PREFILL_GRAPHS, PIECEWISE, BREAKABLE = "none", "tc_piecewise", "breakable"
# What a vision tower takes: a tenth when the model is loaded (of a given fraction, too), a tenth of the default, or a
# part by the tower's size.
TENTH_AT_LOAD, TENTH, BY_TOWER = "tenth_at_load", "tenth", "by_tower"


class CardClass(NamedTuple):
    """Cards below a size: tokens a prefill chunk, and the largest decode graph with fewer than four ranks and more."""

    below_mib: float
    chunk: int
    decode_graph: int | None
    decode_graph_wide: int | None


class SlackClass(NamedTuple):
    """Cards below a size, in releases that reserve by it: MiB, and MiB more for each rank."""

    below_mib: float
    reserve_mib: float
    rank_mib: float


@dataclass(frozen=True)
class PrefillRules:
    """What captures prefill into graphs, and what keeps a release from it."""

    backend: str
    off: frozenset[str]  # causes, see memory/fraction/prefill_graphs.py
    off_architectures: frozenset[str] = frozenset()
    piecewise_towers: frozenset[str] = frozenset()  # multimodal classes that are captured all the same
    breakable_towers: frozenset[str] = frozenset()


@dataclass(frozen=True)
class FractionRules:
    form: str
    classes: tuple[CardClass, ...]
    unknown_card: CardClass
    fraction_of_unknown_card: float
    slack: tuple[SlackClass, ...]
    speculative_mib: Mapping[str, int]
    tower: str
    prefill: PrefillRules
    piecewise_off: frozenset[str]  # what keeps from piecewise graphs in a release that captures in the other way
    prefill_tokens: int | None  # tokens of the largest prefill graph, where it does not follow the chunk
    prefill_steps: tuple[tuple[int, int, int], ...]  # (from, below, step) of graphs above 512 tokens
    latent_prefill_limit: int | None
    latent_prefill_within_chunk: bool
    latent_prefill_apart: bool  # one sum for all graphs of latent attention
    attention_dp_cuts_prefill: bool
    optional_prefill_divisor: int | None  # tokens a MiB, where graphs that are asked for are reserved by tokens
    prefill_cut_by_tokens: bool
    prefill_cut_by_context: bool
    running_requests_cap_graphs: bool
    running_requests_raise_graphs: bool
    uncaptured_with_trtllm_mla: frozenset[str]  # model classes whose prefill is not captured under that backend
    # Model classes whose experts take flashinfer_trtllm on Blackwell and keep prefill from being captured, with the
    # quantizations under which they do.
    uncaptured_experts: Mapping[str, frozenset[str | None]]
    fraction_of_index: float | None  # what models with an index get, whatever was asked for
    unchunked: frozenset[str]  # multimodal classes whose prompts are not prefilled in chunks
    exchange_mib: int
    exchange_prefill_mib: int
    exchange_aligns_prefill: bool
    graphs_of_both_phases: bool
    frees_disabled_graphs: bool
    after_capture_mib: int | None
    after_capture_tower_mib: int
    fp4_before_capture: bool  # a cache of fp4_e2m1 is sized before the capture in any case


_INF = float("inf")
_T4 = CardClass(20 * GIB_IN_MIB, 2048, 8, 8)
_L40 = CardClass(60 * GIB_IN_MIB, 4096, 32, 160)
_H200 = CardClass(160 * GIB_IN_MIB, 8192, 256, 512)
_B200 = CardClass(_INF, 16_384, 512, 512)


def _below_35_gib(chunk: int, graph: int, wide: int) -> tuple[CardClass, ...]:
    return (_T4, CardClass(35 * GIB_IN_MIB, chunk, graph, wide), _L40, _H200, _B200)


_CLASSES: tuple[tuple[str, tuple[CardClass, ...]], ...] = (
    # Up to and including 180,000 MiB.
    (
        "0.4.7",
        (CardClass(25_000, 2048, 8, 80), CardClass(180_001, 8192, None, None), CardClass(_INF, 16_384, None, None)),
    ),
    (
        "0.4.8",
        (
            CardClass(35 * GIB_IN_MIB, 2048, 8, 80),
            CardClass(160 * GIB_IN_MIB, 8192, None, None),
            CardClass(_INF, 16_384, None, None),
        ),
    ),
    ("0.5.3", _below_35_gib(2048, 16, 80)),
    ("0.5.5", _below_35_gib(2048, 24, 80)),
    ("0.5.20", _below_35_gib(4096, 48, 160)),
)
_UNKNOWN_CARD = (
    ("0.4.7", CardClass(_INF, 8192, None, None)),
    ("0.4.8", CardClass(_INF, 4096, None, None)),
    ("0.5.3", CardClass(_INF, 4096, 160, 160)),
)
_FRACTION_OF_UNKNOWN_CARD = (("0.4.7", 0.88), ("0.5.20", 0.95))
_FORM = (("0.4.7", BY_RANKS), ("0.4.8", BY_CARD), ("0.5.3", BY_PARTS))
_SLACK: tuple[tuple[str, tuple[SlackClass, ...]], ...] = (
    ("0.4.7", ()),
    (
        "0.4.8",
        (
            SlackClass(35 * GIB_IN_MIB, 2.8 * GIB_IN_MIB, GIB_IN_MIB / 10),
            SlackClass(90 * GIB_IN_MIB, 9.5 * GIB_IN_MIB, GIB_IN_MIB / 2),
            SlackClass(160 * GIB_IN_MIB, 12.0 * GIB_IN_MIB, GIB_IN_MIB / 2),
            SlackClass(_INF, 32.0 * GIB_IN_MIB, 0),
        ),
    ),
    ("0.5.3", ()),
)
# 0.4.7: see _share_by_ranks in memory/fraction/fraction_default.py. NGRAM drafts without a model.
_SPECULATIVE: tuple[tuple[str, Mapping[str, int]], ...] = (
    ("0.4.7", {ANY: 0}),
    ("0.4.8", {ANY: 2 * GIB_IN_MIB}),
    ("0.5.2", {"STANDALONE": 6 * GIB_IN_MIB, ANY: 2 * GIB_IN_MIB}),
    ("0.5.3", {"STANDALONE": 6 * GIB_IN_MIB, "NGRAM": 0, ANY: 2 * GIB_IN_MIB}),
    ("0.5.10", {"STANDALONE": 6 * GIB_IN_MIB, "NGRAM": 0, ANY: 4 * GIB_IN_MIB}),
    ("0.5.14", {ANY: 0}),
)
# model_executor/model_runner.py model_specific_adjustment (0.4.7, 0.4.8); adjust_mem_fraction_for_vlm from 0.4.10 on.
_TOWER = (("0.4.7", TENTH_AT_LOAD), ("0.4.9", TENTH), ("0.4.10", BY_TOWER))

# _handle_piecewise_cuda_graph (0.5.10 to 0.5.13), later _disable_tc_piecewise_cudagraph_if_incompatible and
# _disable_breakable_cudagraph_if_incompatible; the model classes are lists of configs/model_config.py.
_PIECEWISE_OFF = frozenset(
    {
        "attention_dp",
        "deterministic",
        "diffusion",
        "exchange",
        "expert_recorder",
        "gguf",
        "graph_debugging",
        "hicache",
        "lora",
        "multimodal",
        "pipeline",
        "symmetric_memory",
        "torch_compile",
    }
)
_DSA = frozenset({"index"})
_PIECEWISE_MODELS = frozenset({"Qwen3NextForCausalLM", "BailingMoeV2_5ForCausalLM"})
_PIECEWISE_TOWERS = frozenset(
    {
        "Cohere2VisionForConditionalGeneration",
        "KimiK25ForConditionalGeneration",
        "MiniMaxM3SparseForCausalLM",
        "MiniMaxM3SparseForConditionalGeneration",
    }
)
_QWEN35 = frozenset({"Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration"})
_KIMI = frozenset({"KimiK25ForConditionalGeneration", "KimiK3ForConditionalGeneration"})
_COHERE = frozenset({"Cohere2VisionForConditionalGeneration", "PaddleOCRVLForConditionalGeneration"})
_MINIMAX = frozenset({"MiniMaxM3SparseForCausalLM", "MiniMaxM3SparseForConditionalGeneration"})
_BREAKABLE_ALWAYS_OFF = frozenset({"multimodal"})
_BREAKABLE_OFF = _BREAKABLE_ALWAYS_OFF | {"two_batch_overlap", "other_exchange"}
_PREFILL: tuple[tuple[str, PrefillRules], ...] = (
    ("0.4.7", PrefillRules(NO_PREFILL_GRAPHS, frozenset())),
    ("0.5.10", PrefillRules(PIECEWISE, _PIECEWISE_OFF | _DSA | {"speculative"}, _PIECEWISE_MODELS)),
    ("0.5.11", PrefillRules(PIECEWISE, _PIECEWISE_OFF | _DSA, _PIECEWISE_MODELS)),
    (
        "0.5.14",
        PrefillRules(
            PIECEWISE,
            _PIECEWISE_OFF,
            _PIECEWISE_MODELS,
            piecewise_towers=frozenset({"Cohere2VisionForConditionalGeneration"}),
        ),
    ),
    (
        "0.5.15",
        PrefillRules(BREAKABLE, _BREAKABLE_ALWAYS_OFF | {"latent", "lora", "exchange", "attention_dp"}),
    ),
    (
        "0.5.16",
        PrefillRules(
            BREAKABLE,
            _BREAKABLE_ALWAYS_OFF | {"latent", "lora", "exchange", "attention_dp"},
            _PIECEWISE_MODELS,
            piecewise_towers=_PIECEWISE_TOWERS,
            breakable_towers=_QWEN35,
        ),
    ),
    (
        "0.5.17",
        PrefillRules(
            BREAKABLE,
            _BREAKABLE_OFF | {"latent_without_index", "nemotron"},
            _PIECEWISE_MODELS,
            piecewise_towers=_PIECEWISE_TOWERS,
            breakable_towers=_QWEN35,
        ),
    ),
    (
        "0.5.18",
        PrefillRules(
            BREAKABLE,
            _BREAKABLE_OFF,
            _PIECEWISE_MODELS,
            piecewise_towers=_PIECEWISE_TOWERS,
            breakable_towers=_QWEN35 | _KIMI,
        ),
    ),
    (
        "0.5.19",
        PrefillRules(
            BREAKABLE,
            _BREAKABLE_OFF | {"pipeline"},
            _PIECEWISE_MODELS,
            piecewise_towers=_PIECEWISE_TOWERS - _COHERE,
            breakable_towers=_QWEN35 | _KIMI | _COHERE,
        ),
    ),
    (
        "0.5.20",
        PrefillRules(
            BREAKABLE,
            _BREAKABLE_OFF | {"pipeline", "delta_attention"},
            _PIECEWISE_MODELS,
            piecewise_towers=_PIECEWISE_TOWERS - _COHERE,
            breakable_towers=_QWEN35 | _KIMI | _COHERE,
        ),
    ),
    (
        "0.5.22",
        PrefillRules(
            BREAKABLE,
            _BREAKABLE_OFF | {"pipeline", "delta_attention"},
            breakable_towers=_QWEN35 | _KIMI | _COHERE | _MINIMAX,
        ),
    ),
)
# _generate_piecewise_cuda_graph_tokens.
_PREFILL_STEPS: tuple[tuple[str, tuple[tuple[int, int, int], ...]], ...] = (
    ("0.4.7", ((640, 4097, 128), (4352, 1 << 30, 256))),
    ("0.5.8", ((640, 1025, 64), (1280, 4097, 256), (4608, 1 << 30, 512))),
    ("0.5.9", ((576, 1025, 64), (1280, 4097, 256), (4608, 1 << 30, 512))),
)
_PREFILL_TOKENS: tuple[tuple[str, int | None], ...] = (("0.4.7", 4096), ("0.5.7", None))
_LATENT_PREFILL_LIMIT: tuple[tuple[str, int | None], ...] = (("0.4.7", None), ("0.5.8", 2048), ("0.5.23", 8192))
_LATENT_WITHIN_CHUNK = (("0.4.7", False), ("0.5.23", True))
_LATENT_APART = (("0.4.7", False), ("0.5.10", True))
_ATTENTION_DP_CUTS = (("0.4.7", False), ("0.5.16", True))
# With --enable-piecewise-cuda-graph; nothing is reserved for them before 0.5.6.
_OPTIONAL_DIVISOR: tuple[tuple[str, int | None], ...] = (
    ("0.4.7", 1 << 30),
    ("0.5.6", 4),
    ("0.5.7", 8),
    ("0.5.8", None),
)
_BOTH_PHASES = (("0.4.7", False), ("0.5.14", True))
_CUT_BY_TOKENS = (("0.4.7", False), ("0.5.10", True))
_CUT_BY_CONTEXT = (("0.4.7", False), ("0.5.13", True), ("0.5.17", False))
_CAP_GRAPHS = (("0.4.7", False), ("0.5.22", True))
# arg_groups/model_overrides/qwen3_vl.py expand_multimodal_decode_graph_to_running_limit.
_RAISE_GRAPHS = (("0.4.7", False), ("0.5.20", True))
# disable_prefill_cuda_graph_for_deepseek_trtllm_mla.
_UNCAPTURED: tuple[tuple[str, frozenset[str]], ...] = (
    ("0.4.7", frozenset()),
    ("0.5.15", frozenset({"DeepseekV3ForCausalLM"})),
)
# _handle_moe_kernel_config, after the fraction is set; of the classes that are captured elsewhere.
_QUANTIZED = frozenset({"fp8", "modelopt_fp8", "modelopt_fp4", "modelopt_mixed"})
_QWEN_EXPERTS: frozenset[str | None] = frozenset({None, "fp8", "modelopt_fp4"})
_UNCAPTURED_EXPERTS: tuple[tuple[str, Mapping[str, frozenset[str | None]]], ...] = (
    ("0.4.7", {}),
    ("0.5.10", {"DeepseekV3ForCausalLM": _QUANTIZED | {None}, "Qwen3MoeForCausalLM": _QWEN_EXPERTS}),
    ("0.5.11", {"DeepseekV3ForCausalLM": _QUANTIZED, "Qwen3MoeForCausalLM": _QWEN_EXPERTS}),
    ("0.5.12", {"DeepseekV3ForCausalLM": _QUANTIZED | {None}, "Qwen3MoeForCausalLM": _QWEN_EXPERTS}),
    ("0.5.13", {}),
)
# _handle_model_specific_adjustments.
_FRACTION_OF_INDEX: tuple[tuple[str, float | None], ...] = (("0.4.7", None), ("0.5.3", 0.8), ("0.5.4", None))
# configs/model_config.py is_multimodal_chunked_prefill_supported; when the model is loaded before 0.5.16.
_UNCHUNKED: tuple[tuple[str, frozenset[str]], ...] = (
    ("0.4.7", frozenset()),
    ("0.5.16", frozenset({"LlavaLlamaForCausalLM", "MllamaForConditionalGeneration"})),
)
# reserve_for_deepep_a2a_mb, reserve_for_graph_mb.
_EXCHANGE = (("0.4.7", 0), ("0.5.15", 2 * GIB_IN_MIB))
_EXCHANGE_PREFILL = (("0.4.7", 0), ("0.5.17", GIB_IN_MIB))
_EXCHANGE_ALIGNS = (("0.4.7", False), ("0.5.17", True))
_FREES_DISABLED = (("0.4.7", False), ("0.5.15", True))
# post_capture_kv_sizing_planned, behind SGLANG_ENABLE_POST_CAPTURE_KV_SIZING, which is off by default.
_AFTER_CAPTURE: tuple[tuple[str, int | None], ...] = (("0.4.7", None), ("0.5.16", 512), ("0.5.18", 1536))
_AFTER_CAPTURE_TOWER = (("0.4.7", 0), ("0.5.20", 8 * GIB_IN_MIB))
_FP4_BEFORE_CAPTURE = (("0.4.7", True), ("0.5.21", False))


# configs/model_config.py mm_disabled_models; served without their tower unless --enable-multimodal is given.
_TOWERS_OFF = (
    ("0.4.7", frozenset({"Gemma3ForConditionalGeneration", "Llama4ForConditionalGeneration"})),
    (
        "0.5.0rc2",
        frozenset(
            {"Gemma3ForConditionalGeneration", "Llama4ForConditionalGeneration", "Step3VLForConditionalGeneration"}
        ),
    ),
)


# arg_groups/model_overrides/qwen3_vl.py _qwen3vl_hopper_serving_overrides, from 0.5.20: SGLANG_VLM_CACHE_SIZE_MB is 0
# there, and SGLANG_MM_FEATURE_CACHE_MB 1024 by default, 3072 from 400 running requests on.
_FEATURES_ON_GPU = (("0.4.7", False), ("0.5.20", True))
_FEATURES_MODELS = frozenset({"Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration"})
FEATURES_MIB, FEATURES_MIB_BUSY, FEATURES_BUSY_REQUESTS = 1024, 3072, 400


def large_hopper(capability: tuple[int, int] | None, card_mib: int | None) -> bool:
    """Whether this is a card of Hopper with 60 GiB or more."""
    return capability is not None and capability[0] == 9 and (card_mib or 0) >= 60 * GIB_IN_MIB


def keeps_features_on_gpu(
    release: str, architecture: str, capability: tuple[int, int] | None, card_mib: int | None
) -> bool:
    """Whether a release passes the features of pictures through GPU memory for this model on this card."""
    known = architecture in _FEATURES_MODELS and value_at(_FEATURES_ON_GPU, parse_version(release))
    return known and large_hopper(capability, card_mib)


def towers_off_by_default(release: str) -> frozenset[str]:
    """The model classes that a release serves without their vision tower unless asked."""
    return value_at(_TOWERS_OFF, parse_version(release))


@cache
def fraction_rules(release: str) -> FractionRules:
    """How a release chooses its fraction; C(release) is one that versions.py knows."""
    version = parse_version(release)
    return FractionRules(
        form=value_at(_FORM, version),
        classes=value_at(_CLASSES, version),
        unknown_card=value_at(_UNKNOWN_CARD, version),
        fraction_of_unknown_card=value_at(_FRACTION_OF_UNKNOWN_CARD, version),
        slack=value_at(_SLACK, version),
        speculative_mib=value_at(_SPECULATIVE, version),
        tower=value_at(_TOWER, version),
        prefill=value_at(_PREFILL, version),
        piecewise_off=_PIECEWISE_OFF,
        latent_prefill_within_chunk=value_at(_LATENT_WITHIN_CHUNK, version),
        latent_prefill_apart=value_at(_LATENT_APART, version),
        attention_dp_cuts_prefill=value_at(_ATTENTION_DP_CUTS, version),
        optional_prefill_divisor=value_at(_OPTIONAL_DIVISOR, version),
        graphs_of_both_phases=value_at(_BOTH_PHASES, version),
        prefill_tokens=value_at(_PREFILL_TOKENS, version),
        prefill_steps=value_at(_PREFILL_STEPS, version),
        latent_prefill_limit=value_at(_LATENT_PREFILL_LIMIT, version),
        prefill_cut_by_tokens=value_at(_CUT_BY_TOKENS, version),
        prefill_cut_by_context=value_at(_CUT_BY_CONTEXT, version),
        running_requests_cap_graphs=value_at(_CAP_GRAPHS, version),
        running_requests_raise_graphs=value_at(_RAISE_GRAPHS, version),
        uncaptured_with_trtllm_mla=value_at(_UNCAPTURED, version),
        uncaptured_experts=value_at(_UNCAPTURED_EXPERTS, version),
        fraction_of_index=value_at(_FRACTION_OF_INDEX, version),
        unchunked=value_at(_UNCHUNKED, version),
        exchange_mib=value_at(_EXCHANGE, version),
        exchange_prefill_mib=value_at(_EXCHANGE_PREFILL, version),
        exchange_aligns_prefill=value_at(_EXCHANGE_ALIGNS, version),
        frees_disabled_graphs=value_at(_FREES_DISABLED, version),
        after_capture_mib=value_at(_AFTER_CAPTURE, version),
        after_capture_tower_mib=value_at(_AFTER_CAPTURE_TOWER, version),
        fp4_before_capture=value_at(_FP4_BEFORE_CAPTURE, version),
    )
