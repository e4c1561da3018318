# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses and subnets of hosts, as netaddr (https://netaddr.readthedocs.io) understands them. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.findings import Finding, finding
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.instances_of_host import asked_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.model import PAPER, Host, Role

try:
    import netaddr

    HAS_NETADDR = True
except ImportError:
    HAS_NETADDR = False

SUBNET = "sglang_subnet"
# What is meant for an address, whether it is one or not: a name of a host has a letter that no address has.
_LIKE_ADDRESS = re.compile(r"[0-9.]+\Z|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*(%\w+)?\Z")
_SSH_PORT = "22"


def missing_library(hosts: Iterable[Host]) -> Iterator[Finding]:
    """Said once for all hosts whose addresses could not be looked at."""
    names = [host.name for host in hosts if host.serves]
    if names and not HAS_NETADDR:
        yield finding(
            "python_library_missing",
            names,
            None,
            "no netaddr, so that addresses and subnets were not checked",
            "the Python library netaddr on the controller",
            "pip install netaddr, into the environment that Ansible runs in.",
        )


def as_address(text: Any) -> Any:
    """The address that a text is, None where it is none; needs netaddr."""
    try:
        return netaddr.IPAddress(str(text), flags=netaddr.INET_PTON)
    except (netaddr.AddrFormatError, ValueError, TypeError):
        return None


def as_subnet(text: Any) -> Any:
    try:
        return netaddr.IPNetwork(str(text)) if "/" in str(text) else None
    except (netaddr.AddrFormatError, ValueError, TypeError):
        return None


def addresses_of(host: Host) -> list[Any]:
    """All that is known of the host's own: what its facts tell, else where Ansible would connect to."""
    told = host.addresses or (str(host.variables.get("ansible_host", host.name)),)
    return [address for address in map(as_address, told) if address is not None]


def address_in(subnet_text: str, host: Host) -> str | None:
    """The one address of the host in a subnet; None where there is none or more than one."""
    subnet = as_subnet(subnet_text)
    inside = [address for address in addresses_of(host) if subnet is not None and address in subnet]
    return str(inside[0]) if len(inside) == 1 else None


def address_findings(hosts: Sequence[Host], role: Role) -> Iterator[Finding]:
    if not HAS_NETADDR:
        return
    for host in hosts:
        yield from _impossible(host, role)
        yield from _subnet(host)
    yield from _shared([host for host in hosts if host.is_node], role)
    yield from _shared([host for host in hosts if PAPER in host.groups and not host.is_node], role, "warning")


def _impossible(host: Host, role: Role) -> Iterator[Finding]:
    connect = host.variables.get("ansible_host")
    if connect is not None and _LIKE_ADDRESS.match(str(connect)) and as_address(str(connect).partition("%")[0]) is None:
        yield finding("address_impossible", [host.name], "ansible_host", str(connect), "an IP address or a name")
    if not host.serves:
        return
    for one in asked_of(host, role):
        bound = one.get("host")
        if bound is not None and as_address(bound) is None:
            yield finding(
                "address_impossible",
                [host.name],
                "sglang_host",
                f"{bound!r} in instance {one.name}",
                "an IP address to bind, such as 127.0.0.1 or 0.0.0.0",
            )


def _subnet(host: Host) -> Iterator[Finding]:
    declared = host.variables.get(SUBNET)
    if declared is None or not host.serves:
        return
    subnet = as_subnet(declared)
    if subnet is None or subnet.ip != subnet.network:
        wanted = f"{subnet.cidr}" if subnet is not None else "a subnet such as 10.0.0.0/24"
        yield finding("subnet_impossible", [host.name], SUBNET, str(declared), wanted)
        return
    known = addresses_of(host)
    inside = [address for address in known if address in subnet]
    if not known:
        yield finding("subnet_unproven", [host.name], SUBNET, str(declared), "a host whose address is known")
    elif not inside:
        told = ", ".join(map(str, known[:4]))
        yield finding("subnet_without_host", [host.name], SUBNET, told, f"an address in {declared}")
    elif len(inside) > 1:
        yield finding(
            "subnet_ambiguous", [host.name], SUBNET, ", ".join(map(str, inside[:4])), f"one address in {declared}"
        )


def _shared(hosts: Sequence[Host], role: Role, severity: str | None = None) -> Iterator[Finding]:
    reached: dict[tuple[str, str], list[str]] = {}
    bound: dict[str, dict[str, None]] = {}
    for host in hosts:
        connect = str(host.variables.get("ansible_host", host.name))
        place = str(as_address(connect) or connect)
        reached.setdefault((place, str(host.variables.get("ansible_port", _SSH_PORT))), []).append(host.name)
        for one in asked_of(host, role):
            address = as_address(one.get("host"))
            if address is not None and not address.is_loopback() and int(address) != 0:
                bound.setdefault(str(address), {})[host.name] = None
    for (place, port), names in reached.items():
        if len(names) > 1:
            told = place if port == _SSH_PORT else f"{place}, port {port}"
            yield finding(
                "address_shared", names, "ansible_host", told, "an address of its own for each", severity=severity
            )
    for place, holders in bound.items():
        if len(holders) > 1:
            yield finding(
                "address_shared",
                holders,
                "sglang_host",
                f"{place}, which servers of several hosts would bind",
                "an address of its own for each",
                "Bind 0.0.0.0, or the address of each host in its own variables.",
                severity,
            )
