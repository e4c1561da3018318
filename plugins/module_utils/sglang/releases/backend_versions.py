# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which attention backend each release takes by itself, as data; the companion of versions.py.

Read in C(model_specific_adjustment) of model_executor/model_runner.py (to 0.5.4), then
C(_handle_attention_backend_compatibility), C(_get_default_attn_backend) and C(_handle_model_specific_adjustments) of
server_args.py, arg_groups/overrides.py (0.5.15 on) and arg_groups/model_overrides/ (0.5.19 on).
tests/conformance/test_defaults.py holds it against what the real resolver answered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import parse_version, value_at


@dataclass(frozen=True)
class ModelBackends:
    """What a release takes for one model class by generation of cards; None leaves it to the general rule."""

    blackwell: str | None = None  # data-centre cards, compute capability 10
    hopper: str | None = None
    others: str | None = None
    workstation: str | None = None  # Blackwell with compute capability 12; C(others) where None
    turing: str | None = None  # C(others) where None
    page_size: int | None = None  # with the backends named here, where none was asked for
    decode_on_large_hopper: str | None = None
    blackwell_with_fp8: str | None = None
    blackwell_with_branches: str | None = None  # where drafts branch
    blackwell_with_track: bool = False  # the general rule, where states are tracked or drafts verified
    workstation_with_drafts: str | None = None
    yields_to_parts: bool = False  # the general rule, where prefill or decode alone is asked for


@dataclass(frozen=True)
class BackendRules:
    heads_on_blackwell: str
    fa3_models: frozenset[str] | None  # model classes that take fa3 on Hopper, None for all
    hicache_keeps_from_fa3: bool
    hicache_decodes: str  # whether decoding is left to fa3 under the kernel copies of HiCache
    resolved_with_arguments: bool  # else when the model is loaded, so that page sizes do not follow
    fa4_for_unequal_widths: bool
    triton_for_sinks: bool
    trtllm_pages: tuple[int, ...]
    fa4_page_of: str
    fa4_page_on_blackwell_only: bool
    states_page_one: bool  # states without a track are kept in pages of one token, whatever was asked for
    index_backend: str
    index_classes: frozenset[str]
    index_sets_type: bool  # the data type of the cache is set everywhere, and only where none was asked for
    index_sets_attention_dp: bool  # each rank of the tensor parallel group becomes a group of attention ranks


# Under the kernel copies of HiCache: decoding as elsewhere, never by fa3, or by another backend in any case.
AS_EVER, NOT_BY_FA3, BY_ANOTHER = "as_ever", "not_by_fa3", "by_another"
# Which parts make fa4 insist on its pages: prefill where it was named by itself, or any that it has.
PREFILL_ONLY, ANY_PART = "prefill_only", "any_part"

_GENERAL = ModelBackends()
_HEADS_ON_BLACKWELL = (("0.4.7", "flashinfer"), ("0.5.7", "trtllm_mha"))
_RESOLVED_WITH_ARGUMENTS = (("0.4.7", False), ("0.5.5", True))
_HICACHE_KEEPS = (("0.4.7", False), ("0.4.10", True), ("0.5.0rc2", False))
_UNEQUAL_WIDTHS = (("0.4.7", False), ("0.5.17", True))
_SINKS = (("0.4.7", False), ("0.5.11", True))
_TRTLLM_PAGES: tuple[tuple[str, tuple[int, ...]], ...] = (("0.4.7", (16, 32, 64)), ("0.5.17", (16, 32, 64, 128)))
_FA4_PAGE = (("0.4.7", PREFILL_ONLY), ("0.5.15", ANY_PART))
_FA4_BLACKWELL_ONLY = (("0.4.7", False), ("0.5.10", True))
# model_runner.py (0.5.0rc2 to 0.5.4), _handle_hicache and _resolve_io_decode_attention_compatibility.
_HICACHE_DECODES = (("0.4.7", AS_EVER), ("0.5.0rc2", BY_ANOTHER), ("0.5.8", NOT_BY_FA3), ("0.5.14", AS_EVER))
_STATES_PAGE_ONE = (("0.4.7", False), ("0.5.9", True), ("0.5.14", False))
_INDEX_BACKEND = (("0.4.7", "nsa"), ("0.5.13", "dsa"))
_INDEX_CLASSES: tuple[tuple[str, frozenset[str]], ...] = (
    ("0.4.7", frozenset()),
    ("0.5.3", frozenset({"DeepseekV32ForCausalLM", "DeepseekV3ForCausalLM"})),
    ("0.5.9", frozenset({"DeepseekV32ForCausalLM", "DeepseekV3ForCausalLM", "GlmMoeDsaForCausalLM"})),
)

