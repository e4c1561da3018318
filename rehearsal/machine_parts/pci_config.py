# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""PCI configuration space as sysfs gives it to root: header, capabilities, ACS (PCI Express Base Specification)."""

from __future__ import annotations

import struct
from typing import Any

LEGACY_BYTES = 256
EXTENDED_BYTES = 4096
# Device and port types of the PCI Express capability.
ENDPOINT, ROOT_PORT, UPSTREAM_PORT, DOWNSTREAM_PORT, PCI_BRIDGE = 0, 4, 5, 6, 7
# Bits of the ACS capability and control registers, by the names that lspci prints.
ACS_BITS = {
    "SrcValid": 0,
    "TransBlk": 1,
    "ReqRedir": 2,
    "CmpltRedir": 3,
    "UpstreamFwd": 4,
    "EgressCtrl": 5,
    "DirectTrans": 6,
}
SPEED_CODES = {2.5: 1, 5: 2, 8: 3, 16: 4, 32: 5, 64: 6}
_EXPRESS, _AER, _ACS = 0x40, 0x100, 0x150


def _link(speed: float, width: int) -> int:
    return SPEED_CODES[speed] | width << 4


def acs_bits(names: list[str]) -> int:
    return sum(1 << ACS_BITS[name] for name in names)


def config_space(facts: dict[str, Any], port: int, buses: tuple[int, int] | None) -> bytes:
    """C(buses): the bus that a bridge is on and the one below it. C(acs): what is enabled, None for no capability."""
    if facts.get("off_bus"):
        # Nobody answers for the device any more, and the bus reads as ones.
        return b"\xff" * LEGACY_BYTES
    size = facts.get("config_bytes", EXTENDED_BYTES if "speed" in facts else LEGACY_BYTES)
    space = bytearray(EXTENDED_BYTES)
    vendor, device = (int(part, 16) for part in facts["id"].split(":"))
    struct.pack_into("<HHHH", space, 0, vendor, device, 0x0406, 0x0010)
    space[0x08] = 0xA1
    space[0x09:0x0C] = int(facts["class"], 16).to_bytes(3, "little")
    space[0x0E] = 0 if buses is None else 1
    if buses is not None:
        space[0x18:0x1B] = bytes((buses[0], buses[1], buses[1]))
    else:
        sub_vendor, sub_device = (int(part, 16) for part in facts.get("subsystem", "0000:0000").split(":"))
        struct.pack_into("<HH", space, 0x2C, sub_vendor, sub_device)
    if "speed" not in facts:
        space[0x06] = 0
        return bytes(space[:size])
    space[0x34] = _EXPRESS
    struct.pack_into("<BBH", space, _EXPRESS, 0x10, 0, 2 | port << 4)
    struct.pack_into("<I", space, _EXPRESS + 0x0C, _link(facts["speed"], facts["width"]))
    now = _link(facts.get("speed_now", facts["speed"]), facts.get("width_now", facts["width"]))
    struct.pack_into("<H", space, _EXPRESS + 0x12, now)
    enabled = facts.get("acs", []) if port in (ROOT_PORT, DOWNSTREAM_PORT) else None
    struct.pack_into("<I", space, _AER, 0x0001 | 2 << 16 | (0 if enabled is None else _ACS) << 20)
    if enabled is not None:
        able = acs_bits(["SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "DirectTrans"])
        struct.pack_into("<IHH", space, _ACS, 0x000D | 1 << 16, able, acs_bits(enabled))
    return bytes(space[:size])
