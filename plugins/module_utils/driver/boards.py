# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The first release of the driver that serves a board, by PCI device id.

From the tables of supported boards in README.md of NVIDIA/open-gpu-kernel-modules, tags 535.54.03 to 595.45.04, without
the developers' lines (550.40, 570.123, 580.94), which are no releases for data centres. HGX B200 needs 570.133.20
(NVIDIA/cloud-native-docs pull request 184, MIG user guide, "Deployment Considerations"), though that list has it from
570.86.15 on. Branches after the last one of a row serve the board from their first release on, as far as these tags
show: 10de:2c3a came with 580.142 and is in no tag of 590 and 595 up to there, nor was a later one seen.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.flavours import required_flavour
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.versions import version_key
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.catalogue import board_of


@dataclass(frozen=True)
class FirstReleases:
    """C(by_branch): the first release of each branch that does not serve the board from the beginning."""

    name: str
    by_branch: dict[int, str]


FIRST: dict[str, FirstReleases] = {
    "10de:230e": FirstReleases("H20 NVL16", {580: "580.82.07"}),
    "10de:232c": FirstReleases("H20-3e", {535: "535.216.03", 550: "550.127.08", 565: "565.77"}),
    "10de:2335": FirstReleases("H200", {550: "550.90.07"}),
    "10de:233b": FirstReleases("H200 NVL", {565: "565.57.01"}),
    "10de:2348": FirstReleases("GH200 144G HBM3e", {565: "565.57.01"}),
    "10de:2901": FirstReleases("B200", {570: "570.133.20"}),
    "10de:2941": FirstReleases("GB200", {570: "570.124.04"}),
    "10de:2b85": FirstReleases("GeForce RTX 5090", {570: "570.86.16"}),
    "10de:2bb1": FirstReleases("RTX PRO 6000 Blackwell Workstation Edition", {570: "570.133.07"}),
    "10de:2bb3": FirstReleases("RTX PRO 5000 Blackwell", {570: "570.153.02", 575: "575.57.08"}),
    "10de:2bb4": FirstReleases("RTX PRO 6000 Blackwell Max-Q Workstation Edition", {570: "570.133.07"}),
    "10de:2bb5": FirstReleases("RTX PRO 6000 Blackwell Server Edition", {575: "575.57.08"}),
    "10de:2c31": FirstReleases("RTX PRO 4500 Blackwell", {570: "570.169", 575: "575.64"}),
    "10de:2c34": FirstReleases("RTX PRO 4000 Blackwell", {570: "570.169", 575: "575.64"}),
    "10de:2c3a": FirstReleases("RTX PRO 4500 Blackwell Server Edition", {580: "580.142"}),
    "10de:3182": FirstReleases("B300", {580: "580.82.07"}),
    "10de:31c2": FirstReleases("GB300", {580: "580.82.07"}),
}
# Boards that are not listed, by the first id of their generation: GB10x, then GB11x and later.
_BLACKWELL = FirstReleases("Blackwell", {570: "570.86.15"})
_BLACKWELL_ULTRA = FirstReleases("Blackwell Ultra or later", {580: "580.82.07"})
_FIRST_BLACKWELL_ULTRA = 0x3100


def first_releases(pci_id: str) -> FirstReleases | None:
    """None where every release that this collection knows of serves the board, as far as is known."""
    known = FIRST.get(pci_id)
    if known is not None or required_flavour(pci_id) != "open":
        return known
    number = int(pci_id.partition(":")[2], 16)
    if number < 0x2900:  # Grace Hopper, which has been served since 535
        return None
    return _BLACKWELL_ULTRA if number >= _FIRST_BLACKWELL_ULTRA else _BLACKWELL


def first_for(pci_id: str, branch: int) -> str | None:
    """The first release of the branch that serves the board, or of a later branch where this one never does."""
    first = first_releases(pci_id)
    if first is None or branch > max(first.by_branch):
        return None
    later = min(number for number in first.by_branch if number >= branch)
    return first.by_branch[later]


def too_old(pci_id: str, branch: int, release: str | None) -> str | None:
    """The first release that serves the board where the given one, or any of the given branch, does not."""
    first = first_for(pci_id, branch)
    if first is None:
        return None
    if int(first.partition(".")[0]) > branch:
        return first
    return first if release is not None and version_key(release) < version_key(first) else None


def board_name(pci_id: str) -> str:
    """C(10de:2bb5 (RTX PRO 6000 Blackwell Server Edition)), as far as the name is known."""
    board, first = board_of(pci_id), FIRST.get(pci_id)
    name = first.name if first else board.name if board else None
    return pci_id if name is None else f"{pci_id} ({name})"
