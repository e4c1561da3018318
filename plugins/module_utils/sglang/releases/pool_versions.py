# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What differs between SGLang releases in the size of the pools, as data; the companion of versions.py.

The budget of a token is C(get_cell_size_per_token) in model_executor/model_runner.py (to 0.5.6) and
model_runner_kv_cache_mixin.py (to 0.5.10), then model_executor/pool_configurator.py; the pools themselves are
mem_cache/memory_pool.py, swa_memory_pool.py and, on the host, memory_pool_host.py and pool_host/. Every row was read
in the wheel of its release, by comparing the source of these functions from release to release.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import parse_version, value_at

# How a release divides the layers of pipeline stages (distributed/utils.py get_pp_indices).
REST_ON_LAST, REST_SPREAD = "rest_on_last", "rest_spread"
# How the tokens of full and window pools come out of one budget.
TWO_STEPS, TWO_STEPS_PAGED, ONE_STEP = "two_steps", "two_steps_paged", "one_step"
# How states that verify drafts are taken off the budget.
STATES_BEFORE, STATES_JOINT, STATES_JOINT_PADDED = "before", "joint", "joint_padded"
# What a four-bit cache is counted at.
FP4_BLOCKS, FP4_WORKSPACE, FP4_RECIPE = "blocks", "blocks_and_workspace", "recipe"
# Where the index keys of sparse attention lie on the host.
INDEX_JOINED, INDEX_BESIDE = "joined", "beside"


@dataclass(frozen=True)
class PoolFacts:
    """What the size of pools depends on in one release."""

    plans_hybrids: bool  # windows, states and indexes: planned from here on
    counts_value_width: bool  # the budget adds v_head_dim instead of doubling head_dim
    allocates_value_width: bool  # and so does the pool of plain heads
    draft_headroom: bool  # tokens are added for drafts after the division
    counts_draft: bool  # the budget of a token includes the draft's layers
    counts_draft_with_window: bool  # in models with a window pool
    draft_index_apart: bool  # the draft's index keys are added by themselves
    draft_part_rounded: bool  # the draft's part is rounded down, else the sum
    draft_window_layers: bool  # a draft's window layers are counted in the window pool
    counts_index_scales: bool  # FP8 rows with scales are budgeted at their own width
    raw_index_rows_on_blackwell: bool  # FP8 rows without scales are the default on compute capability 10 and above
    elides_shared_index: bool  # layers that reuse another layer's top tokens keep no index keys
    window_split: str
    window_floor: bool  # a window pool below one request is refused
    state_padding_slot: bool  # the budget counts the pool's padding slot
    state_drafts: str
    state_stage_share: bool  # a pipeline stage is charged its own layers' states
    pipeline_division: str
    pipeline_synced: bool  # the fewest tokens of all pipeline stages are those of each
    window_stage_overlaps: bool  # a stage keeps the first layer of the next one as well, in models with windows
    copies_fp4_scales: bool  # block scales of NVFP4 experts stay beside their swizzled copy
    fp4: str | None
    mxfp8: bool
    sparse: bool
    host_windows: bool
    host_states: bool
    host_value_width: bool  # the host pool of plain heads has the values' own width
    host_index: str | None
    host_draft: bool  # the draft's cache has a host pool
    host_draft_whole: bool  # with the form of its rows on the device, and with its index keys
    splits_size: bool  # --hicache-size is divided between the KV, window and state pools


# Releases before were read for plain heads and latent caches only.
_HYBRIDS = (("0.4.7", False), ("0.5.9", True))
_VALUE_WIDTH = (("0.4.7", False), ("0.5.7", True))
_VALUE_WIDTH_POOL = (("0.4.7", False), ("0.5.11", True))
# draft_runner_cache_size = tokens + requests x (steps x topk + draft tokens) + 100.
_DRAFT_HEADROOM = (("0.4.7", True), ("0.5.7", False))
_DRAFT_COUNTED = (("0.4.7", False), ("0.5.14", True))
_DRAFT_COUNTED_WINDOW = (("0.4.7", False), ("0.5.15", True))
_DRAFT_INDEX_APART = (("0.4.7", False), ("0.5.18", True))
# int(cell x (1 + draft / layers)) before, cell + int(cell x draft / layers) from here on.
_DRAFT_PART_ROUNDED = (("0.4.7", False), ("0.5.22", True))
_DRAFT_WINDOW_LAYERS = (("0.4.7", False), ("0.5.19", True))
# calculate_mla_kv_cache_dim sizes the pool from 0.5.9 on, and the budget from 0.5.17 on.
_INDEX_SCALES = (("0.4.7", False), ("0.5.17", True))
# _set_default_nsa_backends, later arg_groups/overrides.py _dsa_split_backend_resolution: trtllm reads raw rows.
_RAW_ROWS_BLACKWELL = (("0.4.7", False), ("0.5.10", True))
_ELIDES_INDEX = (("0.4.7", False), ("0.5.18", True))
# set_num_tokens_hybrid_swa; _resolve_hybrid_swa_tokens takes the window's part of whole pages; calculate_pool_sizes.
_WINDOW_SPLIT = (("0.4.7", TWO_STEPS), ("0.5.10", TWO_STEPS_PAGED), ("0.5.11", ONE_STEP))
_WINDOW_FLOOR = (("0.4.7", False), ("0.5.16", True))
_STATE_PADDING = (("0.4.7", False), ("0.5.17", True))
_STATE_DRAFTS = (("0.4.7", STATES_BEFORE), ("0.5.13", STATES_JOINT), ("0.5.17", STATES_JOINT_PADDED))
_STATE_STAGE = (("0.4.7", False), ("0.5.17", True))
_PIPELINE = (("0.4.7", REST_ON_LAST), ("0.5.6", REST_SPREAD))
# model_runner.py init_memory_pool: all_reduce(MIN) over the world.
_PIPELINE_SYNC = (("0.4.7", False), ("0.5.2", True))
# model_runner.py, later model_runner_components/layer_setup.py: layers up to end_layer + 1 are a stage's own.
_WINDOW_STAGE = (("0.4.7", True), ("0.5.21", False))
# layers/quantization/modelopt_quant.py
_FP4_COPIES = (("0.4.7", True), ("0.5.10", False))
_FP4: tuple[tuple[str, str | None], ...] = (
    ("0.4.7", None),
    ("0.5.5", FP4_BLOCKS),
    ("0.5.16", FP4_WORKSPACE),
    ("0.5.21", FP4_RECIPE),
)
_MXFP8 = (("0.4.7", False), ("0.5.16", True))
_SPARSE = (("0.4.7", False), ("0.5.16", True))
# mem_cache/registry.py: hybrid models go through the unified tree by default from 0.5.13; HiRadixCache raises before.
_HOST_WINDOWS = (("0.4.7", False), ("0.5.13", True))
# hi_mamba_radix_cache.py
_HOST_STATES = (("0.4.7", False), ("0.5.10", True))
# memory_pool_host.py get_mha_host_pool_cls; before, values are copied by the width of the keys.
_HOST_VALUE_WIDTH = (("0.4.7", False), ("0.5.14", True))
# NSATokenToKVPoolHost holds both in one pool; NSAIndexerPoolHost is a pool beside.
_HOST_INDEX: tuple[tuple[str, str | None], ...] = (
    ("0.4.7", None),
    ("0.5.9", INDEX_JOINED),
    ("0.5.11", INDEX_BESIDE),
)
# scheduler.py _maybe_register_hicache_draft; a latent pool of plain rows whatever the device's are, until
# hybrid_pool_assembler.py build_full_draft_pools gave it kv_cache_dim and DSAIndexerPoolHost.
_HOST_DRAFT = (("0.4.7", False), ("0.5.11", True))
_HOST_DRAFT_WHOLE = (("0.4.7", False), ("0.5.18", True))
# hybrid_pool_assembler.py _split_hicache_size; each pool took the whole size before.
_SPLITS_SIZE = (("0.4.7", False), ("0.5.17", True))

