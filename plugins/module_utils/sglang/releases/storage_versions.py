# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What each release knows of a third tier of the KV cache: which backends, what caps them, what is read from where.

Files below are of sglang/srt. Which backend and which flag a release has at all is in flag_choices.py and
flag_lifetimes.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import Version, value_at

FILE, MOONCAKE, NIXL, HF3FS, LMCACHE = "file", "mooncake", "nixl", "hf3fs", "lmcache"
BACKENDS = (FILE, MOONCAKE, NIXL, HF3FS, LMCACHE)

# mem_cache/hicache_storage.py HiCacheFile: evicts by itself, by max_size and min_free_space, from 0.5.14 on (from there
# in mem_cache/storage/file/lru_file_evictor.py). Each rank counts the files of its own alone.
_FILE_EVICTS = (("0.4.7", False), ("0.5.14", True))
# managers/cache_controller.py: each rank writes its pages, of latent rows the first alone (backup_skip).
_LATENT_ONCE = (("0.4.7", False), ("0.5.1", True))
# Whether the names of pages tell the stages of a pipeline apart: mem_cache/hicache_storage.py (enable_pp) and
# mem_cache/storage/mooncake_store/mooncake_store.py (pp_rank).
# Where they do not, what one stage wrote is read by another.
_TELLS_STAGES: dict[str, tuple[tuple[str, bool], ...]] = {
    FILE: (("0.4.7", False), ("0.5.10", True)),
    MOONCAKE: (("0.4.7", False), ("0.5.8", True)),
    NIXL: (("0.4.7", False),),
    HF3FS: (("0.4.7", False),),
    # Its own keys name the rank of the whole group.
    LMCACHE: (("0.4.7", True),),
}
# The same file, later environ.py MOONCAKE_PROTOCOL.
_MOONCAKE_PROTOCOL = (("0.4.7", "tcp"), ("0.5.13", "rdma"))
# The same file: global_segment_size is divided by tp_size, and from 0.5.19 on by pp_size as well.
_MOONCAKE_DIVIDES_STAGES = (("0.4.7", False), ("0.5.19", True))
# The same file: a standalone store that is reached through a client of its own (client_server_address).
_MOONCAKE_CLIENT = (("0.4.7", False), ("0.5.7", True))
# mem_cache/storage/nixl/hicache_nixl.py: NixlBackendConfig takes plugins and their parameters from the extra
# configuration; SGLANG_HICACHE_NIXL_BACKEND_STORAGE_DIR names the folder from 0.5.1 on.
_NIXL_READS_EXTRA = (("0.4.7", False), ("0.5.9", True))
_NIXL_READS_FOLDER = (("0.4.7", False), ("0.5.1", True))
# mem_cache/storage/nixl/nixl_cleaner.py: keeps the file system below l3_cleaner_high_watermark percent.
_NIXL_CLEANS = (("0.4.7", False), ("0.5.15", True))
# mem_cache/storage/lmcache/: inside the server's processes (lmc_radix_cache.py, LMCACHE_CONFIG_FILE), from 0.5.13 on
# through a daemon of its own at mp_host and mp_port of --lmcache-config-file.
_LMCACHE_DAEMON = (("0.4.7", False), ("0.5.13", True))
# mem_cache/utils.py get_hash_str: names of pages are hashed by an extension (mem_cache/cpp_utils/native_hash.py) that
# torch compiles at the first look into the storage, with ninja, a C++ compiler and OpenSSL's headers. Without
# one of these the server answers, writes pages, and never finds one: "HiCache storage query failed" in its journal.
_COMPILES_HASH = (("0.4.7", False), ("0.5.15", True))
# What of LMCache is imported there.
_LMCACHE_MODULE = (
    ("0.4.7", "lmcache.integration.sglang.sglang_adapter"),
    ("0.5.13", "lmcache.integration.sglang.multi_process_adapter"),
    ("0.5.21", "lmcache.integration.sglang.unified_lmcache_mp_connector"),
)

# Names of distributions as their projects publish them: README.md of
# mem_cache/storage/mooncake_store (mooncake-transfer-engine, whose builds for other platforms have a suffix), of
# mem_cache/storage/nixl, of mem_cache/storage/lmcache, and docs/setup_usrbio_client.md of mem_cache/storage/hf3fs.
MODULES = {MOONCAKE: "mooncake.store", NIXL: "nixl._api", HF3FS: "hf3fs_fuse.io"}
DISTRIBUTIONS = {
    MOONCAKE: "mooncake-transfer-engine",
    NIXL: "nixl",
    HF3FS: "hf3fs-py-usrbio",
    LMCACHE: "lmcache",
}


@dataclass(frozen=True)
class StorageFacts:
    file_evicts: bool
    latent_once: bool
    tells_stages: Mapping[str, bool]
    mooncake_protocol: str
    mooncake_divides_stages: bool
    mooncake_client: bool
    nixl_reads_extra: bool
    nixl_reads_folder: bool
    nixl_cleans: bool
    lmcache_daemon: bool
    lmcache_module: str
    compiles_hash: bool


def storage_facts(version: Version) -> StorageFacts:
    return StorageFacts(
        file_evicts=value_at(_FILE_EVICTS, version),
        latent_once=value_at(_LATENT_ONCE, version),
        tells_stages={name: value_at(rows, version) for name, rows in _TELLS_STAGES.items()},
        mooncake_protocol=value_at(_MOONCAKE_PROTOCOL, version),
        mooncake_divides_stages=value_at(_MOONCAKE_DIVIDES_STAGES, version),
        mooncake_client=value_at(_MOONCAKE_CLIENT, version),
        nixl_reads_extra=value_at(_NIXL_READS_EXTRA, version),
        nixl_reads_folder=value_at(_NIXL_READS_FOLDER, version),
        nixl_cleans=value_at(_NIXL_CLEANS, version),
        lmcache_daemon=value_at(_LMCACHE_DAEMON, version),
        lmcache_module=value_at(_LMCACHE_MODULE, version),
        compiles_hash=value_at(_COMPILES_HASH, version),
    )
