# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Replicas of several nodes, and servers that prefill or decode, as the hosts of an inventory state them. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.addresses import (
    HAS_NETADDR,
    SUBNET,
    address_in,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.findings import Finding, finding
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.instances_of_host import Asked, asked_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.model import Host, Role
from ansible_collections.gpufleet.sglang.plugins.module_utils.replica.arrange import (
    DEFAULT_BOOTSTRAP_PORT,
    DEFAULT_MEETING_PORT,
    MODES,
    WHOLE,
    Member,
    Trouble,
    pair_troubles,
    server_troubles,
    troubles_of,
)

# What the nodes of a replica have to agree on beside the release and the layout.
_SETTINGS = (
    "served_model_name",
    "attention_data_parallel_size",
    "expert_parallel_size",
    "kv_cache_dtype",
    "page_size",
    "context_length",
)


def replica_findings(hosts: Sequence[Host], role: Role) -> Iterator[Finding]:
    replicas, alone = _servers(hosts, role)
    for name, members in replicas.items():
        for trouble in troubles_of(members, name):
            # With a subnet, the check of addresses has said what is wrong with it.
            told = trouble.code == "replica_without_address" and (
                not HAS_NETADDR or any(host.name in trouble.hosts and SUBNET in host.stated for host in hosts)
            )
            if not told:
                yield _told(trouble)
    for member in alone:
        for trouble in server_troubles(member):
            yield _told(trouble)
    by_model: dict[str, list[Member]] = {}
    for first in [*(members[0] for members in replicas.values()), *alone]:
        if first.mode != WHOLE:
            by_model.setdefault(str(first.settings.get("served_model_name") or "one model"), []).append(first)
    for model, servers in by_model.items():
        for trouble in pair_troubles(servers, model):
            yield _told(trouble)


def _told(trouble: Trouble) -> Finding:
    return finding(trouble.code, trouble.hosts, trouble.variable, trouble.found, trouble.expected)


def _servers(hosts: Sequence[Host], role: Role) -> tuple[dict[str, list[Member]], list[Member]]:
    """The members of each replica in the order of the inventory, and the servers that are none of any."""
    replicas: dict[str, list[Member]] = {}
    alone = []
    for host in hosts:
        for one in asked_of(host, role) if host.serves else ():
            replica = one.get("replica")
            if replica:
                replicas.setdefault(str(replica), []).append(_member(host, one))
            elif one.get("disaggregation_mode") not in (None, WHOLE):
                alone.append(_member(host, one))
    return replicas, alone


def _member(host: Host, one: Asked) -> Member:
    subnet, mode = one.get("subnet"), one.get("disaggregation_mode")
    address = address_in(str(subnet), host) if subnet is not None and HAS_NETADDR else None
    return Member(
        host.name,
        one.name,
        None if one.get("version") is None else str(one.get("version")),
        address,
        host.interfaces.get(address) if address else None,
        _gpus(host, one),
        one.whole("tensor_parallel_size") or 1,
        one.whole("pipeline_parallel_size") or 1,
        {name: one.get(name) for name in _SETTINGS},
        one.whole("dist_init_port") or DEFAULT_MEETING_PORT,
        # Another value is told where values are checked.
        mode if mode in MODES else WHOLE,
        one.whole("disaggregation_bootstrap_port") or DEFAULT_BOOTSTRAP_PORT,
        one.get("disaggregation_transfer_backend"),
        one.get("disaggregation_ib_device"),
    )


def _gpus(host: Host, one: Asked) -> int | None:
    if one.gpus:
        return len(one.gpus)
    count: Any = one.mapping("paper_machine").get("count")
    if isinstance(count, int):
        return count
    topology = one.mapping("paper_topology") or host.topology or {}
    return len(topology["gpus"]) if topology.get("gpus") else None
