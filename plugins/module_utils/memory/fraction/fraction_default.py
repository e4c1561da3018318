# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""mem_fraction_static as a server chooses it by itself, and the reserve behind it: what it keeps for which purpose.

Source: SGLang, server_args.py (to 0.5.18) and arg_groups/memory_hook.py; what differs by release is in
sglang/releases/memory_versions.py. C(card_mib) is what C(nvidia-smi --query-gpu=memory.total) prints, the minimum over
the GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.environment import (
    AFTER_CAPTURE,
    CUSTOM_POOL,
    switched_on,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.attention_backend import (
    attends_by_index,
    attention_backend_default,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.multimodal import (
    flags_of,
    is_set,
    multimodal_in_force,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.prefill_graphs import (
    DISABLED,
    PrefillGraphs,
    exchange_of,
    prefill_graphs,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.reserve_parts import (
    ReserveParts,
    decodes_without_graphs,
    draft_mib,
    reserve_parts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import ServerRequest, SpeculativeRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import ModelFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.backend_versions import backend_rules
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.memory_versions import (
    BY_CARD,
    BY_RANKS,
    GIB_IN_MIB,
    TENTH,
    TENTH_AT_LOAD,
    FractionRules,
    fraction_rules,
    large_hopper,
)

# C(post_capture_kv_sizing_planned): chunks that outgrow the graphs; what else it names is not planned at all.
_NEVER_AFTER_CAPTURE = "enable-dynamic-chunking"


@dataclass(frozen=True)
class FractionDefault:
    """C(fraction) is what the server keeps as its argument; C(factor) is what the model's tower makes of it, there or
    when the model is loaded. C(chunk) and C(prefill) are as attention DP leaves them."""

    fraction: float
    chunk: int
    decode_graph: int | None
    prefill: PrefillGraphs
    parts: ReserveParts
    tower_factor: float
    tower_mib: float
    formula: str
    after_capture: bool  # the KV cache is sized once the graphs are captured
    forced: bool  # a fraction that is given is overwritten with it


def tower_factor(layers: int, hidden_size: int) -> float:
    """How a vision tower lowers the fraction: by 5 % for one of ViT-L's size, and a tenth more for each size of it."""
    size = layers * hidden_size**2 / (24 * 1024**2)
    return 0.95 * max(0.8, min(1.05, 1.0 - 0.1 * (size - 1.0)))


def factor_of_load(release: str, model: ModelFacts, server: ServerRequest) -> float:
    """What loading a model makes of any fraction, a given one too."""
    at_load = fraction_rules(release).tower == TENTH_AT_LOAD
    return 0.9 if at_load and multimodal_in_force(release, model, server) else 1.0


def _factor(rules: FractionRules, model: ModelFacts, release: str) -> float:
    if rules.tower == TENTH_AT_LOAD:
        return 1.0
    if rules.tower == TENTH:
        return 0.9
    if model.vision is None:
        raise Refusal(
            "mem_fraction_static_unknown",
            f"mem_fraction_static is not set and its default cannot be computed: SGLang {release} lowers it by the "
            f"size of the vision tower of {model.architecture}, which is not known.",
            "Give model.vision as gpufleet.sglang.model_info returns it, or set mem_fraction_static.",
            {"architecture": model.architecture},
        )
    layers, hidden_size = model.vision.num_hidden_layers, model.vision.hidden_size
    return 1.0 if layers is None or hidden_size is None else tower_factor(layers, hidden_size)


def _share_by_ranks(card_mib: int, ranks: int, drafts: bool) -> float:
    """The table of 0.4.7: a share by the number of ranks, and more of large cards."""
    share = 0.88
    if card_mib <= 81_920:
        share = next(
            share for least, share in ((16, 0.79), (8, 0.81), (4, 0.85), (2, 0.87), (0, 0.88)) if ranks >= least
        )
    if card_mib > 180_000:
        return 0.79
    if card_mib > 96 * GIB_IN_MIB:
        reserve = (20 if drafts else 18) * GIB_IN_MIB
        return min(share + 48 * GIB_IN_MIB * (1 - share) / card_mib, (card_mib - reserve) / card_mib)
    return share * 0.95 if drafts else share


def _sized_after_capture(
    rules: FractionRules,
    model: ModelFacts,
    server: ServerRequest,
    chunk: int,
    prefill: PrefillGraphs,
    flags: Mapping[str, Any],
) -> bool:
    """Whether the KV cache is sized once graphs are captured, so that no reserve is made for them."""
    return (
        rules.after_capture_mib is not None
        and switched_on(server.environment, AFTER_CAPTURE)
        and CUSTOM_POOL not in server.environment
        and server.device == "cuda"
        and not (rules.fp4_before_capture and server.kv_cache_dtype == "fp4_e2m1")
        and not is_set(flags, _NEVER_AFTER_CAPTURE)
        and not decodes_without_graphs(flags)
        and not model.attention.latent
        and model.attention.family != "sparse"
        and prefill.backend != DISABLED
        and 0 < chunk <= prefill.largest
    )


def _uncaptured_by_experts(
    rules: FractionRules, model: ModelFacts, flags: Mapping[str, Any], capability: tuple[int, int] | None
) -> bool:
    quantizations = rules.uncaptured_experts.get(model.architecture)
    return (
        quantizations is not None
        and (flags.get("quantization") or model.quantization) in quantizations
        and capability is not None
        and capability[0] == 10
        and exchange_of(flags) == "none"
        and flags.get("moe-runner-backend") in (None, "auto", "flashinfer_trtllm")
        and not is_set(flags, "enforce-piecewise-cuda-graph")
    )


def _decode_graph(
    rules: FractionRules,
    model: ModelFacts,
    server: ServerRequest,
    flags: Mapping[str, Any],
    card_mib: int | None,
    capability: tuple[int, int] | None,
    default: int | None,
) -> int | None:
    given = flags.get("cuda-graph-max-bs-decode", flags.get("cuda-graph-max-bs"))
    if given is not None:
        return int(given)
    running, graph = server.max_running_requests, default
    if running is None or graph is None:
        return graph
    if rules.running_requests_cap_graphs:
        graph = min(graph, running)
    raises = rules.running_requests_raise_graphs and model.architecture.startswith("Qwen3VL")
    if raises and running <= 512 and large_hopper(capability, card_mib):
        graph = max(graph, running)
    return graph


def fraction_default(
    release: str,
    model: ModelFacts,
    server: ServerRequest,
    card_mib: int | None,
    capability: tuple[int, int] | None = None,
    speculative: SpeculativeRequest | None = None,
    copies: str | None = None,
) -> FractionDefault:
    """The fraction of a release for a request, or a Refusal where it depends on a fact that is not known.

    C(copies) is the io backend of HiCache, None where HiCache is off.
    """
    rules, flags = fraction_rules(release), flags_of(server)
    cards = (
        rules.unknown_card if card_mib is None else next(card for card in rules.classes if card_mib < card.below_mib)
    )
    chunk = cards.chunk if server.chunked_prefill_size is None else server.chunked_prefill_size
    decode = _decode_graph(
        rules,
        model,
        server,
        flags,
        card_mib,
        capability,
        cards.decode_graph if server.tensor_parallel_size < 4 else cards.decode_graph_wide,
    )
    multimodal = multimodal_in_force(release, model, server)
    prefill = prefill_graphs(rules, model, server, speculative, copies is not None, multimodal, chunk)
    after = _sized_after_capture(rules, model, server, chunk, prefill, flags)
    if after:
        parts = ReserveParts(constant=float(rules.after_capture_mib or 0), parallel=server.ranks / 8 * GIB_IN_MIB)
    elif card_mib is None or rules.form == BY_RANKS:
        parts = ReserveParts()
    elif rules.form == BY_CARD:
        slack = next(slack for slack in rules.slack if card_mib < slack.below_mib)
        parts = ReserveParts(
            by_card=slack.reserve_mib,
            parallel=slack.rank_mib * server.ranks,
            attention_dp=4.0 * GIB_IN_MIB if server.attention_data_parallel_size > 1 else 0.0,
            speculative=draft_mib(rules, speculative),
        )
    else:
        parts = reserve_parts(rules, model, server, speculative, flags, card_mib, chunk, decode or 0, prefill)
    if card_mib is None:
        fraction, formula = rules.fraction_of_unknown_card, "the value of a server without a GPU"
    elif rules.form == BY_RANKS:
        fraction = _share_by_ranks(card_mib, server.ranks, speculative is not None)
        formula = f"the share of {card_mib:,} MiB with {server.ranks} rank{'s' if server.ranks > 1 else ''}"
    else:
        fraction = round((card_mib - parts.total) / card_mib, 3)
        formula = f"({card_mib:,} - {parts.total:,.0f}) MiB / {card_mib:,} MiB = {fraction}"
    factor, tower_mib = 1.0, 0.0
    if after and rules.after_capture_tower_mib and multimodal:
        tower_mib = float(rules.after_capture_tower_mib)
        fraction -= tower_mib / (card_mib or float("inf"))
        formula += f", less {tower_mib:,.0f} MiB for the vision tower"
    elif multimodal:
        factor = _factor(rules, model, release)
        fraction *= factor
        if factor != 1.0:
            formula += f", x {factor:.4f} for the vision tower"
    attention = attention_backend_default(release, model, server, capability, speculative, copies, card_mib)
    by_backend = attention.prefill == "trtllm_mla" and model.architecture in rules.uncaptured_with_trtllm_mla
    if by_backend or _uncaptured_by_experts(rules, model, flags, capability):
        # Decided after the reserve was.
        prefill = PrefillGraphs(DISABLED, prefill.tokens, 0)
    replicas, forced, backends = server.attention_data_parallel_size, False, backend_rules(release)
    if attends_by_index(backends, model):
        if backends.index_sets_attention_dp:
            replicas = server.tensor_parallel_size
        if rules.fraction_of_index is not None:
            fraction, forced = rules.fraction_of_index, True
            parts = ReserveParts(by_card=(card_mib or 0) * (1 - fraction))
            formula = f"{fraction}, which it sets for {model.architecture} whatever was asked for"
    if replicas > 1:
        chunk //= replicas
        prefill = prefill.within(chunk) if rules.attention_dp_cuts_prefill else prefill
    if multimodal and model.architecture in rules.unchunked:
        chunk = -1
    return FractionDefault(fraction, chunk, decode, prefill, parts, factor, tower_mib, formula, after, forced)
