# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All that is wrong with an inventory, of names, values, instances, addresses and the user's own queries. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.addresses import (
    address_findings,
    missing_library,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.findings import Finding, finding
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.instances_of_host import (
    ROLE,
    instance_findings,
    service_ports,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.model import Host, Removal, Role
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.names import name_findings, place_findings
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.queries import asked_document, query_findings
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.removed_variables import REMOVED
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.replicas import replica_findings
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.values import Values, is_secret


def check(
    hosts: Sequence[Host],
    roles: Sequence[Role],
    queries: Sequence[Mapping[str, Any]] = (),
    removed: Mapping[str, Removal] | None = None,
) -> Iterator[Finding]:
    """In no order; C(roles) has that of SGLang among them."""
    if not hosts:
        yield finding("inventory_empty", [], None, "no host", "the hosts of a fleet")
        return
    [sglang] = [role for role in roles if role.name == ROLE]
    values = Values(roles)
    groups = frozenset(group for host in hosts for group in host.groups)
    for host in hosts:
        yield from name_findings(host, roles, REMOVED if removed is None else removed)
        yield from place_findings(host, roles)
        yield from values.findings(host)
        yield from values.unresolved(host)
        if host.serves:
            yield from instance_findings(host, sglang, service_ports(host, roles, groups))
    yield from missing_library(hosts)
    yield from address_findings(hosts, sglang)
    yield from replica_findings(hosts, sglang)
    if queries:
        secret = {name for role in roles for name, spec in role.options.items() if is_secret(name, spec)}
        yield from query_findings(queries, asked_document(hosts, frozenset(secret)))
