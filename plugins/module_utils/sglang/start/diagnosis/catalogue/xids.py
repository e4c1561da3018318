# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the Xid numbers of NVIDIA's driver mean for a server that starts.

Source: NVIDIA, "Analyzing Xid Errors with the Xid Catalog" (docs.nvidia.com/deploy/xid-errors; Ampere and later), by
its immediate and its investigatory action; names also in nverror.h of NVIDIA/open-gpu-kernel-modules. What it ignores,
what a program causes, and what only goes with another Xid says nothing of the hardware: a server that fails beside it
fails of something else.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class XidMeaning:
    """C(words): what happened. C(hardware): whether it can be the cause of a failure by itself, and is no program's."""

    words: str
    remedy: str
    hardware: bool = True


_PROGRAM = (
    "See the server's own traceback: such an error is mostly the program's, and the GPU stays in order. If it comes "
    "with every program, or with other Xids, reset the GPU."
)
_RESET = (
    "Stop everything that uses the GPU and reset it (`nvidia-smi --gpu-reset -i INDEX`), or reboot the machine. If it "
    "comes back, take the GPU out of use and open a case with the vendor."
)
_APPLICATION = (
    "Start the server again: the error was contained in it. Reset the GPU (`nvidia-smi --gpu-reset -i INDEX`) when it "
    "is free, and see `nvidia-smi -q -d ECC,ROW_REMAPPER` for rows that cannot be remapped."
)
_LOST = (
    "Reboot the machine. If it comes back, see `journalctl -k` for errors of PCIe (AER) before it, reseat the GPU and "
    "check its power and riser, and open a case with the vendor."
)
_LINK = (
    "See `nvidia-smi nvlink -e` and `nvidia-smi nvlink -s` of both ends, as the fault can be that of the other GPU or "
    "of the switch. Reset the GPUs of the link, or reboot the machine; if it comes back, open a case with the vendor."
)
_SYSTEM_PROCESSOR = (
    "Reset the GPU (`nvidia-smi --gpu-reset -i INDEX`), and power the machine off and on if that does not help. If it "
    "comes back, update the driver and open a case with the vendor."
)
_IGNORE = "Nothing has to be done for it now; look for another cause. If it comes often, open a case with the vendor."
_WITH_ANOTHER = "See the Xids beside it in `journalctl -k`, and do what the words of this one ask for."

_XIDS: dict[int, XidMeaning] = {
    13: XidMeaning("an exception of the graphics engine, mostly an access out of bounds", _PROGRAM, False),
    31: XidMeaning("a page fault of the GPU's memory, mostly an access to memory that is not mapped", _PROGRAM, False),
    32: XidMeaning("a damaged stream of commands, mostly of a bad PCIe connection", _LOST),
    43: XidMeaning("a program that was ended after a fault of its own", _PROGRAM, False),
    45: XidMeaning("the channels of a program that were taken down with it", "Find what ended the program.", False),
    46: XidMeaning("a GPU that stopped processing", _RESET),
    48: XidMeaning("an uncorrectable error of two bits (ECC)", _RESET),
    54: XidMeaning("a GPU board whose auxiliary power is not connected", "Connect the GPU's power cables."),
    62: XidMeaning("a halt of the GPU's own microcontroller", _RESET),
    63: XidMeaning("a row of the GPU's memory that was remapped, or will be at its next reset", _IGNORE, False),
    64: XidMeaning("a row of the GPU's memory that could not be remapped", _RESET),
    69: XidMeaning("a fault of the graphics engine's class", _PROGRAM, False),
    74: XidMeaning("an error of an NVLink", _LINK),
    79: XidMeaning("a GPU that has fallen off the bus", _LOST),
    92: XidMeaning("a high rate of single bit errors, which were corrected", _IGNORE, False),
    94: XidMeaning("an error of the GPU's memory that was contained in one program", _APPLICATION),
    95: XidMeaning("an error of the GPU's memory that was not contained", _RESET),
    109: XidMeaning("a timeout of a context switch", _RESET),
    110: XidMeaning("a security fault of the GPU", _SYSTEM_PROCESSOR),
    119: XidMeaning("a timeout of the GPU's system processor (GSP)", _SYSTEM_PROCESSOR),
    120: XidMeaning("an error of the GPU's system processor (GSP)", _SYSTEM_PROCESSOR),
    121: XidMeaning("corrected errors of the link to the CPU (C2C)", _IGNORE, False),
    136: XidMeaning("an NVLink that could not be trained", _LINK),
    137: XidMeaning("an access over NVLink that was not allowed, mostly a program's", _PROGRAM, False),
    140: XidMeaning("an uncorrectable error of the GPU's memory (ECC) that could not be handled", _RESET),
    143: XidMeaning("a GPU that could not be initialised", _RESET),
    **{number: XidMeaning("an error of an NVLink", _LINK) for number in range(144, 151)},
    154: XidMeaning("what the driver asks for to recover the GPU has changed", _WITH_ANOTHER, False),
    155: XidMeaning("an NVLink that went down", _LINK),
    156: XidMeaning("a part of the GPU that is to be retired", _RESET),
    157: XidMeaning("a part of the GPU that could not be retired", _IGNORE, False),
    158: XidMeaning("a fatal timeout of the GPU", _RESET),
    167: XidMeaning("a fatal timeout of the GPU's PCIe connection", _LOST),
    169: XidMeaning("a halt of the GPU's security processor", _RESET),
    171: XidMeaning("an uncorrectable error of the GPU's memory (DRAM), which Xid 48 tells as well", _RESET),
    172: XidMeaning("an uncorrectable error inside of the GPU (SRAM), which Xid 48 tells as well", _RESET),
}


def xid_meaning(xid: object) -> XidMeaning | None:
    return _XIDS.get(xid) if isinstance(xid, int) else None


def is_hardware(xid: object) -> bool:
    """Whether such an Xid can be the cause of a failure by itself."""
    found = xid_meaning(xid)
    return found is not None and found.hardware
