# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""What C(lspci -vvv) printed, device by device, and configuration space made of it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.topology.trees import config_space

# Bits of the ACS control register in the order in which lspci prints them.
ACS_BITS = ("SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans")
ACS = 0x000D


@dataclass(frozen=True)
class Printed:
    """C(buses) are a bridge's primary, secondary and subordinate bus; C(acs_at) is where the capability lies."""

    address: str
    title: str
    numa_node: int | None
    buses: tuple[int, int, int] | None
    speed_max: str | None
    width_max: int | None
    width: int | None
    driver: str | None
    acs_at: int | None
    acs: int | None


def _first(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text, re.MULTILINE)
    return found.group(1) if found else None


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _acs_control(text: str) -> int | None:
    line = _first(r"ACSCtl:\s*(.+)$", text)
    if line is None:
        return None
    return sum(1 << place for place, name in enumerate(ACS_BITS) if f"{name}+" in line.split())


def read_lspci(path: Path) -> dict[str, Printed]:
    """Devices by address with its domain."""
    found = {}
    for stanza in re.split(r"\n\s*\n", path.read_text(encoding="utf-8", errors="replace")):
        head = re.match(r"([0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (.+)", stanza.strip())
        if head is None:
            continue
        buses = re.search(r"Bus: primary=(\w\w), secondary=(\w\w), subordinate=(\w\w)", stanza)
        at = _first(r"Capabilities: \[([0-9a-f]+) v\d+\] Access Control Services", stanza)
        address = f"0000:{head.group(1)}"
        primary, secondary, subordinate = (int(bus, 16) for bus in buses.groups()) if buses else (0, 0, 0)
        found[address] = Printed(
            address=address,
            title=head.group(2),
            numa_node=_number(_first(r"NUMA node: (\d+)", stanza)),
            buses=(primary, secondary, subordinate) if buses else None,
            speed_max=_first(r"LnkCap:.*Speed ([\d.]+GT/s)", stanza),
            width_max=_number(_first(r"LnkCap:.*Width x(\d+)", stanza)),
            width=_number(_first(r"LnkSta:.*Width x(\d+)", stanza)),
            driver=_first(r"Kernel driver in use: (\S+)", stanza),
            acs_at=int(at, 16) if at else None,
            acs=_acs_control(stanza),
        )
    return found


def config_of(one: Printed, pci_class: int, vendor: int, device: int) -> bytes:
    """The header with its bus numbers, and the ACS capability where lspci saw one."""
    capabilities = {0x100: (0x0001, b"")}
    if one.acs_at is not None and one.acs is not None:
        capabilities[one.acs_at] = (ACS, b"\0\0" + one.acs.to_bytes(2, "little"))
    config = bytearray(config_space(capabilities))
    config[0:4] = vendor.to_bytes(2, "little") + device.to_bytes(2, "little")
    config[0x09:0x0C] = pci_class.to_bytes(3, "little")
    if one.buses:
        config[0x0E] = 1
        config[0x18:0x1B] = bytes(one.buses)
    return bytes(config)


def write_configs(root: Path, printed: Mapping[str, Printed]) -> None:
    """Give each device of an unpacked tree the configuration space that lspci read on the machine."""
    for address, one in printed.items():
        here = root / "sys/bus/pci/devices" / address
        vendor, device, pci_class = (
            int((here / name).read_text(encoding="utf-8"), 16) if (here / name).is_file() else 0
            for name in ("vendor", "device", "class")
        )
        (here / "config").write_bytes(config_of(one, pci_class, vendor, device))


def way_down(address: str, printed: Mapping[str, Printed]) -> tuple[str, ...]:
    """The bridges above a device by the bus numbers alone, from the top; without the host bridge."""
    bus = int(address.split(":")[1], 16)
    above = [one.address for one in printed.values() if one.buses and one.buses[1] == bus]
    return (*way_down(above[0], printed), above[0]) if above else ()
