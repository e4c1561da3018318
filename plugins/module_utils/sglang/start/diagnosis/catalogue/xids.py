# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the Xid numbers of NVIDIA's driver mean for a server that starts.

Source: NVIDIA, XID Errors (docs.nvidia.com/deploy/xid-errors), by its catalogue's immediate action. Numbers that a
program causes say nothing of the hardware; 45 only says that a program's channels were taken down after its end.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class XidMeaning:
    """C(words): what happened. C(hardware): whether it is the GPU's or the machine's, and not a program's."""

    words: str
    remedy: str
    hardware: bool = True


_PROGRAM = (
    "See the server's own traceback: such an error is mostly the program's. If it comes with others, reset the GPU."
)
_RESET = "Stop what uses the GPU and reset it (`nvidia-smi --gpu-reset`), or reboot; if it returns, replace the GPU."
_REPLACE = "Take the GPU out of use, and have it replaced."
_LOST = "Reboot the machine; if it returns, reseat or replace the GPU, and see its power and riser."
_DRIVER = "Reboot the machine, and update the driver if it returns."

_XIDS: dict[int, XidMeaning] = {
    13: XidMeaning("an exception of the graphics engine, mostly an access out of bounds", _PROGRAM, False),
    31: XidMeaning("a page fault of the GPU's memory, mostly an access to memory that is not mapped", _PROGRAM, False),
    43: XidMeaning("a channel that stopped after a fault of a program", _PROGRAM, False),
    45: XidMeaning("channels of a program that were taken down with it", "Find what ended the program.", False),
    48: XidMeaning("an error of two bits in the GPU's memory", _RESET),
    61: XidMeaning("a breakpoint of the GPU's own microcontroller", _RESET),
    62: XidMeaning("a halt of the GPU's own microcontroller", _RESET),
    63: XidMeaning("a row of the GPU's memory that is to be remapped", _RESET),
    64: XidMeaning("a row of the GPU's memory that could not be remapped", _REPLACE),
    69: XidMeaning("a fault of the graphics engine's class", _PROGRAM, False),
    74: XidMeaning("an error of an NVLink", _RESET),
    79: XidMeaning("a GPU that has fallen off the bus", _LOST),
    92: XidMeaning("a high rate of single bit errors", _REPLACE),
    94: XidMeaning("a contained error of the GPU's memory", _RESET),
    95: XidMeaning("an uncontained error of the GPU's memory", _RESET),
    109: XidMeaning("a timeout of a context switch", _RESET),
    119: XidMeaning("a timeout of the GPU's system processor", _DRIVER),
    120: XidMeaning("an error of the GPU's system processor", _DRIVER),
    140: XidMeaning("an unrecovered error of ECC", _RESET),
    143: XidMeaning("a failed initialisation of the GPU", _LOST),
    145: XidMeaning("an error of an NVLink", _RESET),
    149: XidMeaning("an error of an NVLink", _RESET),
    154: XidMeaning("an action that the driver asks for to recover the GPU", _RESET),
    169: XidMeaning("a GPU that wants the open kernel modules", "Install the driver with open kernel modules."),
}


def xid_meaning(xid: object) -> XidMeaning | None:
    return _XIDS.get(xid) if isinstance(xid, int) else None


def is_hardware(xid: object) -> bool:
    """Whether such an Xid can be the cause of a failure by itself."""
    found = xid_meaning(xid)
    return found is not None and found.hardware
