# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a rank holds beside the tensors of its layers: embedding and head, and what SGLang derives after loading; pure.

Read from layers/vocab_parallel_embedding.py, models/deepseek_common/deepseek_weight_loader.py and
layers/rotary_embedding/base.py of SGLang 0.5.23.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_allocation import HeldTensor
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_groups import (
    TensorGroup,
    layers_within,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_layout import (
    EMBEDDING_OVER_ALL_RANKS,
    EMBEDDING_WHOLE_WITH_DP_ATTENTION,
    HEAD_ON_LAST_STAGE,
    RankLayout,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_parts import (
    ATTENTION,
    EMBEDDING,
    LM_HEAD,
    MTP,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_sharding import round_up
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_structure import ModelStructure

# Parts of a rank that no tensor of the checkpoint has.
MLA_ABSORBED, POSITION_CACHE = "mla_absorbed", "position_cache"
VOCAB_PADDING = 64


@dataclass(frozen=True)
class WeightFacts:
    """A checkpoint as model_info tells it. C(method) is its quantisation in SGLang's words."""

    architecture: str
    structure: ModelStructure
    groups: tuple[TensorGroup, ...]
    method: str | None = None
    block: tuple[int, ...] | None = None
    act_order: bool = False
    symmetric: bool = True


def vocabulary_tensors(facts: WeightFacts, layout: RankLayout, stage: int) -> Iterator[HeldTensor]:
    """Embedding on the first stage, head on the last; tied weights are one tensor only where both are on one stage."""
    embedding = _vocabulary(facts.groups, EMBEDDING)
    head = _vocabulary(facts.groups, LM_HEAD)
    tied = facts.structure.tied if facts.structure.tied is not None else head is None
    final = stage == layout.pipeline_parallel - 1
    if embedding is not None and (stage == 0 or (final and layout.speculative and _mla(facts))):
        ranks = embedding_ranks(facts.architecture, layout)
        yield HeldTensor(EMBEDDING, EMBEDDING, (), _vocabulary_bytes(embedding, facts, ranks), 1)
    if head is None and any(group.part == LM_HEAD and not group.scale for group in facts.groups):
        # A quantised head has no rows of its own; its tensors are divided as any others.
        return
    source = head or embedding
    if source is None or (tied and layout.pipeline_parallel == 1):
        return
    if final or facts.architecture not in HEAD_ON_LAST_STAGE:
        yield HeldTensor(LM_HEAD, LM_HEAD, (), _vocabulary_bytes(source, facts, head_ranks(layout)), 1)


def embedding_ranks(architecture: str, layout: RankLayout) -> int:
    """Over how many ranks the rows of the embedding are divided."""
    if architecture in EMBEDDING_OVER_ALL_RANKS:
        return layout.tensor_parallel
    if layout.attention_data_parallel > 1 and architecture in EMBEDDING_WHOLE_WITH_DP_ATTENTION:
        return 1
    return layout.attention_tensor_parallel


def head_ranks(layout: RankLayout) -> int:
    return layout.attention_tensor_parallel if layout.dp_lm_head else layout.tensor_parallel


def vocabulary_rows(rows: int, ranks: int) -> int:
    """Of one rank; VocabParallelEmbedding.__init__ pads to 64, or to 64 x ranks where that does not divide."""
    padded = round_up(rows, VOCAB_PADDING)
    if padded % ranks:
        padded = round_up(rows, VOCAB_PADDING * ranks)
    return padded // ranks


def _mla(facts: WeightFacts) -> bool:
    """Whether pp_stage_needs_embedding of models/deepseek_v2.py applies: the draft takes the last stage's embedding."""
    return any(".kv_b_proj." in group.name for group in facts.groups)


def _vocabulary(groups: Iterable[TensorGroup], part: str) -> TensorGroup | None:
    return next((group for group in groups if group.part == part and is_vocabulary(group)), None)


def _vocabulary_bytes(group: TensorGroup, facts: WeightFacts, ranks: int) -> int:
    rows, width = group.shape or (0, 0)
    rows = facts.structure.vocab_size or rows
    return vocabulary_rows(rows, ranks) * width * (1 if group.dtype.startswith("F8") else 2)


def derived_tensors(facts: WeightFacts, layout: RankLayout, stage: int, first: int, last: int) -> Iterator[HeldTensor]:
    drafted = layout.with_mtp and stage == layout.pipeline_parallel - 1
    for group in facts.groups:
        # The draft's layers lie beyond the last stage's.
        drafts = group.count if drafted and group.part == MTP else 0
        layers = drafts or layers_within(group.layers, first, last)
        size = _absorbed_bytes(group, facts, layout)
        if size and layers:
            for name in ("w_kc", "w_vc"):
                yield HeldTensor(name, MLA_ABSORBED, group.layers, size // 2, layers)
    structure = facts.structure
    if structure.max_position_embeddings and structure.rotary_dim:
        # layers/rotary_embedding/base.py: cosines and sines of all positions in float32, one table for all layers.
        size = structure.max_position_embeddings * structure.rotary_dim * 4
        yield HeldTensor(POSITION_CACHE, POSITION_CACHE, (), size, 1)


def _absorbed_bytes(group: TensorGroup, facts: WeightFacts, layout: RankLayout) -> int:
    """post_load_weights of models/deepseek_common/deepseek_weight_loader.py: w_kc and w_vc are copies of kv_b_proj.

    In bfloat16 for weights of 16 bits, of 128 x 128 blocks on NVIDIA and of AWQ; else FP8 stays FP8.
    """
    if ".kv_b_proj." not in group.name or group.scale or group.shape is None or group.part not in (ATTENTION, MTP):
        return 0
    # Eight values of 4 bits a number.
    elements = math.prod(group.shape) * (8 if group.dtype == "I32" else 1)
    eight_bits = group.dtype.startswith("F8") and (facts.block is None or layout.hardware == "rocm")
    return elements // layout.attention_tensor_parallel * (1 if eight_bits else 2)


def is_vocabulary(group: TensorGroup) -> bool:
    return group.shape is not None and len(group.shape) == 2 and not group.scale and group.name.endswith(".weight")
