# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The services of the driver, in the order in which they start."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.fabric import Fabric
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.host import Host
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.request import Request


@dataclass(frozen=True)
class Service:
    """C(state) is started or stopped."""

    name: str
    enabled: bool
    state: str
    why: str


def plan_services(host: Host, asked: Request, fabric: Fabric) -> tuple[Service, ...]:
    """The fabric manager is started, never restarted, while servers run: that breaks their NVLink (NVIDIA/nccl issue
    1488). It starts before what initialises GPUs for good."""
    found = []
    if fabric.fabric_manager:
        found.append(Service("nvidia-fabricmanager", True, "started", f"{fabric.reason} CUDA waits for it."))
    elif host.fabric_manager.installed_version is not None and fabric.kind == "none":
        why = f"{fabric.reason} It fails at every start."
        found.append(Service("nvidia-fabricmanager", False, "stopped", why))
    if asked.persistence:
        found.append(Service("nvidia-persistenced", True, "started", "It keeps idle GPUs initialised."))
    elif host.persistenced.installed_version is not None:
        found.append(Service("nvidia-persistenced", False, "stopped", "persistence is false."))
    if fabric.imex:
        found.append(Service("nvidia-imex", True, "started", f"{fabric.reason} IMEX lets them share memory."))
    if asked.container_toolkit:
        found.append(
            Service(
                "nvidia-cdi-refresh.path",
                True,
                "started",
                "It describes the GPUs for CDI anew when the driver changes (container toolkit 1.18 and later).",
            )
        )
    return tuple(found)
