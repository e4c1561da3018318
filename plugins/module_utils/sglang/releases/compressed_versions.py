# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the pools of compressed attention (DeepSeek-V4) are sized, by SGLang release.

Source: SGLang, model_executor/pool_configurator.py C(DSV4PoolConfigurator), mem_cache/deepseek_v4_memory_pool.py,
mem_cache/deepseek_v4_compress_state.py, arg_groups/deepseek_v4_hook.py and arg_groups/model_overrides/deepseek_v4.py;
for the host hybrid_cache/hybrid_pool_assembler.py C(build_deepseek_v4_hicache_stack) and mem_cache/memory_pool_host.py.
The configurator of every release was compared with that of the one before;
tests/conformance/test_compressed_records.py holds the arithmetic against each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import parse_version, value_at

# apply_deepseek_v4_defaults: whatever was asked for.
COMPRESSED_PAGE_SIZE = 256
COMPRESSED_BACKEND = "dsv4"
# The same: unless something else is asked for.
COMPRESSED_RUNNING_REQUESTS = 256
COMPRESSED_WINDOW_RATIO = 0.1
# From 0.5.21 on the configurator can size the window pool by the running requests instead; it does so for V4.1 only, as
# the share that V4 is given by its defaults counts as asked for (_swa_full_tokens_ratio_explicitly_set).
# get_compress_state_ring_size without drafts: rows of a state for each ratio.
STATE_RINGS = {4: 8, 128: 128}


@dataclass(frozen=True)
class CompressedFacts:
    """What the size of compressed pools depends on in one release."""

    counts_own_stage: bool  # the budget counts the layers of the stage, not every entry of compress_ratios
    request_states: bool  # states of ratio 128 belong to requests, and are taken off the budget first
    least_one_request: bool  # of each group of attention data parallelism
    default_ratio_taken_for_unset: bool  # a share of 0.8 that is asked for becomes 0.1 all the same
    window_floor: bool  # a window pool below one request is refused
    counts_page_padding: bool  # rows are budgeted with the padding of their pages, states of ratio 4 by page
    pads_by_logical_page: bool  # pools have a page of 256 tokens more, whatever their own page
    pads_index_by_logical_page: bool
    host_larger_than_device: bool  # a page more than the device at least
    host_request_states: bool  # states of ratio 128 have a host pool
    host_direct_only: bool  # copies by the direct io backend alone, whatever layout was asked for


_OWN_STAGE = (("0.4.7", False), ("0.5.13", True))
_REQUEST_STATES = (("0.4.7", False), ("0.5.15", True))
_ONE_REQUEST = (("0.4.7", False), ("0.5.23", True))
# swa_full_tokens_ratio == ServerArgs.swa_full_tokens_ratio, "is None" later.
_TAKEN_FOR_UNSET = (("0.4.7", True), ("0.5.20", False))
_FLOOR = (("0.4.7", False), ("0.5.20", True))
_PAGE_PADDING = (("0.4.7", False), ("0.5.21", True))
_LOGICAL_PAGE = (("0.4.7", False), ("0.5.21", True))
_LOGICAL_INDEX_PAGE = (("0.4.7", False), ("0.5.22", True))
_HOST_LARGER = (("0.4.7", True), ("0.5.15", False))
_HOST_STATES = (("0.4.7", True), ("0.5.13", False))
# _check_io_backend
_HOST_DIRECT = (("0.4.7", True), ("0.5.13", False))


@cache
def compressed_facts(text: str) -> CompressedFacts:
    """The facts of one release, which version_facts has accepted."""
    version = parse_version(text)
    return CompressedFacts(
        counts_own_stage=value_at(_OWN_STAGE, version),
        request_states=value_at(_REQUEST_STATES, version),
        least_one_request=value_at(_ONE_REQUEST, version),
        default_ratio_taken_for_unset=value_at(_TAKEN_FOR_UNSET, version),
        window_floor=value_at(_FLOOR, version),
        counts_page_padding=value_at(_PAGE_PADDING, version),
        pads_by_logical_page=value_at(_LOGICAL_PAGE, version),
        pads_index_by_logical_page=value_at(_LOGICAL_INDEX_PAGE, version),
        host_larger_than_device=value_at(_HOST_LARGER, version),
        host_request_states=value_at(_HOST_STATES, version),
        host_direct_only=value_at(_HOST_DIRECT, version),
    )
