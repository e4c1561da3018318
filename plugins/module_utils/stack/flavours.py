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

from collections.abc import Iterable

# The first id of TU102; all before are Volta's and older chips'.
_FIRST_TURING = 0x1E00
# The first id of GB100 and all later chips.
_FIRST_BLACKWELL = 0x2900
_GRACE_HOPPER = (0x2342, 0x2345, 0x2348)


def required_flavour(pci_id: str) -> str | None:
    """open, proprietary or either for C(10de:2330); None for what is no id."""
    try:
        number = int(pci_id.partition(":")[2], 16)
    except ValueError:
        return None
    if number < _FIRST_TURING:
        return "proprietary"
    return "open" if number >= _FIRST_BLACKWELL or number in _GRACE_HOPPER else "either"


def common_flavour(pci_ids: Iterable[str]) -> str | None:
    """The flavour that all GPUs of a host can run with: as for one, or none where they have none in common."""
    needs = {need for need in map(required_flavour, pci_ids) if need is not None}
    if not needs:
        return None
    strict = needs - {"either"}
    if len(strict) > 1:
        return "none"
    return strict.pop() if strict else "either"