_INDEX_SETS_TYPE = (("0.4.7", False), ("0.5.5", True))
_INDEX_SETS_ATTENTION_DP = (("0.4.7", False), ("0.5.3", True), ("0.5.6", False))

# utils.py is_fa3_default_architecture, asked to 0.5.7.
_FA3_BEGIN = frozenset(
    {
        "Gemma2ForCausalLM",
        "Gemma3ForConditionalGeneration",
        "Llama4ForConditionalGeneration",
        "LlamaForCausalLM",
        "Qwen2ForCausalLM",
        "Qwen3ForCausalLM",
        "Qwen3MoeForCausalLM",
    }
)
_FA3_GLM = _FA3_BEGIN | {"Glm4MoeForCausalLM"}
_FA3_STEP = _FA3_GLM | {"Step3VLForConditionalGeneration"}
_FA3_GLM4V = _FA3_STEP | {"Glm4vMoeForConditionalGeneration"}
_FA3_OLMO = _FA3_GLM4V | {"Olmo2ForCausalLM"}
_FA3_QWEN3VL = _FA3_OLMO | {
    "Glm4vForConditionalGeneration",
    "Qwen3VLForConditionalGeneration",
    "Qwen3VLMoeForConditionalGeneration",
}
_FA3_MODELS: tuple[tuple[str, frozenset[str] | None], ...] = (
    ("0.4.7", _FA3_BEGIN),
    ("0.4.10", _FA3_GLM),
    ("0.5.0rc2", _FA3_STEP),
    ("0.5.1", _FA3_GLM4V),
    ("0.5.4", _FA3_OLMO),
    ("0.5.7", _FA3_QWEN3VL),
    ("0.5.8", None),
)

_BY_GENERATION = ModelBackends(blackwell="trtllm_mha", hopper="fa3", others="triton")
_SINK_BACKENDS = replace(_BY_GENERATION, yields_to_parts=True)
# C(supported_backends) for GptOssForCausalLM, whose start ends with any other (server_args.py, from 0.5.19 on
# arg_groups/model_hook.py).
_TAKES_SINKS: tuple[tuple[str, str], ...] = (
    ("0.4.7", "triton trtllm_mha fa3"),
    ("0.5.4", "triton trtllm_mha fa3 fa4"),
    ("0.5.8", "triton trtllm_mha fa3 fa4 ascend"),
    ("0.5.10", "triton trtllm_mha fa3 fa4 ascend aiter"),
    ("0.5.11", "triton trtllm_mha fa3 fa4 ascend intel_xpu aiter"),
    ("0.5.13", "triton trtllm_mha fa3 fa4 ascend intel_amx intel_xpu aiter"),
)
_LATENT_ON_BLACKWELL = ModelBackends(blackwell="trtllm_mla", yields_to_parts=True)
_TRITON_ON_BLACKWELL = ModelBackends(blackwell="triton")
_FLASHINFER_ON_BLACKWELL = ModelBackends(blackwell="flashinfer")
_FA3_FROM_AMPERE = ModelBackends(blackwell="trtllm_mha", hopper="fa3", others="fa3", turing="triton")
_GATED_DELTA = "Qwen3NextForCausalLM Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration"
_MODELS: tuple[tuple[str, str, ModelBackends], ...] = (
    ("0.5.0rc2", "GptOssForCausalLM", _SINK_BACKENDS),
    ("0.5.4", "DeepseekV3ForCausalLM DeepseekV32ForCausalLM", _LATENT_ON_BLACKWELL),
    ("0.5.7", "MistralLarge3ForCausalLM PixtralForConditionalGeneration", _LATENT_ON_BLACKWELL),
    ("0.5.9", "KimiK25ForConditionalGeneration GlmMoeDsaForCausalLM", _LATENT_ON_BLACKWELL),
    ("0.5.16", "LongcatFlashForCausalLM", _LATENT_ON_BLACKWELL),
    ("0.5.5", "Llama4ForConditionalGeneration Llama4ForCausalLM", ModelBackends(blackwell="trtllm_mha")),
    ("0.5.6", "Llama4ForConditionalGeneration Llama4ForCausalLM", _BY_GENERATION),
    ("0.5.4", "Olmo2ForCausalLM", _FA3_FROM_AMPERE),
    ("0.5.22", "Exaone4ForCausalLM ExaoneMoEForCausalLM ExaoneMoeForCausalLM", _FA3_FROM_AMPERE),
    ("0.5.6", _GATED_DELTA, _TRITON_ON_BLACKWELL),
    ("0.5.10", _GATED_DELTA, ModelBackends(blackwell="triton", blackwell_with_track=True)),
    ("0.5.7", "FalconH1ForCausalLM", _TRITON_ON_BLACKWELL),
    ("0.5.7", "NemotronHForCausalLM", _FLASHINFER_ON_BLACKWELL),
    (
        "0.5.19",
        "NemotronHForCausalLM",
        ModelBackends(
            blackwell="trtllm_mha",
            blackwell_with_branches="triton",
            workstation_with_drafts="triton",
            yields_to_parts=True,
        ),
    ),
    ("0.5.22", "MiMoV2FlashForCausalLM MiMoV2ForCausalLM", ModelBackends(blackwell="fa4", yields_to_parts=True)),
    (
        "0.5.13",
        "Step3p5ForCausalLM Step3p7ForConditionalGeneration",
        ModelBackends(blackwell="fa4", hopper="fa3", workstation="fa4", yields_to_parts=True),
    ),
    (
        "0.5.16",
        "MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration",
        ModelBackends(blackwell="fa4", hopper="fa3", page_size=128, yields_to_parts=True),
    ),
    (
        "0.5.17",
        "MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration",
        ModelBackends(
            blackwell="fa4", hopper="fa3", page_size=128, blackwell_with_fp8="trtllm_mha", yields_to_parts=True
        ),
    ),
    (
        "0.5.20",
        "Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration",
        ModelBackends(decode_on_large_hopper="flashinfer"),
    ),
    ("0.5.9", "GraniteMoeHybridForCausalLM", _TRITON_ON_BLACKWELL),
    ("0.5.13", "GraniteMoeHybridForCausalLM", _FLASHINFER_ON_BLACKWELL),
    ("0.5.9", "Lfm2ForCausalLM", _FLASHINFER_ON_BLACKWELL),
    ("0.5.17", "Lfm2MoeForCausalLM", _FLASHINFER_ON_BLACKWELL),
    ("0.5.11", "Gemma4ForConditionalGeneration", ModelBackends(blackwell="triton", hopper="triton", others="triton")),
    (
        "0.5.13",
        "Gemma4ForConditionalGeneration Gemma4UnifiedForConditionalGeneration",
        ModelBackends(blackwell="trtllm_mha", hopper="triton", others="triton"),
    ),
)


