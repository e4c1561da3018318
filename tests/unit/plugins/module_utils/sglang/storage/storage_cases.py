# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is asked for, on servers of any release, for the tests of this folder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.storage_versions import LMCACHE
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import version_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.request import (
    ServerSetup,
    StorageRequest,
    Tier,
    storage_request,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.tier import plan_tier

RELEASES = (
    *("0.4.7", "0.4.8", "0.4.9", "0.4.10", "0.5.0rc2", "0.5.1", "0.5.2", "0.5.3", "0.5.4", "0.5.5", "0.5.6", "0.5.7"),
    *("0.5.8", "0.5.9", "0.5.10", "0.5.11", "0.5.12", "0.5.13", "0.5.14", "0.5.15", "0.5.16", "0.5.17", "0.5.18"),
    *("0.5.19", "0.5.20", "0.5.21", "0.5.22", "0.5.23"),
)
# What each backend is asked for with, so that it plans.
ASKED: dict[str, dict[str, Any]] = {
    "file": {"path": "/srv/kv", "max_bytes": 200_000_000_000},
    "mooncake": {"extra_config": {"master_server_address": "10.0.0.5:50051", "protocol": "tcp"}},
    "nixl": {"path": "/srv/kv"},
    "hf3fs": {"path": "/3fs/stage/kv", "mount": "/3fs/stage", "max_bytes": 400_000_000_000},
    "lmcache": {"extra_config": {"max_local_cpu_size": 20}},
}
# Eight ranks of Qwen3-32B: 64 layers, one KV head of 128 of each rank, keys and values of 2 bytes.
PAGE_BYTES = 64 * 2 * 128 * 2 * 64


def setup(release: str, backend: str = "file", **changes: Any) -> ServerSetup:
    made = ServerSetup(
        version=version_facts(release),
        instance="main",
        tensor_parallel_size=8,
        hicache=backend != LMCACHE,
        io_backend="kernel",
        mem_layout="page_first",
        page_size=64,
        page_bytes=PAGE_BYTES,
        host_pool_bytes=100_000_000_000,
        host_left_bytes=300_000_000_000,
    )
    return replace(made, **changes)


def asked(backend: str, **changes: Any) -> StorageRequest:
    return storage_request({"backend": backend, **ASKED[backend], **changes})


def tier(release: str, backend: str, request: dict[str, Any] | None = None, **changes: Any) -> Tier:
    return plan_tier(asked(backend, **(request or {})), setup(release, backend, **changes))
