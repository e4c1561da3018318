# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Containers that lose their GPUs when systemd reloads its units.

Where systemd manages the control groups of containers, it applies its own list of devices again on a reload, and what
the runtime allowed past it is gone (NVIDIA/nvidia-container-toolkit issues 48, 251, 1227). Devices that the container
was given by name or by CDI are in systemd's list, as long as /dev/char has a link to each (NVIDIA/nvidia-docker issue
1730).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.problem_codes import problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.request import Container, Request
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem

_GPU_DEVICE = re.compile(r"/dev/nvidia\d+|/dev/nvidia-caps/")
_REMEDY = (
    "Reload systemd's units when these containers have stopped, or make the links first: nvidia-ctk system "
    "create-dev-char-symlinks --create-all, and start the containers anew with their devices by CDI."
)


@dataclass(frozen=True)
class DaemonReload:
    postpone: bool = False
    reason: str | None = None
    containers: tuple[str, ...] = ()
    remedy: str | None = None


def uses_gpus(container: Container) -> bool:
    by_name = any(_GPU_DEVICE.match(device) or device.startswith("nvidia.com/gpu=") for device in container.devices)
    return by_name if container.uses_gpus is None else container.uses_gpus or by_name


def loses_gpus(container: Container, dev_char_links: bool) -> bool:
    if not uses_gpus(container) or container.cgroup_manager == "cgroupfs":
        return False
    by_name = any(_GPU_DEVICE.match(device) or device.startswith("nvidia.com/gpu=") for device in container.devices)
    return not (by_name and dev_char_links)


def plan_daemon_reload(asked: Request) -> tuple[DaemonReload, list[Problem]]:
    if asked.containers is None:
        return DaemonReload(), []
    losing = [one.name for one in asked.containers if loses_gpus(one, asked.dev_char_links)]
    if not losing:
        return DaemonReload(), []
    several = len(losing) > 1
    reason = (
        f"{', '.join(losing)} {'have' if several else 'has'} GPUs that systemd, which manages "
        f"{'their' if several else 'its'} control group, would take away when it reloads its units "
        "(NVIDIA/nvidia-container-toolkit issue 48)."
    )
    return DaemonReload(True, reason, tuple(losing), _REMEDY), [problem("driver_daemon_reload_postponed", reason)]
