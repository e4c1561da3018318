# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The attention backend and the page size that a server takes by itself.

Source: SGLang, model_executor/model_runner.py (to 0.5.4), server_args.py, arg_groups/overrides.py and
arg_groups/model_overrides/; what differs by release and model class is in sglang/releases/backend_versions.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.multimodal import flags_of, is_set
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import ServerRequest, SpeculativeRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import ModelFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.backend_versions import (
    ANY_PART,
    AS_EVER,
    NOT_BY_FA3,
    PREFILL_ONLY,
    BackendRules,
    ModelBackends,
    backend_rules,
    model_backends,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.compressed_versions import (
    COMPRESSED_BACKEND,
    COMPRESSED_PAGE_SIZE,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.memory_versions import large_hopper

# Pages that backends insist on, whatever was asked for; and those that others take, with the one that is set otherwise.
_ONLY_PAGE = {"flashmla": 64, "cutlass_mla": 128, "hpc_ops": 64}
_LATENT_PAGES = (32, 64)
_DEFAULT_PAGE = 64
_INDEX_PAGE = 64
_FA4_PAGE = 128
# The second is an older name of the first.
_COMPRESSED_BACKENDS = (COMPRESSED_BACKEND, "compressed")
# Model classes with attention sinks, which flashinfer does not take.
_SINKS = frozenset({"GptOssForCausalLM", "MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM"})


@dataclass(frozen=True)
class AttentionDefaults:
    """C(backend) is the one named by --attention-backend; C(prefill) and C(decode) differ from it where they are told
    apart. C(given) says that none of them was left to the server."""

    backend: str
    prefill: str
    decode: str
    page_size: int
    kv_cache_dtype: str
    given: bool


def _no_drafts_or_one_branch(speculative: SpeculativeRequest | None, page_size: int | None) -> bool:
    if speculative is None or speculative.eagle_topk is None:
        return True
    return speculative.eagle_topk == 1 and page_size in (None, 1)


def _general(
    rules: BackendRules,
    model: ModelFacts,
    generation: int | None,
    speculative: SpeculativeRequest | None,
    page_size: int | None,
    hicache: bool,
) -> str:
    hopper = generation == 9 and not (hicache and rules.hicache_keeps_from_fa3)
    if model.attention.latent:
        return "fa3" if hopper else "flashinfer" if generation == 10 else "triton"
    one_branch = _no_drafts_or_one_branch(speculative, page_size)
    if hopper and one_branch and (rules.fa3_models is None or model.architecture in rules.fa3_models):
        return "fa3"
    told = speculative is None or speculative.eagle_topk is not None
    if generation == 10 and one_branch and told and rules.heads_on_blackwell == "trtllm_mha":
        attention = model.attention
        window = attention.window
        unequal = attention.head_dim != attention.v_head_dim or (
            window is not None and window.head_dim != window.v_head_dim
        )
        return "fa4" if unequal and rules.fa4_for_unequal_widths else rules.heads_on_blackwell
    return "triton" if rules.triton_for_sinks and model.architecture in _SINKS else "flashinfer"


def _tracks_states(server: ServerRequest, speculative: SpeculativeRequest | None) -> bool:
    flags = flags_of(server)
    strategy = flags.get("mamba-radix-cache-strategy", flags.get("mamba-scheduler-strategy"))
    return speculative is not None or is_set(flags, "disable-radix-cache") or str(strategy).startswith("extra_buffer")


def _of_model(
    models: ModelBackends,
    generation: int | None,
    general: str,
    tracked: bool,
    dtype: str,
    speculative: SpeculativeRequest | None,
) -> str | None:
    if generation == 10:
        if models.blackwell_with_track and tracked and general == "trtllm_mha":
            return general
        if models.blackwell_with_fp8 is not None and dtype == "fp8_e4m3":
            return models.blackwell_with_fp8
        if speculative is not None and speculative.eagle_topk not in (None, 1) and models.blackwell_with_branches:
            return models.blackwell_with_branches
        return models.blackwell
    if generation == 9:
        return models.hopper
    if generation == 12:
        drafts = models.workstation_with_drafts if speculative is not None else None
        return drafts or models.workstation or models.others
    if generation == 7:
        return models.turing or models.others
    return models.others


def _decodes_apart(
    rules: BackendRules, model: ModelFacts, generation: int | None, decode: str, copies: str | None
) -> str | None:
    """What decodes instead under the kernel copies of HiCache, None where nothing changes."""
    if copies != "kernel" or rules.hicache_decodes == AS_EVER:
        return None
    if rules.hicache_decodes == NOT_BY_FA3 and decode != "fa3":
        return None
    if model.attention.latent:
        return "flashinfer" if generation == 10 else "triton"
    return "triton" if rules.triton_for_sinks and model.architecture in _SINKS else "flashinfer"


def _page_of(
    rules: BackendRules,
    model: ModelFacts,
    generation: int | None,
    named: tuple[str, str, str],
    asked_prefill: str | None,
    page_size: int | None,
    topk: int | None,
) -> int | None:
    for backend, page in _ONLY_PAGE.items():
        if backend in named:
            page_size = page
    if {"trtllm_mla", "cutedsl_mla"} & set(named) and page_size not in _LATENT_PAGES:
        page_size = _DEFAULT_PAGE
    if "trtllm_mha" in named and page_size not in rules.trtllm_pages:
        page_size = _DEFAULT_PAGE
    by_fa4 = "fa4" in named and (rules.fa4_page_of == ANY_PART or asked_prefill == "fa4")
    if by_fa4 and not model.attention.latent and (generation == 10 or not rules.fa4_page_on_blackwell_only):
        page_size = _FA4_PAGE if (topk or 0) <= 1 or rules.fa4_page_of == PREFILL_ONLY else page_size
    return page_size


def attends_by_index(rules: BackendRules, model: ModelFacts) -> bool:
    """Whether the release knows the model's attention as sparse by an index."""
    attention = model.attention
    return attention.latent and attention.index is not None and model.architecture in rules.index_classes


def attention_backend_default(
    release: str,
    model: ModelFacts,
    server: ServerRequest,
    capability: tuple[int, int] | None,
    speculative: SpeculativeRequest | None = None,
    copies: str | None = None,
    card_mib: int | None = None,
) -> AttentionDefaults:
    """The backends in force, the page size that they insist on, and the data type of the cache that they set.

    C(copies) is the io backend of HiCache, None where HiCache is off.
    """
    rules, flags = backend_rules(release), flags_of(server)
    generation = None if capability is None else capability[0]
    asked_prefill, asked_decode = flags.get("prefill-attention-backend"), flags.get("decode-attention-backend")
    backend, page_size, dtype = server.attention_backend, server.page_size, server.kv_cache_dtype
    nothing_asked = backend is None and asked_prefill is None and asked_decode is None
    models = model_backends(release, model.architecture)
    if asked_prefill is not None and asked_prefill == asked_decode:
        backend = str(asked_prefill)
    attention = model.attention
    if attention.compressed is not None:
        if backend not in (None, *_COMPRESSED_BACKENDS):
            raise Refusal(
                "attention_backend_overridden",
                f"server.attention_backend is {backend}, and SGLang serves {model.architecture} with "
                f"{COMPRESSED_BACKEND} whatever is asked for.",
                f"Leave it out, or set it to {COMPRESSED_BACKEND}.",
                {"attention_backend": backend},
            )
        return AttentionDefaults(
            COMPRESSED_BACKEND,
            str(asked_prefill or COMPRESSED_BACKEND),
            str(asked_decode or COMPRESSED_BACKEND),
            COMPRESSED_PAGE_SIZE,
            "fp8_e4m3" if dtype == "auto" else dtype,
            given=not nothing_asked,
        )
    if attends_by_index(rules, model):
        backend = rules.index_backend if nothing_asked else backend
        page_size = _INDEX_PAGE
        if not rules.index_sets_type:
            dtype = "fp8_e4m3" if generation is not None and generation >= 10 else dtype
        elif dtype == "auto":
            dtype = "fp8_e4m3" if generation is not None and generation >= 10 else "bfloat16"
        dtype = "bfloat16" if dtype == "bf16" and rules.index_sets_type else dtype
    tracked = _tracks_states(server, speculative)
    if attention.state is not None and rules.states_page_one and not tracked:
        page_size = 1
    general = _general(rules, model, generation, speculative, page_size, copies is not None)
    by_model = None
    if backend is None:
        if nothing_asked or not models.yields_to_parts:
            by_model = _of_model(models, generation, general, tracked, dtype, speculative)
        backend = by_model or general
    if by_model is not None and models.page_size is not None and page_size is None:
        page_size = models.page_size
    if models.decode_on_large_hopper is not None and nothing_asked and large_hopper(capability, card_mib):
        asked_decode = models.decode_on_large_hopper
    # Where the model's loading resolves the backend, only one that the arguments resolve has its say about pages.
    named = (backend, str(asked_prefill or backend), str(asked_decode or backend))
    if rules.resolved_with_arguments or not nothing_asked or by_model is not None:
        topk = speculative.eagle_topk if speculative is not None else None
        page_size = _page_of(rules, model, generation, named, asked_prefill, page_size, topk)
    if backend == "fa3" and dtype == "fp8_e5m2":
        backend = "triton"
    if asked_decode is None:
        asked_decode = _decodes_apart(rules, model, generation, backend, copies)
    return AttentionDefaults(
        backend=backend,
        prefill=str(asked_prefill or backend),
        decode=str(asked_decode or backend),
        page_size=page_size or 1,
        kv_cache_dtype=dtype,
        given=not nothing_asked,
    )
