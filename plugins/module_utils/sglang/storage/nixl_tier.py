# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A tier of NIXL: files or objects through a plugin of NVIDIA's transfer library."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.storage_versions import MODULES, NIXL
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.addresses import host_and_port
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.request import (
    ServerSetup,
    StorageRequest,
    Tier,
)

FOLDER = "SGLANG_HICACHE_NIXL_BACKEND_STORAGE_DIR"
# mem_cache/storage/nixl/nixl_utils.py: NixlBackendSelection. The first of the files' that NIXL has is taken by itself.
FILE_PLUGINS = ("3FS", "POSIX", "GDS_MT", "GDS")
OBJECT_PLUGINS = ("OBJ",)


def nixl_tier(request: StorageRequest, setup: ServerSetup) -> Tier:
    facts, version = setup.facts, setup.version.version
    if not facts.nixl_reads_folder:
        raise Refusal(
            "storage_backend_absent",
            f"SGLang {version} gives NIXL no folder of one's own: it would write below /tmp, which the service's unit "
            "keeps in memory of its own.",
            "Take SGLang 0.5.3 or later.",
        )
    if request.extra_config and not facts.nixl_reads_extra:
        raise Refusal(
            "storage_option_not_taken",
            f"sglang_hicache_storage.extra_config is given, and the NIXL of SGLang {version} reads none.",
            "It begins with SGLang 0.5.9. Leave it out: the first plugin for files that NIXL has is taken.",
        )
    plugin = _plugin(request.extra_config)
    objects = plugin in OBJECT_PLUGINS
    if objects == (request.path is not None):
        raise Refusal(
            "storage_path_missing" if not objects else "storage_option_not_taken",
            f"sglang_hicache_storage.path is {'set' if objects else 'not set'}, and NIXL's plugin "
            f"{plugin or 'for files'} keeps {'objects' if objects else 'files'}.",
            "Leave it out." if objects else "Expected a folder of its own, such as /srv/kv-cache.",
        )
    settings = _settings(request.extra_config, plugin)
    if objects and not settings.get("bucket") and "AWS_DEFAULT_BUCKET" not in setup.environment:
        raise Refusal(
            "storage_bucket_missing",
            "NIXL's plugin OBJ is asked for without a bucket.",
            "Set bucket in its part of extra_config, or AWS_DEFAULT_BUCKET in sglang_environment.",
        )
    arguments: dict[str, str] = {"hicache-storage-backend": NIXL}
    if request.extra_config:
        arguments["hicache-storage-backend-extra-config"] = json.dumps(dict(request.extra_config), sort_keys=True)
    return Tier(
        backend=NIXL,
        arguments=arguments,
        environment={FOLDER: request.path} if request.path else {},
        folders=(request.path,) if request.path else (),
        module=MODULES[NIXL],
        addresses=tuple(_endpoint(settings)),
        writers=setup.writers,
        problems=() if objects or facts.nixl_cleans else (_unbounded(setup),),
    )


def _plugin(extra: Mapping[str, Any]) -> str | None:
    """As the server chooses: the first that is active. None where NIXL chooses."""
    named = extra.get("plugin")
    if named is None:
        return None
    active = [name for name, item in named.items() if (item or {}).get("active") in (True, "true", "True")]
    known = (*FILE_PLUGINS, *OBJECT_PLUGINS)
    if not active or active[0].upper() not in known:
        raise Refusal(
            "storage_plugin_unknown",
            f"sglang_hicache_storage.extra_config.plugin makes {active[0] if active else 'none'} active.",
            f"Expected active: true for one of {', '.join(known)}.",
            {"active": active},
        )
    return str(active[0]).upper()


def _settings(extra: Mapping[str, Any], plugin: str | None) -> Mapping[str, Any]:
    if plugin is None:
        return extra
    found: Mapping[str, Any] = next(item for name, item in extra["plugin"].items() if name.upper() == plugin)
    return found


def _endpoint(settings: Mapping[str, Any]) -> list[str]:
    given = str(settings.get("endpoint_override") or "")
    return [host_and_port("endpoint_override", given, str(settings.get("scheme") or "http"))] if given else []


def _unbounded(setup: ServerSetup) -> Problem:
    return Problem(
        "storage_unbounded",
        "warning",
        f"NIXL in SGLang {setup.version.version} removes no files: they fill the file system, and then nothing more is "
        "kept.",
        "Give it a file system of its own, or take SGLang 0.5.15 or later, which keeps it below 80 %.",
    )
