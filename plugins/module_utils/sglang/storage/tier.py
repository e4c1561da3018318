# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A third tier of the KV cache, from what is asked for to arguments, environment, files and needs. No I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.hicache_in_force import (
    Beside,
    HiCacheFlags,
    hicache_in_force,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.storage_versions import (
    FILE,
    HF3FS,
    LMCACHE,
    MOONCAKE,
    NIXL,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage import lmcache_tier as lmcache
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage import mooncake_tier as mooncake
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.file_tier import file_tier
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.hf3fs_tier import hf3fs_tier
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.nixl_tier import nixl_tier
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.request import (
    ServerSetup,
    StorageRequest,
    Tier,
    check_release,
)

_TIERS: dict[str, Callable[[StorageRequest, ServerSetup], Tier]] = {
    FILE: file_tier,
    MOONCAKE: mooncake.mooncake_tier,
    NIXL: nixl_tier,
    HF3FS: hf3fs_tier,
    LMCACHE: lmcache.lmcache_tier,
}


def plan_tier(request: StorageRequest, setup: ServerSetup) -> Tier:
    """What the backend makes of this server; raises Refusal where it would not start, or not do what is asked."""
    check_release(request, setup)
    tier = _TIERS[request.backend](request, setup)
    if request.prefetch_policy is not None:
        tier = replace(tier, arguments={**tier.arguments, "hicache-storage-prefetch-policy": request.prefetch_policy})
    if request.backend != LMCACHE and setup.facts.compiles_hash:
        tier = replace(tier, compiles=True)
    if request.mount is not None:
        tier = replace(tier, mounts=(*tier.mounts, request.mount))
    _refuse_rewritten_layout(request, setup)
    _refuse_said_twice(tier, setup)
    return tier


def host_memory_bytes(request: StorageRequest, setup: ServerSetup) -> int:
    """What the tier takes of the host's memory beside the pools, known before anything is planned."""
    counted = {MOONCAKE: mooncake.host_bytes, LMCACHE: lmcache.host_bytes}.get(request.backend)
    return counted(request, setup) if counted else 0


def file_name(tier: Tier, instance: str) -> str | None:
    """Named by its content: other content is another file, so that what is gone back to finds its own."""
    if tier.file is None:
        return None
    digest = hashlib.sha256(tier.file.content.encode()).hexdigest()[:12]
    return f"{instance}.storage-{digest}.{tier.file.suffix}"


def settled(tier: Tier, path: str | None) -> tuple[dict[str, Any], dict[str, str]]:
    """(arguments, environment) of the server, its file included; C(path) is where that lies."""
    arguments: dict[str, Any] = dict(tier.arguments)
    environment = dict(tier.environment)
    if tier.file is not None and path is not None:
        if tier.file.argument:
            arguments[tier.file.argument] = path
        if tier.file.variable:
            environment[tier.file.variable] = path
    return arguments, environment


def _refuse_rewritten_layout(request: StorageRequest, setup: ServerSetup) -> None:
    """The plan is of the layout that is in force without storage; a backend that changes it is refused with the one."""
    if not setup.hicache or request.backend == LMCACHE or setup.mem_layout is None:
        return
    flags = HiCacheFlags(io_backend=setup.io_backend, mem_layout=setup.mem_layout, storage_backend=request.backend)
    found = hicache_in_force(setup.version, flags, Beside(latent=setup.latent))
    if (found.io_backend, found.mem_layout) != (setup.io_backend, setup.mem_layout):
        raise Refusal(
            "storage_layout_rewritten",
            f"The host pools are planned with io backend {setup.io_backend} and layout {setup.mem_layout}, and with "
            f"storage {request.backend} SGLang {setup.version.version} switches them to {found.io_backend} and "
            f"{found.mem_layout}.",
            f"Set sglang_hicache_io_backend to {found.io_backend} and sglang_hicache_mem_layout to {found.mem_layout}.",
            {"io_backend": found.io_backend, "mem_layout": found.mem_layout},
        )


def _refuse_said_twice(tier: Tier, setup: ServerSetup) -> None:
    variables = set(tier.environment) | ({tier.file.variable} if tier.file and tier.file.variable else set())
    for names, taken, where in (
        (variables, set(setup.environment), "sglang_environment"),
        (
            set(tier.arguments),
            {name.lstrip("-").replace("_", "-") for name in setup.extra_arguments},
            "sglang_extra_arguments",
        ),
    ):
        twice = sorted(names & taken)
        if twice:
            raise Refusal(
                "storage_said_twice",
                f"{where} holds {twice[0]}, which sglang_hicache_storage decides.",
                "Leave it out there.",
                {"name": twice[0]},
            )
