# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A tier of 3FS: one file a rank on a mounted 3FS, of a size that is fixed at the start."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count, format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.storage_versions import HF3FS, MODULES
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.addresses import host_and_port
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.request import (
    ServerSetup,
    StorageFile,
    StorageRequest,
    Tier,
)

CONFIG = "SGLANG_HICACHE_HF3FS_CONFIG_PATH"
# How the kernel names a mounted 3FS (its setup guide: hf3fs_fuse_main).
MOUNT_TYPE = "fuse.hf3fs"
# storage_hf3fs.py from_env_config: what it takes where there is no file at all.
_DEFAULTS = {"numjobs": 16, "entries": 8}
_OWNED = {"file_path_prefix": "path", "file_size": "max_bytes"}
_MOCK = "use_mock_hf3fs_client"


def hf3fs_tier(request: StorageRequest, setup: ServerSetup) -> Tier:
    if request.path is None or request.max_bytes is None:
        missing = "path" if request.path is None else "max_bytes"
        raise Refusal(
            "storage_path_missing" if request.path is None else "storage_cap_missing",
            f"sglang_hicache_storage.{missing} is not set, and the backend hf3fs makes files of a fixed size there.",
            "Expected a folder on a mounted 3FS, and the bytes of all ranks together.",
        )
    for key, option in _OWNED.items():
        if key in request.extra_config:
            raise Refusal(
                "storage_option_owned",
                f"sglang_hicache_storage.extra_config holds {key}, which the role decides.",
                f"Set sglang_hicache_storage.{option} instead.",
                {"option": key},
            )
    metadata = request.extra_config.get("metadata_server_url")
    # Of latent rows all ranks share one file, and groups of attention data parallelism count their ranks from 0 each.
    shared = "a model with latent attention" if setup.latent else "attention data parallelism"
    if not metadata and (setup.latent or setup.token_groups > 1):
        raise Refusal(
            "storage_address_missing",
            f"sglang_hicache_storage.extra_config has no metadata_server_url, and with {shared} several ranks share a "
            "file of 3FS.",
            "Start SGLang's mini_3fs_metadata_server and set its address, such as http://10.0.0.5:18000.",
        )
    files = 1 if setup.latent else setup.tensor_parallel_size // setup.token_groups
    size = request.max_bytes // files
    if setup.page_bytes is not None and size < setup.page_bytes:
        raise Refusal(
            "storage_cap_below_page",
            f"sglang_hicache_storage.max_bytes is {format_gb(request.max_bytes, 6)}, {format_count(size)} bytes for "
            f"each of {files} files; a page of {setup.page_size} tokens takes {format_count(setup.page_bytes)} bytes.",
            f"Set it to {setup.page_bytes * files} or more.",
            {"least_bytes": setup.page_bytes * files, "page_bytes": setup.page_bytes},
        )
    mock = bool(request.extra_config.get(_MOCK))
    if request.mount is None and not mock:
        raise Refusal(
            "storage_path_missing",
            "sglang_hicache_storage.mount is not set, and the client of 3FS registers its memory below it.",
            "Expected the mount point of 3FS, such as /3fs/stage.",
        )
    config = {
        **_DEFAULTS,
        **{key: value for key, value in request.extra_config.items() if key != _MOCK},
        "file_path_prefix": f"{request.path}/{setup.instance}",
        "file_size": size,
    }
    arguments = {"hicache-storage-backend": HF3FS}
    if mock:
        arguments["hicache-storage-backend-extra-config"] = json.dumps({_MOCK: True})
    return Tier(
        backend=HF3FS,
        arguments=arguments,
        file=StorageFile("json", json.dumps(config, indent=2, sort_keys=True) + "\n", variable=CONFIG),
        folders=(request.path,),
        # 3fs-virt below the mount point, where its client registers what it reads into (USRBIO API of 3FS).
        writable=() if request.mount is None else (request.mount,),
        mount_type=None if mock else MOUNT_TYPE,
        module=None if mock else MODULES[HF3FS],
        addresses=tuple(_address(metadata)),
        writers=files,
    )


def _address(url: Any) -> list[str]:
    if not url:
        return []
    return [host_and_port("metadata_server_url", str(url))]
