# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many requests of one length a plan serves at once, and the length that so many may have.

Every request keeps its tokens in whole pages. Where layers keep a window only, it keeps a window and a page of the
second pool; where layers keep states, it holds some slots of theirs (state_pools.py). What requests have in common
(a system prompt in the radix cache) is not counted: it makes room for more.
"""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cell_size import MAMBA, SWA
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device import DevicePlan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host import largest_fitting
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import ServerRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import Attention
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.compressed_versions import (
    COMPRESSED_RUNNING_REQUESTS,
)


def in_pages(tokens: int, page_size: int) -> int:
    return -(-tokens // page_size) * page_size


def requests_at(device: DevicePlan, attention: Attention, server: ServerRequest, context_tokens: int) -> int:
    """Requests of C(context_tokens) that run at once, in all groups of attention data parallelism together."""
    page = device.page_size
    bounds = [device.max_total_num_tokens // in_pages(context_tokens, page)]
    groups = server.attention_data_parallel_size
    for pool in device.pools:
        window = attention.window.tokens if attention.window is not None else None
        if attention.compressed is not None:
            window = attention.compressed.window_tokens
        if pool.kind == SWA:
            kept = min(context_tokens, (window or context_tokens) + page)
            bounds.append(pool.slots // in_pages(kept, page))
        elif pool.kind == MAMBA:
            states = device.division.asked.states
            bounds.append(pool.slots // (states.slots_per_request if states.radix_cache else 1))
    running = server.max_running_requests
    if running is None and attention.compressed is not None:
        running = COMPRESSED_RUNNING_REQUESTS
    if running is not None:
        bounds.append(max(1, running // groups))
    return min(bounds) * groups


def largest_context(device: DevicePlan, attention: Attention, server: ServerRequest, requests: int) -> int:
    """The most tokens that each of so many requests can have, 0 if none can be."""
    return largest_fitting(
        device.max_total_num_tokens, lambda tokens: requests_at(device, attention, server, tokens) >= requests
    )
