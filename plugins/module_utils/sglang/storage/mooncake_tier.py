# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A tier of Mooncake: memory of many machines behind a master, over RDMA or TCP."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB, format_gib
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.flags import has_flag
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.storage_versions import (
    MODULES,
    MOONCAKE,
    StorageFacts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.addresses import host_and_port
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.request import (
    ServerSetup,
    StorageRequest,
    Tier,
)

# mooncake_store.py: DEFAULT_GLOBAL_SEGMENT_SIZE, later environ.py MOONCAKE_GLOBAL_SEGMENT_SIZE.
DEFAULT_SEGMENT_BYTES = 4 * GIB
# What needs no device of RDMA (Mooncake's transfer engine, "Supported protocols").
_WITHOUT_RDMA = ("tcp",)
_PEER_TO_PEER = "P2PHANDSHAKE"


def mooncake_tier(request: StorageRequest, setup: ServerSetup) -> Tier:
    facts = setup.facts
    if not has_flag("hicache-storage-backend-extra-config", setup.version.version):
        raise Refusal(
            "storage_backend_absent",
            f"SGLang {setup.version.version} takes Mooncake's settings from the environment of the server alone.",
            "Take SGLang 0.5.3 or later.",
        )
    extra = dict(request.extra_config)
    addresses = _addresses(extra, facts)
    protocol = str(extra.setdefault("protocol", facts.mooncake_protocol))
    segment = segment_bytes(extra)
    # Releases read words for sizes in different ways, and whole numbers in the same.
    extra["global_segment_size"] = segment
    devices = str(extra.get("device_name") or "")
    rdma = None if protocol in _WITHOUT_RDMA else tuple(_device_names(devices))
    offload = extra.get("ssd_offload_path")
    return Tier(
        backend=MOONCAKE,
        arguments={
            "hicache-storage-backend": MOONCAKE,
            "hicache-storage-backend-extra-config": json.dumps(extra, sort_keys=True),
        },
        folders=(str(offload),) if offload else (),
        module=MODULES[MOONCAKE],
        addresses=tuple(addresses),
        rdma=rdma,
        host_bytes=host_bytes(request, setup),
        writers=setup.writers,
        problems=tuple(_problems(protocol, segment, setup)),
    )


def segment_bytes(extra: Mapping[str, Any]) -> int:
    """The host memory that all ranks of an attention group give to the store, in bytes."""
    given = extra.get("global_segment_size")
    if given is None:
        return DEFAULT_SEGMENT_BYTES
    match = re.fullmatch(r"\s*(\d+)\s*(gb)?\s*", str(given).lower())
    if match is None or isinstance(given, bool):
        raise Refusal(
            "storage_size_malformed",
            f"sglang_hicache_storage.extra_config.global_segment_size is {given!r}.",
            "Expected bytes as a whole number, or GiB as SGLang writes them, such as 4gb; 0 where another holds "
            "the memory.",
            {"global_segment_size": given},
        )
    return int(match[1]) * (GIB if match[2] else 1)


def host_bytes(request: StorageRequest, setup: ServerSetup) -> int:
    """What the segments take of this host's memory, beside the host pools."""
    if request.extra_config.get("standalone_storage"):
        return 0
    stages = 1 if setup.facts.mooncake_divides_stages else setup.pipeline_parallel_size
    return segment_bytes(request.extra_config) * setup.token_groups * stages


def _addresses(extra: Mapping[str, Any], facts: StorageFacts) -> list[str]:
    master, client = extra.get("master_server_address"), extra.get("client_server_address")
    if client and not facts.mooncake_client:
        raise Refusal(
            "storage_option_not_taken",
            "sglang_hicache_storage.extra_config.client_server_address is given, which this release does not read.",
            "It begins with SGLang 0.5.7. Set master_server_address.",
        )
    if not master and not client:
        either = (
            "master_server_address (or client_server_address)" if facts.mooncake_client else "master_server_address"
        )
        raise Refusal(
            "storage_address_missing",
            f"sglang_hicache_storage.extra_config has no {either}, and the backend mooncake needs it.",
            "Expected the address of mooncake_master, such as 10.0.0.5:50051.",
        )
    found = [str(one) for one in (master, client) if one]
    metadata = str(extra.get("metadata_server") or _PEER_TO_PEER)
    if metadata != _PEER_TO_PEER:
        found.append(host_and_port("metadata_server", metadata))
    return found


def _device_names(text: str) -> list[str]:
    if text.strip().startswith("{"):
        try:
            named = json.loads(text)
        except ValueError as error:
            raise Refusal(
                "storage_devices_malformed",
                f"sglang_hicache_storage.extra_config.device_name begins with a brace and is no JSON: {error}.",
                'Expected a name for each rank, such as {"0": "mlx5_0", "1": "mlx5_1"}, or names with commas.',
            ) from error
        text = ",".join(str(one) for one in named.values())
    return sorted({one.strip() for one in text.split(",") if one.strip() and one.strip() != "auto"})


def _problems(protocol: str, segment: int, setup: ServerSetup) -> list[Problem]:
    if protocol not in _WITHOUT_RDMA:
        return []
    return [
        Problem(
            "storage_over_tcp",
            "info",
            f"Mooncake moves pages over {protocol}, and not over RDMA; {format_gib(segment)} of this host's memory are "
            f"given to the store for the {setup.ranks} ranks.",
            "Set extra_config.protocol to rdma where the machines have it.",
        )
    ]