# swa_full_tokens_ratio and mamba_full_memory_ratio of every release (arg_groups/fields/schedule.py).
DEFAULT_WINDOW_RATIO = 0.8
DEFAULT_STATE_RATIO = 0.9

# What switches a model's window pool off: (beginning of the model class, attention backend or HICACHE, first release,
# last release or None). server_args.py, arg_groups/overrides.py disable_hybrid_swa_memory.
HICACHE = "hicache"
_WINDOW_OFF: tuple[tuple[str, str, str, str | None], ...] = (
    ("GptOss", "trtllm_mha", "0.5.8", "0.5.9"),
    ("MiMoV2", HICACHE, "0.5.7", "0.5.13"),
    ("Step3p", HICACHE, "0.5.9", None),
)


def window_off(architecture: str, version: str, causes: frozenset[str]) -> str | None:
    """Which of C(causes) (attention backends, or HICACHE) makes a release keep all tokens of this model's windows."""
    for beginning, cause, first, last in _WINDOW_OFF:
        if not architecture.startswith(beginning) or cause not in causes:
            continue
        release = parse_version(version)
        if parse_version(first) <= release and (last is None or release.base <= parse_version(last)):
            return cause
    return None


@cache
def pool_facts(text: str) -> PoolFacts:
    """The facts of one release, which version_facts has accepted."""
    version = parse_version(text)
    return PoolFacts(
        plans_hybrids=value_at(_HYBRIDS, version),
        counts_value_width=value_at(_VALUE_WIDTH, version),
        allocates_value_width=value_at(_VALUE_WIDTH_POOL, version),
        draft_headroom=value_at(_DRAFT_HEADROOM, version),
        counts_draft=value_at(_DRAFT_COUNTED, version),
        counts_draft_with_window=value_at(_DRAFT_COUNTED_WINDOW, version),
        draft_index_apart=value_at(_DRAFT_INDEX_APART, version),
        draft_part_rounded=value_at(_DRAFT_PART_ROUNDED, version),
        draft_window_layers=value_at(_DRAFT_WINDOW_LAYERS, version),
        counts_index_scales=value_at(_INDEX_SCALES, version),
        raw_index_rows_on_blackwell=value_at(_RAW_ROWS_BLACKWELL, version),
        elides_shared_index=value_at(_ELIDES_INDEX, version),
        window_split=value_at(_WINDOW_SPLIT, version),
        window_floor=value_at(_WINDOW_FLOOR, version),
        state_padding_slot=value_at(_STATE_PADDING, version),
        state_drafts=value_at(_STATE_DRAFTS, version),
        state_stage_share=value_at(_STATE_STAGE, version),
        pipeline_division=value_at(_PIPELINE, version),
        pipeline_synced=value_at(_PIPELINE_SYNC, version),
        window_stage_overlaps=value_at(_WINDOW_STAGE, version),
        copies_fp4_scales=value_at(_FP4_COPIES, version),
        fp4=value_at(_FP4, version),
        mxfp8=value_at(_MXFP8, version),
        sparse=value_at(_SPARSE, version),
        host_windows=value_at(_HOST_WINDOWS, version),
        host_states=value_at(_HOST_STATES, version),
        host_value_width=value_at(_HOST_VALUE_WIDTH, version),
        host_index=value_at(_HOST_INDEX, version),
        host_draft=value_at(_HOST_DRAFT, version),
        host_draft_whole=value_at(_HOST_DRAFT_WHOLE, version),
        splits_size=value_at(_SPLITS_SIZE, version),
    )
