# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Idle or degraded, usable or not."""

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.gpu_state import at_rest, is_usable, link_state
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Gpu, GpuProcess, Host, Mode, Pcie
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.topology.readings import GUEST, HOST, one, pci

PROCESSES = (GpuProcess(4711, None),)
FULL = Pcie(5, 16, 5, 16, 5, 16)


@pytest.mark.parametrize(
    ("state", "utilization", "processes", "rest"),
    [
        (8, None, (), True),
        (12, 0, PROCESSES, True),
        # Many boards for data centres rest in state 0.
        (0, 0, (), True),
        (0, 90, PROCESSES, False),
        (None, 90, PROCESSES, False),
        # What the driver itself does shows as utilisation, above all right after it was loaded.
        (0, 100, (), None),
        (0, 3, PROCESSES, None),
        (0, 0, PROCESSES, None),
        (0, None, (), None),
        (None, None, (), None),
    ],
)
def test_rest_and_work(
    state: int | None, utilization: int | None, processes: tuple[GpuProcess, ...], rest: bool | None
) -> None:
    assert at_rest(Gpu(index=0, performance_state=state, processes=processes), utilization) is rest


@pytest.mark.parametrize(
    ("pcie", "rest", "state"),
    [
        (FULL, None, "full"),
        (FULL, False, "full"),
        (replace(FULL, slot_generation_max=None, slot_width_max=None), None, "full"),
        (replace(FULL, slot_generation_max=6, slot_width_max=32), None, "full"),
        (replace(FULL, generation=1), True, "idle"),
        (replace(FULL, generation=1), False, "degraded"),
        (replace(FULL, generation=1), None, None),
        (replace(FULL, generation=4, slot_generation_max=4), None, "slot_limited"),
        (replace(FULL, generation=1, slot_generation_max=4), True, "slot_limited"),
        (replace(FULL, generation=1, slot_generation_max=4), False, "degraded"),
        (replace(FULL, width=8, slot_width_max=8), True, "slot_limited"),
        # Lanes do not go to sleep.
        (replace(FULL, width=8), True, "degraded"),
        (replace(FULL, width=4, slot_width_max=8), None, "degraded"),
        (replace(FULL, width=8, slot_width_max=None), None, "degraded"),
        (replace(FULL, generation=None), True, None),
        (replace(FULL, width=None), False, None),
        (Pcie(), None, None),
    ],
)
def test_state_of_a_link(pcie: Pcie, rest: bool | None, state: str | None) -> None:
    assert link_state(pcie, rest) == state


def test_a_slot_means_nothing_in_a_guest() -> None:
    slot = pci(6, generation=4, slot_generation_max=1, slot_width_max=1)
    link = Pcie(4, 16, 4, 16)
    assert one(GUEST, slot, pcie=link).gpus[0].pcie == replace(
        link, slot_generation_max=1, slot_width_max=1, state="full"
    )
    assert one(seen=slot, pcie=link).gpus[0].pcie.state == "slot_limited"
    assert one(GUEST, slot, pcie=link).problems == ()


@pytest.mark.parametrize(
    ("facts", "usable"),
    [
        ({}, True),
        ({"state": "ok", "kernel_driver": "nvidia", "compute_mode": "exclusive_process"}, True),
        ({"state": "ok", "processes": PROCESSES}, True),
        ({"virtualization": "vgpu"}, True),
        ({"mig": Mode(False, True)}, True),
        ({"mig": Mode(True, False)}, False),
        ({"state": "lost"}, False),
        ({"state": "reset_required"}, False),
        ({"state": "unreadable"}, False),
        ({"compute_mode": "prohibited"}, False),
        ({"kernel_driver": "vfio-pci"}, False),
        ({"virtualization": "host_vgpu"}, False),
        ({"virtualization": "host_vsga"}, False),
    ],
)
def test_what_a_server_can_have(facts: dict[str, Any], usable: bool) -> None:
    assert is_usable(Gpu(index=0, **facts)) is usable


@pytest.mark.parametrize(
    ("host", "virtualization", "state"),
    [(HOST, None, "degraded"), (GUEST, None, "slot_limited"), (HOST, "passthrough", "slot_limited")],
)
def test_lanes_that_a_guest_lacks_are_not_lost(host: Host, virtualization: str | None, state: str) -> None:
    halved = Pcie(4, 16, 4, 8)
    seen = pci(6, generation_max=4, generation=4, width=8, slot_generation_max=4, slot_width_max=16)
    machine = one(host, seen, pcie=halved, virtualization=virtualization)
    assert machine.gpus[0].pcie.state == state
    codes = {problem.code for problem in machine.problems}
    assert ("pcie_slot_narrower" in codes, "pcie_width_reduced" in codes) == (
        state == "slot_limited",
        state == "degraded",
    )
