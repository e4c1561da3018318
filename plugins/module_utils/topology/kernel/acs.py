# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""PCIe Access Control Services: whether a port sends what passes between its neighbours up to the host instead.

Read from a port's configuration space, whose extended capabilities (PCIe Base Specification 7.7.11) only root sees.
"""

from __future__ import annotations

# Where extended capabilities begin, and the identity of ours.
_FIRST = 0x100
_ACS = 0x000D
_CONTROL_AT = 6
# A device that does not answer reads as all ones.
_SILENT = 0xFFFFFFFF
# P2P Request Redirect, P2P Completion Redirect, P2P Egress Control: what Linux takes for a redirect as well
# (pci_bridge_has_acs_redir). Upstream Forwarding alone only passes on what a port further down has redirected.
REDIRECTS = 0x04 | 0x08 | 0x20


def acs_control(config: bytes | None) -> int | None:
    """The control register; 0 where the port has no such services, None where that cannot be seen: without root the
    kernel shows the first 64 bytes, and conventional PCI has 256."""
    place = _place(config)
    if config is None or place is None or place == 0:
        return place
    control = config[place : place + 2]
    return int.from_bytes(control, "little") if len(control) == 2 else None


def acs_place(config: bytes | None) -> int | None:
    """Where in the configuration space the control register lies; None where there is none to be seen."""
    return _place(config) or None


def _place(config: bytes | None) -> int | None:
    """0 where the port has no such services, None where that cannot be seen."""
    if config is None or len(config) < _FIRST + 4:
        return None
    place, seen = _FIRST, set()
    while _FIRST <= place <= len(config) - 4 and place not in seen:
        seen.add(place)
        header = int.from_bytes(config[place : place + 4], "little")
        if header == _SILENT:
            return None
        if header & 0xFFFF == _ACS:
            return place + _CONTROL_AT
        place = header >> 20 & 0xFFC
        if place == 0:
            return 0
    # The chain leads out of what was read, or in a circle.
    return None


def redirects(control: int | None) -> bool | None:
    """Whether traffic between devices below the neighbours of a port goes up to the host; None where unknown."""
    return None if control is None else bool(control & REDIRECTS)
