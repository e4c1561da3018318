# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.findings.paths import (
    Links,
    level_problems,
    path_problems,
    spelled_pairs,
    unknown_access_problems,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.joined import Joined
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.pci import PciGpu
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Gpu, GpuLink, Host, Pcie

ON = Host(virtualization="none", iommu="on")
OFF = Host(virtualization="none", iommu="off")
PORTS = Host(virtualization="none", iommu="passthrough", acs_redirecting=("0000:02:01.0", "0000:02:02.0"))


def links(link: GpuLink, count: int = 2) -> Links:
    size = range(count)
    return tuple(tuple(GpuLink("SELF", None) if one == two else link for two in size) for one in size)


def found(matrix: Links, host: Host) -> dict[str, str]:
    return {problem.code: problem.message for problem in path_problems(matrix, host)}


def test_access_control_between_gpus() -> None:
    assert found(links(GpuLink("PIX", None, route="redirected")), PORTS) == {
        "acs_redirects_peers": "Ports 0000:02:01.0, 0000:02:02.0 send traffic between GPU 0-1 up to the host."
    }


def test_access_control_above_gpus_that_share_no_switch() -> None:
    assert found(links(GpuLink("NODE", None, route="host")), PORTS) == {
        "acs_redirects_ports": "Ports 0000:02:01.0, 0000:02:02.0 above GPUs redirect traffic to the host."
    }


def test_an_iommu_that_translates_concerns_gpus_without_nvlink() -> None:
    assert found(links(GpuLink("SYS", None)), ON) == {
        "iommu_translates": "The IOMMU translates addresses, and no NVLink is known between GPU 0-1."
    }
    assert found(links(GpuLink("NV18", "ok", 18, "nvlink")), ON) == {}
    assert found(links(GpuLink("SELF", None), 1), ON) == {}


@pytest.mark.parametrize(
    ("link", "host", "codes"),
    [
        (GpuLink("PIX", "ok", route="switch"), OFF, set()),
        (GpuLink("PIX", "ok", route="switch"), ON, {"iommu_translates", "p2p_doubtful"}),
        (GpuLink("PIX", "chipset_not_supported", route="switch"), ON, {"iommu_translates"}),
        (GpuLink("PIX", "ok", route="redirected"), PORTS, {"acs_redirects_peers", "p2p_doubtful"}),
        (GpuLink("PIX", "ok", route=None), OFF, set()),
        (GpuLink("SYS", "ok", 0), ON, {"iommu_translates", "p2p_doubtful"}),
        # Without word of NVLink the access may well be over it.
        (GpuLink("SYS", "ok"), ON, {"iommu_translates"}),
    ],
)
def test_that_the_driver_allows_peer_access_proves_nothing(link: GpuLink, host: Host, codes: set[str]) -> None:
    assert set(found(links(link), host)) == codes


def test_the_doubt_names_its_cause() -> None:
    messages = found(links(GpuLink("PIX", "ok", route="redirected"), 4), PORTS)
    assert messages["p2p_doubtful"] == (
        "The driver says that any two of the 4 GPUs can access each other, yet ACS redirects on the way."
    )


def test_a_guest_is_not_judged() -> None:
    guest = Host(virtualization="kvm", iommu="on", acs_redirecting=("0000:02:01.0",))
    assert found(links(GpuLink("PIX", "ok", route="redirected")), guest) == {}


def test_other_levels_of_the_driver_are_told() -> None:
    (told,) = level_problems({("SYS", "NODE"): [(0, 1), (2, 3)]}, links(GpuLink("SYS", None), 4))
    assert (told.code, told.severity) == ("link_level_disagrees", "info")
    assert told.message == "The driver says SYS between GPU 0-1, 2-3 where the PCI tree shows NODE."
    assert level_problems({}, ()) == []


def test_many_pairs_are_counted() -> None:
    matrix = links(GpuLink("SYS", None), 8)
    assert spelled_pairs([(0, 1), (2, 3)], matrix) == "GPU 0-1, 2-3"
    pairs = [(0, peer) for peer in range(1, 8)] + [(1, peer) for peer in range(2, 8)]
    assert spelled_pairs(pairs, matrix) == "GPU 0-1, 0-2, 0-3, 0-4, 0-5, 0-6, 0-7, 1-2 and 5 pairs more"


def below(port: str, acs: bool | None, switch: str = "0000:01:00.0", board: str = "10de:26b9") -> Joined:
    """An L40S at a port of a switch."""
    ways = ("pci0000:00", "0000:00:01.0", switch, port)
    pci = PciGpu("0000:03:00.0", board, ways, 0, None, "nvidia", Pcie(), None, (False, False, acs, acs))
    return Joined(Gpu(0), pci, None)


def unknown(pairs: list[Joined], link: GpuLink, host: Host = OFF) -> list[tuple[str, str, str]]:
    found = unknown_access_problems(pairs, links(link, len(pairs)), host)
    return [(problem.code, problem.severity, problem.message) for problem in found]


def test_access_control_that_only_root_sees() -> None:
    two = [below("0000:02:01.0", None), below("0000:02:02.0", None)]
    message = "The configuration of 3 switch ports above GPUs could not be read, so the way between GPU 0-1 is unknown."
    assert unknown(two, GpuLink("PIX", None, 0)) == [("acs_unknown", "warning", message)]
    # Boards without NVLink have none, asked or not.
    assert unknown(two, GpuLink("PIX", None, None)) == [("acs_unknown", "warning", message)]


def test_access_control_that_no_copy_between_gpus_depends_on() -> None:
    said = [("acs_ports_unknown", "info", "The configuration of 3 switch ports above GPUs could not be read.")]
    two = [below("0000:02:01.0", None), below("0000:02:02.0", None)]
    assert unknown(two, GpuLink("NV18", "ok", 18, "nvlink")) == said
    # Boards that may have NVLink, which nobody was asked about.
    hopper = [below(f"0000:02:0{port}.0", None, board="10de:2330") for port in (1, 2)]
    assert unknown(hopper, GpuLink("PIX", None, None)) == said
    lone = "The configuration of 2 switch ports above GPUs could not be read."
    assert unknown(two[:1], GpuLink("SELF", None, 0)) == [("acs_ports_unknown", "info", lone)]


def test_access_control_that_was_seen_or_is_a_guests() -> None:
    two = [below("0000:02:01.0", False), below("0000:02:02.0", True)]
    assert unknown(two, GpuLink("PIX", None, 0, "redirected")) == []
    hidden = [below("0000:02:01.0", None), below("0000:02:02.0", None)]
    assert unknown(hidden, GpuLink("PIX", None, 0), Host(virtualization="kvm")) == []
    assert unknown([Joined(Gpu(0), None, None)] * 2, GpuLink("PIX", None, 0)) == []
