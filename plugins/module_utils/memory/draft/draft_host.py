# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a token of the draft takes in its host pool, which is not always what it takes on the device.

Source: SGLang, managers/scheduler.py C(_maybe_register_hicache_draft) (0.5.11, 0.5.12), mem_cache/kv_cache_builder.py
(to 0.5.17), mem_cache/hybrid_cache/hybrid_pool_assembler.py C(build_full_draft_pools) after.
"""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cell_size import (
    DRAFT,
    index_row_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_division import Division


def draft_host_bytes(division: Division) -> int | None:
    """Bytes a token; None where no draft has a cache of its own, or the release keeps that on the device only."""
    speculation, cells = division.speculation, division.stages[-1].cells
    if speculation is None or speculation.draft is None or not division.facts.host_draft:
        return None
    shape = speculation.draft.attention or division.attention
    if shape.index is None or division.facts.host_draft_whole:
        return cells.pools[DRAFT]
    # A latent pool of plain rows, whatever those on the device carry beside.
    width = (shape.kv_lora_rank or 0) + (shape.qk_rope_head_dim or 0)
    return width * division.cache.element_bytes * speculation.draft.layers


def draft_index_bytes(division: Division) -> int:
    """The bytes of a token of the draft's host pool that are index keys."""
    if draft_host_bytes(division) is None or not division.facts.host_draft_whole:
        return 0
    draft = division.speculation.draft if division.speculation is not None else None
    shape = division.attention if draft is None else draft.attention or division.attention
    if draft is None or not shape.latent or shape.index is None:
        return 0
    return index_row_bytes(shape.index.head_dim) * draft.layers
