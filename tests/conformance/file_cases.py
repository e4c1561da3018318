# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans whose arguments are given to the configuration file of each release: what is emitted for each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import (
    HiCacheRequest,
    ServerRequest,
    SpeculativeRequest,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.arguments import (
    resolve_arguments,
    resolve_sizing,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.extra_arguments import (
    settle_extra_arguments,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.transfer import resolve_transfer
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import version_facts

RELEASES = ("0.5.3", "0.5.9", "0.5.14", "0.5.19", "0.5.20", "0.5.22", "0.5.23")
OFF = HiCacheRequest(enabled=False)
MOST = ServerRequest(
    tensor_parallel_size=8,
    pipeline_parallel_size=2,
    attention_data_parallel_size=4,
    expert_parallel_size=8,
    page_size=64,
    kv_cache_dtype="fp8_e4m3",
    dtype="bfloat16",
    max_total_tokens=100_000,
    mem_fraction_static=0.885,
    max_running_requests=64,
    chunked_prefill_size=-1,
    context_length=32_768,
    attention_backend="triton",
    host="127.0.0.1",
    port=30_001,
    served_model_name="true",
    extra_arguments={
        "cuda-graph-max-bs-decode": 64,
        "cuda-graph-bs": [1, 2, 4],
        "trust-remote-code": True,
        "disable-custom-all-reduce": False,
        "kv-events-config": {"publisher": "zmq"},
        "watchdog-timeout": 1e-05,
        "schedule-policy": "lpm",
    },
)
CASES: dict[str, tuple[ServerRequest, HiCacheRequest, SpeculativeRequest | None]] = {
    "plain": (ServerRequest(), OFF, None),
    "most": (MOST, OFF, None),
    "ratio": (ServerRequest(), HiCacheRequest(ratio=4.0), None),
    "size": (ServerRequest(), HiCacheRequest(size_gb=40, write_policy="write_back"), None),
    "pair": (ServerRequest(), HiCacheRequest(ratio=1.5, io_backend="direct", mem_layout="layer_first"), None),
    "sized by default": (ServerRequest(), HiCacheRequest(), None),
    "draft": (
        ServerRequest(),
        HiCacheRequest(ratio=2.0),
        SpeculativeRequest("EAGLE3", model_path="/srv/draft", num_steps=3, eagle_topk=1, num_draft_tokens=4),
    ),
}
NUMA_NODES = [0, 0, 1, 1]


def emitted(release: str, name: str) -> dict[str, Any]:
    """What the plan of a case puts into the file."""
    facts = version_facts(release)
    server, hicache, speculative = CASES[name]
    extra = settle_extra_arguments(facts, server.extra_arguments, hicache.enabled)
    transfer = resolve_transfer(facts, hicache) if hicache.enabled else (None, None)
    found = resolve_arguments(
        facts,
        replace(server, extra_arguments=extra.arguments),
        hicache,
        resolve_sizing(facts, hicache),
        transfer,
        "/srv/models/m",
        speculative,
    )
    return {**found, "numa-node": NUMA_NODES} if name == "most" else found
