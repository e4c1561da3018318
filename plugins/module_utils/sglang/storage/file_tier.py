# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A tier of files: HiCacheFile of SGLang, one file a page and rank, with a cap and a floor that hold together."""

from __future__ import annotations

import json

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count, format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.flags import has_flag
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.request import (
    Prune,
    ServerSetup,
    StorageRequest,
    Tier,
)

FOLDER = "SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR"
MAX_SIZE = "SGLANG_HICACHE_FILE_BACKEND_MAX_SIZE"
MIN_FREE = "SGLANG_HICACHE_FILE_BACKEND_MIN_FREE_SPACE"
# What the role sets by options of its own, as the server's extra configuration has it.
_OWNED = {"max_size": "max_bytes", "min_free_space": "min_free_bytes"}
# A page is the unit of a file; below this many bytes files take more of the disk than they hold.
_SMALL_FILE_BYTES = 16384


def file_tier(request: StorageRequest, setup: ServerSetup) -> Tier:
    version = setup.version.version
    if request.path is None:
        raise Refusal(
            "storage_path_missing",
            "sglang_hicache_storage.path is not set, and the backend file keeps its pages there.",
            "Expected a folder of its own, such as /srv/kv-cache.",
        )
    if request.max_bytes is None:
        raise Refusal(
            "storage_cap_missing",
            "sglang_hicache_storage.max_bytes is not set: SGLang would fill the file system.",
            "Expected the most that all ranks together may keep, in bytes, such as 200000000000 for 200 GB.",
        )
    for key, option in _OWNED.items():
        if key in request.extra_config:
            raise Refusal(
                "storage_option_owned",
                f"sglang_hicache_storage.extra_config holds {key}, which the role decides for each rank.",
                f"Set sglang_hicache_storage.{option} instead, in bytes for all ranks together.",
                {"option": key},
            )
    if request.extra_config and not has_flag("hicache-storage-backend-extra-config", version):
        raise Refusal(
            "storage_option_not_taken",
            f"sglang_hicache_storage.extra_config is given, and SGLang {version} reads none.",
            "It begins with SGLang 0.5.2. Leave it out.",
        )
    share = request.max_bytes // setup.writers
    if setup.page_bytes is not None and share < setup.page_bytes:
        raise Refusal(
            "storage_cap_below_page",
            f"sglang_hicache_storage.max_bytes is {format_gb(request.max_bytes, 6)}, {format_count(share)} bytes for "
            f"each of {setup.writers} that write; one page of {setup.page_size} tokens takes "
            f"{format_count(setup.page_bytes)} bytes.",
            f"Set it to {setup.page_bytes * setup.writers} or more; sensible are caps above the host pools "
            f"({format_gb(setup.host_pool_bytes)}).",
            {"least_bytes": setup.page_bytes * setup.writers, "page_bytes": setup.page_bytes},
        )
    environment = {FOLDER: request.path}
    if setup.facts.file_evicts:
        # Each process counts what it wrote by itself, so that each gets its share.
        environment.update({MAX_SIZE: str(share), MIN_FREE: str(request.min_free_bytes)})
    arguments: dict[str, str] = {"hicache-storage-backend": "file"}
    if request.extra_config:
        arguments["hicache-storage-backend-extra-config"] = json.dumps(dict(request.extra_config), sort_keys=True)
    return Tier(
        backend="file",
        arguments=arguments,
        environment=environment,
        folders=(request.path,),
        prune=Prune(request.path, request.max_bytes, request.min_free_bytes),
        writers=setup.writers,
        problems=tuple(_problems(request, setup)),
    )


def _problems(request: StorageRequest, setup: ServerSetup) -> list[Problem]:
    found = []
    if not setup.facts.file_evicts:
        found.append(
            Problem(
                "storage_cap_by_timer",
                "warning",
                f"SGLang {setup.version.version} has no cap for its files, as 0.5.14 has; a timer of the role "
                "removes the oldest every 30 s, so that in between the folder may hold more than max_bytes.",
                "Leave room beyond the cap for what is written in 30 s, or take a later release.",
            )
        )
    if request.max_bytes is not None and 0 < request.max_bytes < setup.host_pool_bytes:
        found.append(
            Problem(
                "storage_below_host_pool",
                "warning",
                f"The cap of the files, {format_gb(request.max_bytes)}, is below the host pools, "
                f"{format_gb(setup.host_pool_bytes)}: what is in the files is in host memory as well.",
                "Raise sglang_hicache_storage.max_bytes above the host pools, or do without files.",
            )
        )
    if setup.page_bytes is not None and setup.page_bytes < _SMALL_FILE_BYTES:
        found.append(
            Problem(
                "storage_small_pages",
                "warning",
                f"Each file holds a page of {setup.page_size} tokens, {format_count(setup.page_bytes)} bytes: the cap "
                f"allows {format_count((request.max_bytes or 0) // setup.page_bytes)} files; to find them costs "
                "more than reading them.",
                "Set sglang_page_size to 64.",
            )
        )
    return found
