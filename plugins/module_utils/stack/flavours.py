# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which flavour of NVIDIA's kernel modules a GPU needs, by its PCI device id.

The open modules need a GPU System Processor, which came with Turing; Maxwell, Pascal and Volta have none. Grace Hopper,
Blackwell and later run with the open modules only (NVIDIA driver installation guide, "Kernel Modules"). NVIDIA numbers
its chips upwards in time, so ranges of device ids tell the generation; the bounds are those of the lists of released
boards in NVIDIA/open-gpu-kernel-modules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# The first id of GM108: Kepler and what came before it are served by no driver that is still maintained.
_FIRST_MAXWELL = 0x1340
# The first id of TU102; all before are Volta's and older chips'.
_FIRST_TURING = 0x1E00
# The first id of GB100 and all later chips.
_FIRST_BLACKWELL = 0x2900
_GRACE_HOPPER = (0x2342, 0x2345, 0x2348)
_NVIDIA = "nvidia"
# Free drivers that take boards at boot, before NVIDIA's is installed.
IN_THE_WAY = ("nouveau", "nova_core", "NovaCore")


@dataclass(frozen=True)
class Board:
    """A GPU on the PCI bus. C(display): it can drive screens; C(driver): the kernel driver that holds it, if any."""

    pci_id: str
    display: bool = False
    driver: str | None = None


def served(boards: Sequence[Board]) -> list[Board]:
    """The boards that NVIDIA's driver is to serve, which are those that its flavour has to suit.

    One that another driver holds is not: it is given to a virtual machine, or it is a display card with nouveau. Where
    nouveau holds boards and NVIDIA's driver none, nouveau is in the way and nobody's choice. A display card that is too
    old for every current driver is nobody's reason for a flavour, as long as there are others.
    """
    chosen = [board for board in boards if board.driver in (None, _NVIDIA)]
    if not any(board.driver == _NVIDIA for board in boards):
        chosen = [board for board in boards if board.driver in (None, *IN_THE_WAY)]
    current = [board for board in chosen if not (board.display and _is_outdated(board.pci_id))]
    return current or chosen


def _is_outdated(pci_id: str) -> bool:
    number = _number(pci_id)
    return number is not None and number < _FIRST_MAXWELL


def _number(pci_id: str) -> int | None:
    try:
        return int(pci_id.partition(":")[2], 16)
    except ValueError:
        return None


def required_flavour(pci_id: str) -> str | None:
    """open, proprietary or either for C(10de:2330); None for what is no id."""
    number = _number(pci_id)
    if number is None:
        return None
    if number < _FIRST_TURING:
        return "proprietary"
    return "open" if number >= _FIRST_BLACKWELL or number in _GRACE_HOPPER else "either"


def common_flavour(pci_ids: Iterable[str]) -> str | None:
    """The flavour that all of these GPUs can run with: as for one, or none where they have none in common."""
    needs = {need for need in map(required_flavour, pci_ids) if need is not None}
    if not needs:
        return None
    strict = needs - {"either"}
    if len(strict) > 1:
        return "none"
    return strict.pop() if strict else "either"
