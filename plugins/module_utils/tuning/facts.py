# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What tuning has to know of a node before it decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import SwapDevice
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.hugepages import NodeMemory


@dataclass(frozen=True)
class Knob:
    """A value with the words that the kernel offers for it; C(offered) is empty where it does not say."""

    current: str
    offered: tuple[str, ...] = ()


@dataclass(frozen=True)
class NodeFacts:
    """C(sysctl): the values by name, of those that are there. C(sysctl_files): path and text, in the order of reading.

    C(fstab): without what tuning wrote into it, C(fstab_now) with it. C(governors): by the folder of the policy.
    C(redirecting_ports): None where it cannot be seen.
    """

    sysctl: Mapping[str, str] = field(default_factory=dict)
    sysctl_files: tuple[tuple[str, str], ...] = ()
    thp: Mapping[str, Knob] = field(default_factory=dict)
    nodes: Mapping[int, NodeMemory] = field(default_factory=dict)
    memory_total_bytes: int = 0
    memory_available_bytes: int = 0
    governors: Mapping[str, Knob] = field(default_factory=dict)
    hypervisor: bool = False
    tuned_profile: str | None = None
    fstab: str | None = None
    fstab_now: str | None = None
    swaps: tuple[SwapDevice, ...] = ()
    swap_units: tuple[str, ...] = ()
    shm_bytes: int | None = None
    shm_used_bytes: int = 0
    redirecting_ports: tuple[str, ...] | None = ()
    acs: Mapping[str, int] = field(default_factory=dict)
    isolated_devices: tuple[str, ...] = ()
    setpci: bool = True
