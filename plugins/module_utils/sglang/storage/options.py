# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of C(storage_plan), and its result in the documented form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import FAMILY_DSA, FAMILY_MLA
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import version_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.node import (
    judge_node,
    node_facts,
    packages_missing,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.request import (
    ServerSetup,
    Tier,
    storage_request,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.tier import file_name, plan_tier, settled

ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    "storage": {"type": "dict", "required": True},
    "plan": {"type": "dict", "required": True},
    "instance": {"type": "str", "default": "main"},
    "config_root": {"type": "path", "default": "/etc/sglang"},
    "environment": {"type": "list", "elements": "str", "default": []},
    "extra_arguments": {"type": "list", "elements": "str", "default": []},
    "node": {"type": "dict"},
    "requirements": {"type": "str"},
    "system_packages": {"type": "list", "elements": "str"},
}
# A state is kept whole and not by the token.
_WITHOUT_TOKENS = "mamba"


def setup_of(arguments: Mapping[str, Any]) -> ServerSetup:
    """The server as its memory plan has it."""
    plan = arguments["plan"]
    device, host, flags = plan["device"], plan["host"], plan["arguments"]
    page_size = device["page_size"] or 1
    tokens = [pool["bytes_per_token"] for pool in host["pools"] if pool["kind"] != _WITHOUT_TOKENS]
    return ServerSetup(
        version=version_facts(plan["sglang_version"]),
        instance=arguments["instance"],
        tensor_parallel_size=flags.get("tp-size") or 1,
        pipeline_parallel_size=flags.get("pp-size") or 1,
        token_groups=device["token_groups"] or 1,
        latent=plan["model"]["family"] in (FAMILY_MLA, FAMILY_DSA),
        hicache=host["enabled"],
        io_backend=host["io_backend"],
        mem_layout=host["mem_layout"],
        page_size=page_size,
        page_bytes=int(sum(tokens) * page_size) or None,
        host_pool_bytes=host["bytes_total"] or 0,
        host_left_bytes=host["left_bytes"],
        environment=tuple(arguments["environment"]),
        extra_arguments=tuple(arguments["extra_arguments"]),
    )


def plan_storage(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """C(tier), C(refusals) of the node and C(problems), as storage_plan returns them; raises Refusal."""
    request = storage_request(arguments["storage"])
    setup = setup_of(arguments)
    tier = plan_tier(request, setup)
    refusals: list[Refusal] = []
    problems = list(tier.problems)
    packages: list[str] = []
    if arguments["node"] is not None:
        facts = node_facts(arguments["node"])
        refusals, found = judge_node(
            request, setup, tier, facts, arguments["requirements"], arguments["system_packages"]
        )
        problems += found
        packages = packages_missing(tier, facts, arguments["requirements"])
    return {
        "tier": _as_dict(tier, arguments["config_root"], setup.instance),
        "packages": packages,
        "refusals": [one.as_dict() for one in refusals],
        "problems": [one.as_dict() for one in problems],
    }


def _as_dict(tier: Tier, config_root: str, instance: str) -> dict[str, Any]:
    name = file_name(tier, instance)
    path = None if name is None else f"{config_root.rstrip('/')}/{name}"
    flags, environment = settled(tier, path)
    return {
        "backend": tier.backend,
        "arguments": flags,
        "environment": environment,
        "file": None if tier.file is None else {"path": path, "content": tier.file.content},
        "folders": list(tier.folders),
        "mounts": list(tier.mounts),
        "writable": list(dict.fromkeys((*tier.folders, *tier.writable))),
        "modules": [] if tier.module is None else [tier.module],
        "addresses": list(tier.addresses),
        "compiles": tier.compiles,
        "host_bytes": tier.host_bytes,
        "writers": tier.writers,
        "prune": None if tier.prune is None else asdict(tier.prune),
    }
