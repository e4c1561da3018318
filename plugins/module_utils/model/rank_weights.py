# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What each rank of a TP/PP/EP layout holds of a checkpoint, as SGLang splits it; pure.

Read from SGLang 0.5.23 (0.5.9 alike where not said): layers/linear.py (ColumnParallelLinear, RowParallelLinear,
QKVParallelLinear), layers/vocab_parallel_embedding.py, layers/moe/fused_moe_triton/layer.py (FusedMoE),
distributed/utils.py (get_pp_indices), models/deepseek_v2.py, models/deepseek_common/deepseek_weight_loader.py
(post_load_weights) and the models named beside each set. All tensor-parallel ranks of one pipeline stage hold the same
number of bytes: SGLang pads what does not divide and refuses what it cannot pad.

A name that is not known is taken to be whole on every rank, which is never too little.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_allocation import (
    HeldTensor,
    allocated_bytes,
    merged_name,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_groups import (
    TensorGroup,
    layers_within,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_layout import (
    FLOAT32_ROUTER,
    HEAD_ON_LAST_STAGE,
    VISION_ATTENTION_SPLIT,
    VISION_SPLIT,
    RankLayout,
    check_layout,
    stage_layers,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_parts import (
    ATTENTION,
    DENSE,
    EMBEDDING,
    EXPERT,
    LM_HEAD,
    MTP,
    NORM,
    PROJECTOR,
    SHARED_EXPERT,
    VISION,
    place,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_sharding import (
    Keeping,
    Share,
    Split,
    ceiling,
    held_bytes,
    is_attention,
    split_of,
    stacked_experts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_shared import (
    MLA_ABSORBED,
    POSITION_CACHE,
    WeightFacts,
    derived_tensors,
    is_vocabulary,
    vocabulary_tensors,
)

__all__ = ["MLA_ABSORBED", "POSITION_CACHE", "RankWeights", "StageWeights", "WeightFacts", "rank_weights"]


@dataclass(frozen=True)
class StageWeights:
    """One pipeline stage: what each of its tensor-parallel ranks holds, by part of the model."""

    stage: int
    first_layer: int
    last_layer: int
    by_part: dict[str, int]
    # With what PyTorch's allocator rounds up; this is what a start's log shows as used, but for some 0.1 GiB.
    allocated_bytes: int

    @property
    def weight_bytes(self) -> int:
        return sum(self.by_part.values())

    def as_dict(self) -> dict[str, Any]:
        return {
            "stage": self.stage,
            "first_layer": self.first_layer,
            "last_layer": self.last_layer,
            "by_part": dict(sorted(self.by_part.items())),
            "weight_bytes": self.weight_bytes,
            "allocated_bytes": self.allocated_bytes,
        }


@dataclass(frozen=True)
class RankWeights:
    """Every stage of a layout; C(largest) is the one whose ranks hold most, which is what has to fit."""

    stages: tuple[StageWeights, ...]
    ranks_per_stage: int

    @property
    def largest(self) -> StageWeights:
        return max(self.stages, key=lambda stage: stage.weight_bytes)

    @property
    def all_ranks_bytes(self) -> int:
        """Bytes on all GPUs together, copies included."""
        return self.ranks_per_stage * sum(stage.weight_bytes for stage in self.stages)

    def rank(self, tensor_rank: int, stage: int) -> StageWeights:
        if not 0 <= tensor_rank < self.ranks_per_stage:
            raise IndexError(tensor_rank)
        return self.stages[stage]

    def as_dict(self) -> dict[str, Any]:
        return {
            "ranks_per_stage": self.ranks_per_stage,
            "stages": [stage.as_dict() for stage in self.stages],
            "largest_bytes": self.largest.weight_bytes,
            "all_ranks_bytes": self.all_ranks_bytes,
        }


def rank_weights(facts: WeightFacts, layout: RankLayout) -> RankWeights:
    """Bytes of each stage's ranks; raises Refusal for a layout that SGLang would not start with."""
    layers = facts.structure.num_layers or _layers_of(facts.groups)
    check_layout(facts.structure, facts.groups, layout, layers)
    stages = []
    for stage, (first, last) in enumerate(stage_layers(layers, layout)):
        held = [
            *_checkpoint_tensors(facts, layout, stage, first, last),
            *vocabulary_tensors(facts, layout, stage),
            *derived_tensors(facts, layout, stage, first, last),
        ]
        parts: dict[str, int] = {}
        for item in held:
            parts[item.part] = parts.get(item.part, 0) + item.size_bytes * item.layers
        by_part = {part: size for part, size in parts.items() if size}
        stages.append(StageWeights(stage, first, last, by_part, allocated_bytes(held)))
    return RankWeights(tuple(stages), layout.tensor_parallel)


def _checkpoint_tensors(
    facts: WeightFacts, layout: RankLayout, stage: int, first: int, last: int
) -> Iterator[HeldTensor]:
    for group in facts.groups:
        count, layers = _count(group, facts, layout, stage, first, last)
        if count:
            size = count * _tensor_bytes(group, facts, layout)
            yield HeldTensor(merged_name(group.name), group.part, group.layers, size, layers)


def _layers_of(groups: Iterable[TensorGroup]) -> int:
    return 1 + max((last for group in groups if group.part != MTP for _first, last in group.layers), default=0)


def _count(
    group: TensorGroup, facts: WeightFacts, layout: RankLayout, stage: int, first: int, last: int
) -> tuple[int, int]:
    """(tensors of a group that a rank of this stage holds in one layer, of experts its own share; layers)."""
    if group.part in (EMBEDDING, LM_HEAD) and is_vocabulary(group):
        return 0, 0
    final = stage == layout.pipeline_parallel - 1
    layers = 1
    if group.part == MTP:
        # DeepseekV2WeightLoaderMixin.do_load_weights skips layers beyond num_hidden_layers; a NEXTN draft loads them
        # beside the last stage, without the copies of embedding and head that it shares with the target.
        if not layout.with_mtp or not final or "embed_tokens" in group.name or "shared_head.head" in group.name:
            return 0, 0
        layers = group.count // group.per_layer if group.per_layer else 0
    elif group.layers:
        layers = layers_within(group.layers, first, last)
    elif (group.part == NORM and not final) or (group.part == EMBEDDING and stage):
        # The final norm; a norm right after the embedding would be too small to matter.
        return 0, 0
    elif group.part == LM_HEAD and not final and facts.architecture in HEAD_ON_LAST_STAGE:
        return 0, 0
    count = group.per_layer
    if _draft_part(group) == EXPERT and not stacked_experts(group.name):
        count = _own_experts(count, facts, layout)
    return (count, layers) if layers else (0, 0)


def _own_experts(count: int, facts: WeightFacts, layout: RankLayout) -> int:
    """FusedMoE.__init__: routed experts and the redundant ones over the expert-parallel ranks."""
    experts = facts.structure.num_experts
    redundant = count * layout.redundant_experts // experts if experts else 0
    return ceiling(count + redundant, layout.expert_parallel)


def _draft_part(group: TensorGroup) -> str:
    """The part that a draft layer's tensor would have in the target."""
    return place(group.name.replace("mtp", "draft")).part if group.part == MTP else group.part


def _tensor_bytes(group: TensorGroup, facts: WeightFacts, layout: RankLayout) -> int:
    part = _draft_part(group)
    split = split_of(group.name, part)
    experts = part == EXPERT
    share = Share(
        split,
        _ranks_of(group.name, part, split, facts, layout),
        layout.expert_parallel if experts else 1,
        layout.redundant_experts if experts else 0,
        (facts.structure.num_attention_heads, facts.structure.num_kv_heads),
    )
    copies = layout.nvfp4_scale_copies and experts
    keeping = Keeping(
        facts.method,
        facts.act_order,
        facts.symmetric,
        packed_scales=layout.packed_block_scales,
        scale_copies=copies,
        float32_router=facts.architecture in FLOAT32_ROUTER,
    )
    return held_bytes(group, share, keeping)


def _ranks_of(name: str, part: str, split: Split, facts: WeightFacts, layout: RankLayout) -> int:
    """Over how many ranks this kind of split divides a tensor of this part."""
    if split is Split.WHOLE:
        return 1
    if part == ATTENTION:
        ranks = layout.attention_tensor_parallel
        if split is Split.KV_HEADS and facts.structure.num_kv_heads:
            # QKVParallelLinear: fewer heads than ranks are held once a rank.
            return min(ranks, facts.structure.num_kv_heads)
        return ranks
    if part == EXPERT:
        return layout.expert_tensor_parallel
    if part == SHARED_EXPERT:
        # DeepseekV2MoE, Qwen2MoeSparseMoeBlock: whole beside an all-to-all backend; fused into the routed experts
        # (only without expert parallelism on NVIDIA) they are split just as outside of them.
        return 1 if layout.expert_all_to_all else layout.tensor_parallel
    if part == LM_HEAD:
        return layout.attention_tensor_parallel if layout.dp_lm_head else layout.tensor_parallel
    if part == DENSE:
        return layout.dense_tensor_parallel or layout.tensor_parallel
    if part in (VISION, PROJECTOR) and not layout.whole_vision:
        attention_only = facts.architecture in VISION_ATTENTION_SPLIT and is_attention(name)
        divided = attention_only or facts.architecture in VISION_SPLIT
        return layout.attention_tensor_parallel if divided else 1
    return 1