def sink_backends(release: str, architecture: str) -> tuple[str, ...] | None:
    """The attention backends that a release starts this model class with, None where it starts with any."""
    if architecture != "GptOssForCausalLM":
        return None
    return tuple(value_at(_TAKES_SINKS, parse_version(release)).split())


@cache
def model_backends(release: str, architecture: str) -> ModelBackends:
    """What a release takes for one model class."""
    version, found, since = parse_version(release), _GENERAL, parse_version("0.4.7")
    for begins, names, backends in _MODELS:
        begin = parse_version(begins)
        if since <= begin <= version and architecture in names.split():
            found, since = backends, begin
    return found


@cache
def backend_rules(release: str) -> BackendRules:
    """How a release chooses its attention backend; C(release) is one that versions.py knows."""
    version = parse_version(release)
    return BackendRules(
        heads_on_blackwell=value_at(_HEADS_ON_BLACKWELL, version),
        fa3_models=value_at(_FA3_MODELS, version),
        hicache_keeps_from_fa3=value_at(_HICACHE_KEEPS, version),
        hicache_decodes=value_at(_HICACHE_DECODES, version),
        resolved_with_arguments=value_at(_RESOLVED_WITH_ARGUMENTS, version),
        fa4_for_unequal_widths=value_at(_UNEQUAL_WIDTHS, version),
        triton_for_sinks=value_at(_SINKS, version),
        trtllm_pages=value_at(_TRTLLM_PAGES, version),
        fa4_page_of=value_at(_FA4_PAGE, version),
        fa4_page_on_blackwell_only=value_at(_FA4_BLACKWELL_ONLY, version),
        states_page_one=value_at(_STATES_PAGE_ONE, version),
        index_backend=value_at(_INDEX_BACKEND, version),
        index_classes=value_at(_INDEX_CLASSES, version),
        index_sets_type=value_at(_INDEX_SETS_TYPE, version),
        index_sets_attention_dp=value_at(_INDEX_SETS_ATTENTION_DP, version),
    )
