# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is asked for of a third tier of the KV cache, below GPU and host memory, and what is known of its server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.known_keys import refuse_unknown
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.choice import refuse_unknown_choice
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.flags import choices_of, has_flag
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.storage_versions import (
    BACKENDS,
    FILE,
    HF3FS,
    LMCACHE,
    NIXL,
    StorageFacts,
    storage_facts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import VersionFacts

# As much as SGLang itself leaves of the host memory.
DEFAULT_MIN_FREE_BYTES = 10 * GIB
KEYS = ("backend", "path", "mount", "max_bytes", "min_free_bytes", "prefetch_policy", "extra_config")
# Which backends take which of them.
_TAKEN_BY = {
    "path": (FILE, NIXL, HF3FS),
    "mount": (FILE, NIXL, HF3FS),
    "max_bytes": (FILE, HF3FS),
    "min_free_bytes": (FILE,),
    "prefetch_policy": tuple(name for name in BACKENDS if name != LMCACHE),
}
# Folders that the service cannot see (ProtectHome, PrivateTmp), or that are no place for a cache.
_HIDDEN = re.compile(r"/(home|root|tmp|var/tmp|run/user|proc|sys|dev|etc|boot|usr)(/|\Z)|/\Z")
_SECRET = re.compile(r"secret|secrete|password|passwd|access_?key|session_?token|auth_?token|api_?key|credential", re.I)
_LOGIN = re.compile(r"://[^/@\s]*:[^/@\s]*@")


@dataclass(frozen=True)
class StorageRequest:
    backend: str
    path: str | None = None
    mount: str | None = None
    max_bytes: int | None = None
    min_free_bytes: int = DEFAULT_MIN_FREE_BYTES
    prefetch_policy: str | None = None
    extra_config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ServerSetup:
    """The server that the tier belongs to, as it is planned. C(page_bytes) are those of one rank."""

    version: VersionFacts
    instance: str
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    token_groups: int = 1  # of attention data parallelism, within the ranks
    latent: bool = False  # latent rows and nothing beside them
    hicache: bool = True
    io_backend: str | None = None
    mem_layout: str | None = None
    page_size: int = 1
    page_bytes: int | None = None
    host_pool_bytes: int = 0  # of all ranks
    host_left_bytes: int | None = None
    environment: tuple[str, ...] = ()  # names that the instance sets by itself
    extra_arguments: tuple[str, ...] = ()

    @property
    def facts(self) -> StorageFacts:
        return storage_facts(self.version.version)

    @property
    def ranks(self) -> int:
        return self.tensor_parallel_size * self.pipeline_parallel_size

    @property
    def writers(self) -> int:
        """Processes that write pages: every rank, or of latent rows the first of each group and stage."""
        once = self.latent and self.facts.latent_once
        return self.token_groups * self.pipeline_parallel_size if once else self.ranks


@dataclass(frozen=True)
class StorageFile:
    """A file of the configuration. C(name) is the end of its name; the beginning is the instance's."""

    suffix: str
    content: str
    variable: str | None = None
    argument: str | None = None


@dataclass(frozen=True)
class Prune:
    """What the role keeps to by itself, beside the server or in its place."""

    folder: str
    max_bytes: int
    min_free_bytes: int


@dataclass(frozen=True)
class Tier:
    """What a backend makes of the server, and what it needs of the node."""

    backend: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    file: StorageFile | None = None
    folders: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()  # beside the folders
    mounts: tuple[str, ...] = ()
    mount_type: str | None = None
    module: str | None = None
    addresses: tuple[str, ...] = ()
    rdma: tuple[str, ...] | None = None  # names of devices, none for any; None where RDMA is not needed
    compiles: bool = False  # what names its pages, at the first look into them
    host_bytes: int = 0
    prune: Prune | None = None
    writers: int = 1
    problems: tuple[Problem, ...] = ()


def storage_request(given: Mapping[str, Any]) -> StorageRequest:
    """The request out of C(sglang_hicache_storage)."""
    refuse_unknown(given, KEYS, "sglang_hicache_storage.")
    backend = given.get("backend")
    if backend not in BACKENDS:
        raise Refusal(
            "storage_backend_unknown",
            f"sglang_hicache_storage.backend is {backend!r}.",
            f"Expected one of {', '.join(BACKENDS)}; leave sglang_hicache_storage empty for no third tier.",
            {"backend": backend},
        )
    for key, takers in _TAKEN_BY.items():
        if given.get(key) is not None and backend not in takers:
            raise Refusal("storage_option_not_taken", *_not_taken(key, backend), {"option": key, "backend": backend})
    for key in ("path", "mount"):
        value = given.get(key)
        if value is not None and (
            not str(value).startswith("/") or _HIDDEN.match(str(value)) or ".." in str(value).split("/")
        ):
            raise Refusal(
                "storage_path_hidden",
                f"sglang_hicache_storage.{key} is {value}, which the service does not see or cannot write to.",
                "Expected an absolute path such as /srv/kv-cache or /mnt/nvme/kv-cache.",
                {key: value},
            )
    extra = given.get("extra_config") or {}
    _refuse_secrets(extra, "sglang_hicache_storage.extra_config")
    least = given.get("min_free_bytes")
    request = StorageRequest(
        backend=backend,
        path=None if given.get("path") is None else str(given["path"]).rstrip("/"),
        mount=None if given.get("mount") is None else str(given["mount"]).rstrip("/"),
        max_bytes=_whole(given.get("max_bytes"), "max_bytes", 1),
        min_free_bytes=DEFAULT_MIN_FREE_BYTES if least is None else _whole(least, "min_free_bytes", 0) or 0,
        prefetch_policy=given.get("prefetch_policy"),
        extra_config=extra,
    )
    if request.mount and request.path and not f"{request.path}/".startswith(f"{request.mount}/"):
        raise Refusal(
            "storage_path_outside_mount",
            f"sglang_hicache_storage.path {request.path} does not lie below its mount {request.mount}.",
            f"Set path to a folder such as {request.mount}/kv-cache.",
            {"path": request.path, "mount": request.mount},
        )
    return request


def check_release(request: StorageRequest, setup: ServerSetup) -> None:
    """Whether the release has the backend, and whether it keeps apart what it must not mix."""
    version = setup.version.version
    flag = "enable-lmcache" if request.backend == LMCACHE else "hicache-storage-backend"
    known = choices_of(flag, version) or ()
    if not has_flag(flag, version) or (request.backend != LMCACHE and request.backend not in known):
        others = ", ".join(name for name in BACKENDS if name in known) or "none"
        raise Refusal(
            "storage_backend_absent",
            f"SGLang {version} has no {request.backend} as a third tier of the KV cache.",
            f"Of those that this role knows it has: {others}. Take another, or a later release.",
            {"backend": request.backend, "sglang_version": str(version)},
        )
    if request.prefetch_policy is not None:
        policies = choices_of("hicache-storage-prefetch-policy", version)
        if not policies:
            raise Refusal(
                "storage_option_not_taken",
                f"sglang_hicache_storage.prefetch_policy is given, and SGLang {version} knows none.",
                "It begins with SGLang 0.5.0rc2. Leave it out.",
            )
        refuse_unknown_choice(
            "sglang_hicache_storage.prefetch_policy", request.prefetch_policy, policies, setup.version
        )
    if setup.pipeline_parallel_size > 1 and not setup.facts.tells_stages[request.backend]:
        raise Refusal(
            "storage_mixes_stages",
            f"SGLang {version} names the pages of all {setup.pipeline_parallel_size} pipeline stages alike in a "
            f"{request.backend} tier: one stage would be served what another wrote, and answers would be wrong.",
            _other_stages(request.backend),
            {"pipeline_parallel_size": setup.pipeline_parallel_size},
        )
    if request.backend != LMCACHE and not setup.hicache:
        raise Refusal(
            "storage_without_hicache",
            f"sglang_hicache_storage asks for a {request.backend} tier, and sglang_hicache_enabled is false: what is "
            "read from there passes through the host pools.",
            "Set sglang_hicache_enabled to true, or leave sglang_hicache_storage empty.",
        )


def _other_stages(backend: str) -> str:
    first = {FILE: "0.5.10", "mooncake": "0.5.8"}.get(backend)
    later = f"Take SGLang {first} or later, or set" if first else "Set"
    return f"{later} sglang_pipeline_parallel_size to 1."


def _not_taken(key: str, backend: str) -> tuple[str, str]:
    message = f"sglang_hicache_storage.{key} is given, which the backend {backend} does not take."
    if backend == NIXL:
        return message, (
            "From SGLang 0.5.15 on it keeps the file system below a share: set l3_cleaner_high_watermark and "
            "l3_cleaner_low_watermark in extra_config. Leave it out."
        )
    return message, "Leave it out."


def _whole(value: Any, key: str, least: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not re.fullmatch(r"\d+", str(value)) or int(value) < least:
        raise Refusal(
            "storage_size_malformed",
            f"sglang_hicache_storage.{key} is {value!r}.",
            f"Expected a whole number of bytes, {least} or more, such as 200000000000 for 200 GB.",
            {key: value},
        )
    return int(value)


def _refuse_secrets(value: Any, where: str) -> None:
    """The server prints its arguments, and NIXL the parameters of its plugin, in the journal."""
    entries = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        name = f"{where}.{key}"
        if isinstance(entry, (Mapping, list)):
            _refuse_secrets(entry, name)
        elif (_SECRET.search(str(key)) and entry not in (None, "")) or _LOGIN.search(str(entry)):
            raise Refusal(
                "storage_secret_in_config",
                f"{name} holds a credential: SGLang prints the configuration of its storage in the journal.",
                "Leave it out, and set the variables of the client's library in sglang_environment, which lies in a "
                "file that only root reads, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
                {"option": name},
            )
