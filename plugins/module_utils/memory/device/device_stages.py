# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pipeline stages of a layout, each with its layers and the bytes of a token in them; one without a pipeline.

Source: SGLang, distributed/utils.py C(get_pp_indices); model_runner.py C(adjust_hybrid_swa_layers_for_pp).
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cache_type import CacheType
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cell_size import (
    CellSizes,
    Draft,
    Layout,
    cell_sizes,
    stages,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import Attention
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pool_versions import PoolFacts


@dataclass(frozen=True)
class Stage:
    """One pipeline stage: its layers, and the bytes of a token in those whose caches it keeps."""

    layers: range
    cells: CellSizes
    state_layers: int
    keeps_all_layers: bool = False


def stages_of(
    attention: Attention,
    layout: Layout,
    cache: CacheType,
    pools: PoolFacts,
    draft: Draft | None,
    keeps_all_layers: bool = False,
) -> tuple[Stage, ...]:
    """C(keeps_all_layers): the pools of a stage are those of all layers, whichever it computes."""
    state = attention.state.layers if attention.state is not None else ()
    found = []
    for layers in stages(attention.num_layers, layout.pipeline_parallel_size, pools.pipeline_division):
        own = range(attention.num_layers) if keeps_all_layers else layers
        if attention.window is not None and pools.window_stage_overlaps and not keeps_all_layers:
            own = range(layers.start, min(layers.stop + 1, attention.num_layers))
        cells = cell_sizes(attention, layout, cache, pools, own, draft)
        states = len([layer for layer in state if keeps_all_layers or layer in layers])
        found.append(Stage(layers, cells, states, keeps_all_layers))
    return tuple(found)


def stage_lines(found: tuple[Stage, ...]) -> list[str]:
    """The bytes of a token in words."""
    if len(found) == 1:
        return list(found[0].cells.explanation)
    if found[0].keeps_all_layers:
        # All alike.
        return [
            f"each of the {len(found)} stages keeps the caches of all layers: this model class does not tell the "
            "layers of a stage",
            *found[0].cells.explanation,
        ]
    return [
        f"stage {number}, layers {stage.layers.start} to {stage.layers.stop - 1}: {line}"
        for number, stage in enumerate(found)
        for line in stage.cells.explanation
    ]
