# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What stands in the way of copies between GPUs over PCIe: access control in switches and the IOMMU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.catalogue import board_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.joined import Joined, spelled
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.pci import PciGpu
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.links import route_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import GpuLink, Host
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.problem_codes import problem

# More than these are counted instead of listed.
MOST_LISTED = 8

Links = Sequence[Sequence[GpuLink]]
Pairs = Sequence[tuple[int, int]]


def pairs_where(links: Links, holds: Callable[[GpuLink], bool]) -> list[tuple[int, int]]:
    """Pairs of GPUs, each once, by their places in the matrix."""
    size = range(len(links))
    return [(one, two) for one in size for two in size[one + 1 :] if holds(links[one][two])]


def _is_over_pcie(link: GpuLink) -> bool:
    return link.nvlinks == 0 or link.route in ("switch", "redirected", "host")


def spelled_pairs(pairs: Pairs, links: Links) -> str:
    """C(GPU 0-1, 2-3), or in words where these are many."""
    count = len(links)
    if count > 2 and len(pairs) == count * (count - 1) // 2:
        return f"any two of the {count} GPUs"
    listed = spelled(f"{one}-{two}" for one, two in pairs[:MOST_LISTED])
    more = len(pairs) - MOST_LISTED
    return f"GPU {listed} and {more} pairs more" if more > 0 else f"GPU {listed}"


def level_problems(conflicts: Mapping[tuple[str, str], Pairs], links: Links) -> list[Problem]:
    """Where the driver names other levels between GPUs than the PCI tree shows."""
    return [
        problem(
            "link_level_disagrees",
            f"The driver says {told} between {spelled_pairs(pairs, links)} where the PCI tree shows {seen}.",
        )
        for (told, seen), pairs in sorted(conflicts.items())
    ]


def path_problems(links: Links, host: Host) -> list[Problem]:
    """C(links) is the matrix of the GPUs in the order of their indexes."""
    # In a guest the hypervisor has set up both; what the guest sees of them tells nothing.
    if host.virtualization not in (None, "none"):
        return []
    found = []
    redirected = pairs_where(links, lambda link: link.route == "redirected")
    ports = host.acs_redirecting or ()
    more = len(ports) - MOST_LISTED
    listed = spelled(ports[:MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
    if redirected:
        between = spelled_pairs(redirected, links)
        found.append(problem("acs_redirects_peers", f"Ports {listed} send traffic between {between} up to the host."))
    elif ports:
        found.append(problem("acs_redirects_ports", f"Ports {listed} above GPUs redirect traffic to the host."))
    translates = host.iommu == "on"
    over_pcie = pairs_where(links, lambda link: not link.nvlinks)
    if translates and over_pcie:
        between = spelled_pairs(over_pcie, links)
        found.append(
            problem("iommu_translates", f"The IOMMU translates addresses, and no NVLink is known between {between}.")
        )
    doubtful = pairs_where(
        links, lambda link: link.p2p == "ok" and _is_over_pcie(link) and (translates or link.route == "redirected")
    )
    if doubtful:
        between = spelled_pairs(doubtful, links)
        cause = "the IOMMU translates" if translates else "ACS redirects"
        found.append(
            problem("p2p_doubtful", f"The driver says that {between} can access each other, yet {cause} on the way.")
        )
    return found


def _way_is_open(one: PciGpu | None, two: PciGpu | None, link: GpuLink) -> bool:
    """Whether only access control is missing to know the way between two GPUs that have no NVLink."""
    if one is None or two is None or not one.bridges or not two.bridges:
        return False
    boards = (board_of(one.pci_id), board_of(two.pci_id))
    bare = link.nvlinks == 0 or any(board is not None and not board.nvlink for board in boards)
    return bare and route_of((one.bridges, one.acs), (two.bridges, two.acs)) is None


def unknown_access_problems(pairs: Sequence[Joined], links: Links, host: Host) -> list[Problem]:
    """Where access control could not be seen; C(links) as above, in the order of C(pairs)."""
    if host.virtualization not in (None, "none"):
        return []
    ports: dict[str, None] = {}
    for one in pairs:
        told = zip(one.pci.bridges, one.pci.acs) if one.pci else ()
        ports.update((bridge, None) for bridge, redirects in told if redirects is None)
    if not ports:
        return []

    open_pairs = [
        (one, two)
        for one, two in pairs_where(links, lambda link: not link.nvlinks)
        if _way_is_open(pairs[one].pci, pairs[two].pci, links[one][two])
    ]
    count = f"{len(ports)} switch port{'' if len(ports) == 1 else 's'} above GPUs"
    if not open_pairs:
        return [problem("acs_ports_unknown", f"The configuration of {count} could not be read.")]
    between = spelled_pairs(open_pairs, links)
    what = f"The configuration of {count} could not be read, so the way between {between} is unknown."
    return [problem("acs_unknown", what)]
