# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a release has against ranks that keep the same cache, as data.

A value holds from the release it stands with up to the release of the next row.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import Version, value_at

DP_BY_SWITCH, DP_BY_SIZE = "switch", "size"

# server_args.py: --enable-dp-attention with --dp-size, which --attn-dp-size replaces.
_DP_ATTENTION = (("0.4.7", DP_BY_SWITCH), ("0.5.22", DP_BY_SIZE))
# server_args.py _handle_hicache, later arg_groups/hicache_hook.py C(resolve_hicache_dcp_compatibility): "HiCache with
# --dcp-size > 1 is only supported for MLA models".
_DCP_WITH_HICACHE = (("0.4.7", False), ("0.5.17", True))
# server_args.py --hicache-storage-backend.
_STORAGE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("0.4.7", ()),
    ("0.4.10", ("file", "mooncake", "hf3fs")),
    ("0.5.0rc2", ("file", "mooncake", "hf3fs", "nixl")),
    ("0.5.3", ("file", "mooncake", "hf3fs", "nixl", "aibrix", "dynamic", "eic")),
    ("0.5.11", ("file", "mooncake", "hf3fs", "nixl", "aibrix", "dynamic", "eic", "simm")),
    ("0.5.15", ("file", "mooncake", "hf3fs", "nixl", "aibrix", "dynamic", "eic", "simm", "mori")),
    ("0.5.17", ("file", "mooncake", "hf3fs", "nixl", "aibrix", "dynamic", "eic", "simm", "mori", "shm")),
    ("0.5.19", ("file", "sim", "mooncake", "hf3fs", "nixl", "aibrix", "dynamic", "eic", "simm", "mori", "shm")),
    (
        "0.5.20",
        ("file", "sim", "mooncake", "npu_memcache", "hf3fs", "nixl", "aibrix", "dynamic", "eic", "simm", "mori", "shm"),
    ),
    (
        "0.5.21",
        (
            *("file", "sim", "mooncake", "npu_memcache", "hf3fs", "nixl", "aibrix", "dynamic", "eic", "simm", "mori"),
            *("shm", "tensorcast"),
        ),
    ),
    (
        "0.5.22",
        (
            *("file", "sim", "mooncake", "npu_memcache", "hf3fs", "nixl", "aibrix", "dynamic", "eic", "simm", "mori"),
            *("shm", "tensorcast", "seaweedfs"),
        ),
    ),
)
# Those that nothing but the node itself is needed for, or that keep caches elsewhere; not simulations, or what lives in
# the same host memory.
_REAL_STORAGE = frozenset(
    {"file", "mooncake", "hf3fs", "nixl", "aibrix", "eic", "simm", "mori", "tensorcast", "seaweedfs"}
)
# managers/cache_controller.py C(backup_skip): of latent rows, rank 0 alone writes.
_STORAGE_ONCE = (("0.4.7", False), ("0.5.1", True))


@dataclass(frozen=True)
class SharingFacts:
    dp_attention: str
    dcp_with_hicache: bool
    storage_backends: tuple[str, ...]
    storage_once: bool


def sharing_facts(version: Version) -> SharingFacts:
    return SharingFacts(
        dp_attention=value_at(_DP_ATTENTION, version),
        dcp_with_hicache=value_at(_DCP_WITH_HICACHE, version),
        storage_backends=tuple(name for name in value_at(_STORAGE, version) if name in _REAL_STORAGE),
        storage_once=value_at(_STORAGE_ONCE, version),
    )
