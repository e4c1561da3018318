# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A machine as one instance sees it: without the host memory that the others of the node are going to take. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.binding_modes import STRICT


def host_claim(plan: Mapping[str, Any], held_bytes: int) -> dict[str, Any]:
    """Host memory that an instance is going to take beside what it holds, in all and on each NUMA node.

    Of no node where its ranks are not bound strictly, as the kernel then takes it where there is some.
    """
    host = plan.get("host") or {}
    total = max(0, int(host.get("bytes_total") or 0) - held_bytes)
    shares = host.get("numa") or [] if host.get("numa_binding") == STRICT else []
    pinned = sum(int(share["pinned_bytes"]) for share in shares)
    by_node = {
        str(share["node"]): int(share["pinned_bytes"]) * total // pinned
        for share in shares
        if pinned and share.get("node") is not None
    }
    return {"host_bytes": total, "node_bytes": by_node}


def without_claims(topology: Mapping[str, Any], claims: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The topology with what is available made smaller by the claims of others."""
    total = sum(int(claim.get("host_bytes") or 0) for claim in claims)
    by_node: dict[str, int] = {}
    for claim in claims:
        for node, size_bytes in (claim.get("node_bytes") or {}).items():
            by_node[str(node)] = by_node.get(str(node), 0) + int(size_bytes)
    host = dict(topology.get("host") or {})
    for key in ("memory_available_bytes", "cgroup_available_bytes"):
        if isinstance(host.get(key), int):
            host[key] = max(0, host[key] - total)
    nodes = []
    for node in topology.get("numa_nodes") or []:
        there = node.get("memory_available_bytes")
        claimed = by_node.get(str(node.get("id")), 0)
        nodes.append({**node, "memory_available_bytes": max(0, there - claimed)} if isinstance(there, int) else node)
    return {**topology, "host": host, "numa_nodes": nodes}


def claim(plan: Mapping[str, Any], held_bytes: int) -> dict[str, Any]:
    """All that an instance is going to take of its node, by its plan: memory, GPUs and ports."""
    seats = [seat.get("gpu") for seat in plan.get("placement") or []]
    return {
        **host_claim(plan, held_bytes),
        "gpus": [gpu for gpu in seats if gpu is not None],
        "ports": dict((plan.get("unit") or {}).get("ports") or {}),
    }
