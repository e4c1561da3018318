# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.acs import acs_control, redirects
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.topology.trees import acs_space, config_space


def test_the_control_register_is_found_behind_other_capabilities() -> None:
    assert acs_control(acs_space(0x1D)) == 0x1D


def test_a_port_without_the_services_controls_nothing() -> None:
    assert acs_control(config_space({0x100: (0x0001, b""), 0x148: (0x0003, b"")})) == 0
    assert acs_control(config_space({})) == 0


@pytest.mark.parametrize(
    "config",
    [
        None,
        b"",
        # What anyone sees, and what conventional PCI has.
        acs_space(0x1D)[:64],
        acs_space(0x1D)[:256],
        # The chain leads out of what was read, or the register does.
        acs_space(0x1D)[:0x200],
        acs_space(0x1D)[:0x2A6],
        # A device that is asleep or gone.
        b"\xff" * 4096,
        # A chain that leads back into itself, and one that leads below where it begins.
        config_space({0x100: (0x0001, b"")})[:0x100] + (0x0001 | 0x100 << 20).to_bytes(4, "little") + bytes(3836),
        config_space({0x100: (0x0001, b"")})[:0x100] + (0x0001 | 0x040 << 20).to_bytes(4, "little") + bytes(3836),
    ],
)
def test_what_cannot_be_seen_is_unknown(config: bytes | None) -> None:
    assert acs_control(config) is None


@pytest.mark.parametrize(
    ("control", "answer"),
    [
        (None, None),
        (0x00, False),
        # Source validation, translation blocking, upstream forwarding, direct translated.
        (0x01, False),
        (0x02, False),
        (0x10, False),
        (0x40, False),
        # Request redirect, completion redirect, egress control.
        (0x04, True),
        (0x08, True),
        (0x20, True),
        # As Linux sets it for an IOMMU.
        (0x1D, True),
    ],
)
def test_which_bits_send_traffic_up(control: int | None, answer: bool | None) -> None:
    assert redirects(control) is answer
