# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What SGLang keeps of a GPU for all that is not weights and KV cache, in MiB and by purpose.

Source: SGLang, server_args.py (to 0.5.18) and arg_groups/memory_hook.py; what differs by release is in
sglang/releases/memory_versions.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.multimodal import is_set
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.prefill_graphs import (
    DISABLED,
    PrefillGraphs,
    exchange_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import ServerRequest, SpeculativeRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import ModelFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.memory_versions import (
    ANY,
    BREAKABLE,
    GIB_IN_MIB,
    FractionRules,
)

# Constant data, of attention backends for the most part, and MiB a token of the largest step of prefill.
_CONSTANT_MIB = 512
_MIB_PER_TOKEN = 1.5
_LEAST_TOKENS = 2048
PREFILL_TOKENS_WITHOUT_CHUNKS = 16_384
_MIB_PER_DECODE_GRAPH_ROW = 2
_MIB_PER_ATTENTION_DP_ROW = 3
_MIB_PER_LARGE_ATTENTION_DP_ROW = 1.5
_LARGE_GRAPH = 300
_MIB_PER_PREFILL_GRAPH = 8
_LATENT_PREFILL_GRAPHS_MIB = 1536
_FLOOR_FROM_MIB = 60 * GIB_IN_MIB
_FLOOR_MIB = 10 * GIB_IN_MIB


@dataclass(frozen=True)
class ReserveParts:
    """What a release keeps of a GPU, in MiB, by purpose; parts are None where it names one sum instead."""

    constant: float = 0.0
    activations: float = 0.0
    decode_graphs: float = 0.0
    prefill_graphs: float = 0.0
    parallel: float = 0.0
    attention_dp: float = 0.0
    floor: float = 0.0  # what the least reserve adds
    experts_exchange: float = 0.0
    speculative: float = 0.0
    by_card: float = 0.0  # one sum for the size of the card, in releases that do not tell purposes apart

    @property
    def total(self) -> float:
        return float(sum(getattr(self, field.name) for field in fields(self)))


def draft_mib(rules: FractionRules, speculative: SpeculativeRequest | None) -> float:
    """MiB that a release keeps for a draft."""
    if speculative is None:
        return 0.0
    return float(rules.speculative_mib.get(speculative.algorithm.upper(), rules.speculative_mib[ANY]))


def decodes_without_graphs(flags: Mapping[str, Any]) -> bool:
    """Said by one switch for all graphs, by one of its own, or as a value; which of them is read depends on the
    release."""
    switched = any(is_set(flags, name) for name in ("disable-cuda-graph", "disable-decode-cuda-graph"))
    return switched or flags.get("cuda-graph-backend-decode") == DISABLED


def reserve_parts(
    rules: FractionRules,
    model: ModelFacts,
    server: ServerRequest,
    speculative: SpeculativeRequest | None,
    flags: Mapping[str, Any],
    card_mib: int,
    chunk: int,
    decode: int,
    prefill: PrefillGraphs,
) -> ReserveParts:
    """What a release that tells purposes apart keeps of a card for each."""
    tokens = chunk if chunk > 0 else int(flags.get("max-prefill-tokens") or PREFILL_TOKENS_WITHOUT_CHUNKS)
    uncaptured = rules.frees_disabled_graphs and decodes_without_graphs(flags)
    decode_graphs = 0.0 if uncaptured else decode * _MIB_PER_DECODE_GRAPH_ROW
    replicas, attention_dp = server.attention_data_parallel_size, 0.0
    if replicas > 1:
        attention_dp = float(decode * replicas * _MIB_PER_ATTENTION_DP_ROW)
        if decode > _LARGE_GRAPH:
            attention_dp += decode * replicas * _MIB_PER_LARGE_ATTENTION_DP_ROW
    exchange = exchange_of(flags) == "deepep"
    prefill_mib, late_prefill_mib = 0.0, 0.0
    if prefill.backend != DISABLED:
        if rules.optional_prefill_divisor is not None:
            late_prefill_mib = float(prefill.tokens // rules.optional_prefill_divisor)
        elif model.attention.latent and rules.latent_prefill_apart:
            prefill_mib = float(_LATENT_PREFILL_GRAPHS_MIB)
        else:
            prefill_mib = float(prefill.count * _MIB_PER_PREFILL_GRAPH)
        if exchange and prefill.backend == BREAKABLE:
            prefill_mib += rules.exchange_prefill_mib
    parts = ReserveParts(
        constant=_CONSTANT_MIB,
        activations=max(tokens, _LEAST_TOKENS) * _MIB_PER_TOKEN,
        decode_graphs=decode_graphs,
        prefill_graphs=prefill_mib,
        parallel=server.ranks / 8 * GIB_IN_MIB,
        attention_dp=attention_dp,
    )
    floor = max(0.0, _FLOOR_MIB - parts.total) if card_mib > _FLOOR_FROM_MIB else 0.0
    return ReserveParts(
        **{
            **{field.name: getattr(parts, field.name) for field in fields(parts)},
            "prefill_graphs": prefill_mib + late_prefill_mib,
            "floor": floor,
            "experts_exchange": float(rules.exchange_mib) if exchange and not uncaptured else 0.0,
            "speculative": draft_mib(rules, speculative),
        }
    )
