# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the weights take of a GPU: tensor by tensor where the checkpoint was read, else its size over the ranks.

The split is model/rank_weights.py; here it is asked for the layout of one server, and for its draft.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cell_size import stages
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.draft.draft_vocabulary import draft_vocabulary
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.draft.speculation import Speculation
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.device_fraction import capability_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.multimodal import flags_of, is_set
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import ServerRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gib
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import ModelFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.rank_weights import RankWeights, rank_weights
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_layout import RankLayout
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_parts import EMBEDDING, LM_HEAD
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_shared import WeightFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import GpuFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pool_versions import PoolFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.speculation_versions import EAGLE, EAGLE3

EVEN = (
    "The weights divide evenly over the ranks and take no more on the GPU than in the files "
    "(give observed.available_after_load_bytes to replace this)."
)
# Which kernel serves four-bit floats is decided at run time, and some keep a copy in a layout of their own.
FOUR_BIT_METHODS = frozenset({"modelopt_fp4", "nvfp4_online", "petit_nvfp4", "mxfp4", "quark_mxfp4", "mxfp_w4a8"})


@dataclass(frozen=True)
class DeviceWeights:
    """Bytes of a rank of each stage, of the draft apart; None where nothing is known of them.

    C(draft_bytes) stay, C(draft_vocabulary_bytes) lie beside them only until the pools are sized.
    """

    stages: tuple[int, ...] | None
    draft_bytes: int | None
    explanation: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    draft_vocabulary_bytes: int = 0

    @property
    def largest(self) -> int | None:
        return max(self.stages) if self.stages else None


def device_weights(
    model: ModelFacts,
    server: ServerRequest,
    pools: PoolFacts,
    speculation: Speculation | None,
    gpus: tuple[GpuFacts, ...],
) -> DeviceWeights:
    draft, told = _draft_weights(model, server, pools, speculation, gpus)
    layout = _layout(model, server, pools, speculation, gpus)
    vocabulary = 0
    if speculation is not None and speculation.counts_draft_weights:
        vocabulary, said = draft_vocabulary(model, speculation, layout)
        told = (*told, *said)
    if model.weights is not None:
        held = rank_weights(model.weights, layout)
        assumptions = [*told]
        if (model.weights.method or "") in FOUR_BIT_METHODS:
            assumptions.append(
                "Weights in four-bit floats are taken to lie on the GPU as in the files; some kernels keep a copy in "
                "a layout of their own."
            )
        return DeviceWeights(
            tuple(stage.allocated_bytes for stage in held.stages), draft, _words(held), tuple(assumptions), vocabulary
        )
    if model.weights_bytes is None:
        return DeviceWeights(None, draft, (), told, vocabulary)
    even = math.ceil(model.weights_bytes / server.ranks)
    return DeviceWeights((even,) * server.pipeline_parallel_size, draft, (), (EVEN, *told), vocabulary)


def _layout(
    model: ModelFacts,
    server: ServerRequest,
    pools: PoolFacts,
    speculation: Speculation | None,
    gpus: tuple[GpuFacts, ...],
) -> RankLayout:
    flags = flags_of(server)
    partition = None
    layers = model.weights.structure.num_layers if model.weights is not None else None
    if server.pipeline_parallel_size > 1 and layers:
        every = stages(layers, server.pipeline_parallel_size, pools.pipeline_division)
        partition = tuple(len(stage) for stage in every)
    capability = capability_of(gpus)
    return RankLayout(
        tensor_parallel=server.tensor_parallel_size,
        pipeline_parallel=server.pipeline_parallel_size,
        expert_parallel=server.expert_parallel_size,
        attention_data_parallel=server.attention_data_parallel_size,
        dense_tensor_parallel=1 if str(flags.get("moe-dense-tp-size")) == "1" else None,
        expert_all_to_all=str(flags.get("moe-a2a-backend", "none")) != "none",
        redundant_experts=_count(flags, "ep-num-redundant-experts"),
        dp_lm_head=is_set(flags, "enable-dp-lm-head"),
        whole_vision=is_set(flags, "mm-enable-dp-encoder"),
        speculative=speculation is not None,
        layer_partition=partition,
        packed_block_scales=capability is not None and capability[0] == 10,
        nvfp4_scale_copies=pools.copies_fp4_scales,
    )


def _count(flags: Mapping[str, Any], flag: str) -> int:
    value = str(flags.get(flag, "0"))
    return int(value) if value.isascii() and value.isdigit() and len(value) < 7 else 0


def _draft_weights(
    model: ModelFacts,
    server: ServerRequest,
    pools: PoolFacts,
    speculation: Speculation | None,
    gpus: tuple[GpuFacts, ...],
) -> tuple[int | None, tuple[str, ...]]:
    """(bytes of the draft on one rank, what was taken for granted); 0 where nothing is loaded for it."""
    if speculation is None or (speculation.known and speculation.draft is None):
        return 0, ()
    if speculation.own_layers:
        if model.weights is None:
            return 0, ("The layers that draft are within the size of the model's weights.",)
        layout = _layout(model, server, pools, speculation, gpus)
        without, beside = (
            rank_weights(model.weights, layout),
            rank_weights(model.weights, replace(layout, with_mtp=True)),
        )
        return beside.stages[-1].allocated_bytes - without.stages[-1].allocated_bytes, ()
    draft = speculation.model
    if draft is None:
        return None, ()
    if draft.weights is not None:
        layout = _layout(draft, server, pools, None, gpus)
        return rank_weights(_own_tensors(draft.weights, speculation.algorithm), layout).largest.allocated_bytes, ()
    if draft.weights_bytes is None:
        return None, ()
    return math.ceil(draft.weights_bytes / server.ranks), (
        "The draft's weights divide evenly over the ranks and take no more on the GPU than in the files.",
    )


def _own_tensors(facts: WeightFacts, algorithm: str) -> WeightFacts:
    """Without what a draft takes from its target in the end; draft_vocabulary.py counts what it has of it before."""
    shared = {EAGLE: (EMBEDDING, LM_HEAD), EAGLE3: (EMBEDDING,)}.get(algorithm, ())
    if not shared:
        return facts
    # An EAGLE-3 head has a vocabulary of its own, which its tensor tells and its configuration does not.
    structure = replace(facts.structure, vocab_size=None)
    return replace(
        facts, structure=structure, groups=tuple(group for group in facts.groups if group.part not in shared)
    )


def _words(held: RankWeights) -> tuple[str, ...]:
    if len(held.stages) == 1:
        stage = held.stages[0]
        largest = sorted(stage.by_part.items(), key=lambda item: -item[1])[:4]
        parts = ", ".join(f"{part.replace('_', ' ')} {format_gib(size)}" for part, size in largest)
        return (f"weights a rank = {format_gib(stage.allocated_bytes)} as allocated ({parts})",)
    return tuple(
        f"weights a rank of stage {stage.stage} (layers {stage.first_layer} to {stage.last_layer}) = "
        f"{format_gib(stage.allocated_bytes)} as allocated"
        for stage in held.stages
    )
