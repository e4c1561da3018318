# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a GPU has given away before the weights are loaded: the driver's context and the buffers of the collectives.

A fit by eye to the free memory that SGLang logged in five public issues and pull requests of sgl-project/sglang, on
the cards that are named below: nothing in SGLang says these numbers, and other drivers, libraries and cards take
others. Only used while nothing was measured.
"""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB

# (ranks up to, bytes). One rank: H100 80GB 1.06 GiB (pull request 4760), A800 80GB 0.4 GiB (#1109). Two: A100 40GB
# PCIe 1.29 GiB (#4257). More, with eight: H100 80GB 2.92 GiB (#1386), A100 80GB 2.86 GiB (#3204).
_BY_RANKS = ((1, 1.0), (2, 1.3), (1 << 30, 3.0))
# Blackwell workstation cards keep more: 1.8 GiB of an RTX PRO 6000 with one rank, in one log.
_LEAST_OF_WORKSTATION = 1.8


def context_bytes(ranks: int, capability: tuple[int, int] | None) -> int:
    """What C(ranks) ranks take of a GPU before they load anything."""
    size = next(gib for most, gib in _BY_RANKS if ranks <= most)
    if capability is not None and capability[0] == 12:
        size = max(size, _LEAST_OF_WORKSTATION)
    return round(size * GIB)
