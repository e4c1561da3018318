# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The embedding and head that a draft is loaded with and gives up for its target's, after the pools were sized.

Source: SGLang, managers/scheduler.py C(init_memory_pools) (0.5.14 to 0.5.23): the pools of the target are allocated
first, and only C(alloc_memory_pool) of the draft's worker calls C(init_lm_head), whose C(set_embed_and_head) frees the
draft's own; speculative/eagle_worker_v2.py, models/llama_eagle.py, llama_eagle3.py, deepseek_nextn.py, qwen3_5_mtp.py.
"""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.draft.speculation import Speculation
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import ModelFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_layout import RankLayout
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_parts import EMBEDDING, LM_HEAD
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_shared import (
    embedding_ranks,
    head_ranks,
    is_vocabulary,
    vocabulary_rows,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.speculation_versions import (
    EAGLE,
    EAGLE3,
    TIED_OWN_HEAD,
)

_NOT_COUNTED = (
    "The embedding and head that the draft holds while the pools are sized are not counted: the rows and the width of "
    "the vocabulary are not known (give structure.vocab_size and structure.hidden_size of the model and its draft)."
)
_NOT_IN_FILES = "The draft's files are taken to hold neither embedding nor head of the whole vocabulary."


def draft_vocabulary(
    target: ModelFacts, speculation: Speculation | None, layout: RankLayout
) -> tuple[int, tuple[str, ...]]:
    """(bytes of a rank while the pools are sized, what was taken for granted)."""
    if speculation is None or speculation.algorithm not in (EAGLE, EAGLE3):
        return 0, ()
    draft = speculation.model
    if draft is None and not speculation.own_layers:
        # Its weights are asked for as a whole.
        return 0, ()
    source = draft or target
    shape = _shape(source) or (_shape(target) if draft is not None else None)
    if shape is None:
        return 0, (_NOT_COUNTED,)
    rows, width = shape
    size = 4 if source.dtype == "float32" else 2
    ranks = embedding_ranks(source.architecture, layout)
    found = vocabulary_rows(rows, ranks) * width * size
    if _has_head(target, speculation):
        found += vocabulary_rows(rows, head_ranks(layout)) * width * size
    paper = draft is not None and draft.weights is None
    return found, (_NOT_IN_FILES,) if paper else ()


def _shape(model: ModelFacts) -> tuple[int, int] | None:
    """(rows, width) of the vocabulary."""
    groups = model.weights.groups if model.weights is not None else ()
    table = next((group.shape for group in groups if group.part == EMBEDDING and is_vocabulary(group)), None)
    rows = model.structure.vocab_size or (table[0] if table else None)
    width = table[1] if table else model.structure.hidden_size
    return (rows, width) if rows and width else None


def _has_head(target: ModelFacts, speculation: Speculation) -> bool:
    """Whether a head of the whole vocabulary is loaded that is the target's afterwards."""
    draft = speculation.model
    if draft is None or draft.architecture == target.architecture:
        return not (target.structure.tied and target.architecture in TIED_OWN_HEAD)
    if draft.structure.tied:
        return False
    if speculation.algorithm == EAGLE:
        return True
    # An EAGLE-3 head of a vocabulary of its own stays; one that is not in the files is the target's.
    return draft.weights is not None and all(group.part != LM_HEAD for group in draft.weights.groups)
