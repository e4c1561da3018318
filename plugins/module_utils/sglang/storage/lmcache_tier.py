# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""LMCache in the place of HiCache: in the server's processes before SGLang 0.5.13, behind a daemon from there on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.flags import has_flag
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.storage_versions import LMCACHE
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.request import (
    ServerSetup,
    StorageFile,
    StorageRequest,
    Tier,
)

VARIABLE, ARGUMENT = "LMCACHE_CONFIG_FILE", "lmcache-config-file"
# storage/lmcache/README.md to 0.5.12.
_SWITCH = {"LMCACHE_USE_EXPERIMENTAL": "True"}
# storage/lmcache/example_config.yaml to 0.5.12 (without the size, which is a matter of the machine), and
# example_config_mp.yaml from 0.5.13 on.
_INSIDE = {"chunk_size": 256, "local_cpu": True, "use_layerwise": True}
_DAEMON = {"mp_host": "127.0.0.1", "mp_port": 5556}


def lmcache_tier(request: StorageRequest, setup: ServerSetup) -> Tier:
    if setup.hicache:
        raise Refusal(
            "storage_excludes_hicache",
            "sglang_hicache_storage asks for lmcache, and sglang_hicache_enabled is true: LMCache takes the place of "
            "HiCache. SGLang refuses the two together from 0.5.21 on and drops one before.",
            "Set sglang_hicache_enabled to false, or take the backend file for a third tier below HiCache.",
        )
    daemon = setup.facts.lmcache_daemon
    config = {**(_DAEMON if daemon else _INSIDE), **request.extra_config}
    size = host_bytes(request, setup)
    named = has_flag(ARGUMENT, setup.version.version)
    return Tier(
        backend=LMCACHE,
        arguments={"enable-lmcache": True},
        environment={} if daemon else dict(_SWITCH),
        # JSON is YAML as well.
        file=StorageFile(
            "yaml",
            json.dumps(config, indent=2, sort_keys=True) + "\n",
            variable=None if named else VARIABLE,
            argument=ARGUMENT if named else None,
        ),
        module=setup.facts.lmcache_module,
        addresses=(_daemon_address(config),) if daemon else (),
        host_bytes=size,
        writers=setup.writers,
    )


def host_bytes(request: StorageRequest, setup: ServerSetup) -> int:
    """What LMCache pins inside the ranks; a daemon's memory is its own."""
    if setup.facts.lmcache_daemon:
        return 0
    given = request.extra_config.get("max_local_cpu_size")
    if isinstance(given, bool) or not isinstance(given, (int, float)) or given <= 0:
        raise Refusal(
            "storage_cap_missing",
            f"sglang_hicache_storage.extra_config.max_local_cpu_size is {given!r}, and LMCache of SGLang "
            f"{setup.version.version} pins that much memory in every rank.",
            "Expected the GiB of host memory a rank, such as 20.",
        )
    return int(given * GIB) * setup.ranks


def _daemon_address(config: Mapping[str, Any]) -> str:
    host, port = str(config["mp_host"]), config["mp_port"]
    host = host.split("://", 1)[-1]
    if not host or isinstance(port, bool) or not str(port).isdigit() or not 1 <= int(port) <= 65535:
        raise Refusal(
            "storage_address_malformed",
            f"sglang_hicache_storage.extra_config has mp_host {config['mp_host']!r} and mp_port {port!r}.",
            "Expected the address of 'lmcache server', such as 127.0.0.1 and 5556.",
        )
    return f"{host}:{port}"
