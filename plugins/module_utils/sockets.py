# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who listens on TCP ports: parsing of /proc/net/tcp{,6} and /proc/PID/cgroup. No I/O.

Formats: Documentation/networking/proc_net_tcp.rst and cgroups(7) of the Linux manual.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LISTEN = "0A"


@dataclass(frozen=True)
class Listener:
    """A listening socket; C(pid), C(command) and C(unit) are None where the reader may not see the owner."""

    address: str
    port: int
    inode: int
    pid: int | None = None
    command: str | None = None
    unit: str | None = None

    def as_dict(self) -> dict[str, object]:
        return {
            "address": self.address,
            "port": self.port,
            "pid": self.pid,
            "command": self.command,
            "unit": self.unit,
        }


def _address(text: str) -> str:
    """The kernel prints each 32-bit word of an address in host byte order, here little endian."""
    words = [bytes.fromhex(text[start : start + 8])[::-1] for start in range(0, len(text), 8)]
    return str(ipaddress.ip_address(b"".join(words)))


def listening(table: str, first: int, last: int | None = None) -> Iterator[Listener]:
    """The listening sockets on the ports C(first) to C(last) (or that one) in the text of one /proc/net/tcp table."""
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 10 or fields[3] != LISTEN:
            continue
        address, _colon, hex_port = fields[1].rpartition(":")
        try:
            port = int(hex_port, 16)
            if first <= port <= (first if last is None else last):
                yield Listener(address=_address(address), port=port, inode=int(fields[9]))
        except ValueError:
            continue  # not a line of the kernel's


def unit_of(cgroup: str) -> str | None:
    """The systemd unit in the text of /proc/PID/cgroup (v1, hybrid or v2), None outside any."""
    for line in cgroup.splitlines():
        parts = line.split(":", 2)
        if len(parts) != 3 or parts[1] not in ("", "name=systemd"):
            continue
        for name in reversed(parts[2].split("/")):
            if name.endswith((".service", ".scope")):
                return name
    return None


def socket_inode(link: str) -> int | None:
    """C(socket:[4711]) -> 4711, as /proc/PID/fd/N reads; None for any other file."""
    if link.startswith("socket:[") and link.endswith("]"):
        number = link[8:-1]
        return int(number) if number.isdecimal() else None
    return None


def _meet(one: str, other: str) -> bool:
    wildcards = {"0.0.0.0", "::"}
    return one in wildcards or other in wildcards or one == other


def overlapping(listeners: Iterable[Listener], address: str) -> list[Listener]:
    """Those that would keep a server from binding C(address): the same address or a wildcard on either side."""
    return [one for one in listeners if _meet(one.address, address)]


def in_the_way(listeners: Sequence[Mapping[str, Any]], ranges: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of listeners as dicts those on any range of ports, each once; a range has C(first), C(last) and C(address)."""
    found: list[Mapping[str, Any]] = []
    for wanted in ranges:
        there = [one for one in listeners if wanted["first"] <= one["port"] <= wanted["last"]]
        found += [one for one in there if _meet(one["address"], wanted.get("address", "0.0.0.0")) and one not in found]
    return found
