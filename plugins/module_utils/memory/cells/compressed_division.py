# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What one request asks of the pools of compressed attention, and what a token of each stage is counted at."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cell_size import CellSizes, Layout, stages
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.compressed_pools import (
    CompressedRequest,
    counted_bytes,
    counted_layers,
    layers_of,
    token_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.pool_request import (
    PoolRequest,
    check_compressed_flags,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_stages import Stage
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import ServerRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import Compressed
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.compressed_versions import (
    COMPRESSED_RUNNING_REQUESTS,
    compressed_facts,
)


def compressed_request(version: str, server: ServerRequest, asked: PoolRequest) -> CompressedRequest:
    """What is asked of the pools of one group of attention data parallelism, or a Refusal of what is not counted."""
    check_compressed_flags(server.extra_arguments)
    requests = (server.max_running_requests or COMPRESSED_RUNNING_REQUESTS) // server.attention_data_parallel_size
    least = 1 if compressed_facts(version).least_one_request else 0
    return CompressedRequest(max(least, requests), asked.asked_window_ratio)


def compressed_stages(
    compressed: Compressed,
    head_dim: int,
    layers: int,
    layout: Layout,
    division: str,
    version: str,
    asked: CompressedRequest,
) -> tuple[Stage, ...]:
    """The pipeline stages, each with what the budget of a token of its layers comes to."""
    facts = compressed_facts(version)
    found = []
    for stage in stages(layers, layout.pipeline_parallel_size, division):
        counted = counted_layers(compressed, stage, facts)
        per_token = counted_bytes(compressed, stage, facts, asked, head_dim)
        line = (
            f"bytes a token and rank = {per_token:,.2f}, with {counted.layers} layers of windows, {counted.of_4} of "
            f"one row for 4 tokens and {counted.of_128} of one for 128"
        )
        kept = CellSizes({}, per_token, 0, (line,), token_bytes(compressed, layers_of(compressed, stage)))
        found.append(Stage(stage, kept, 0))
    return tuple(found)
