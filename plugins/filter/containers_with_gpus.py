# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

DOCUMENTATION = r"""
name: containers_with_gpus
version_added: 0.1.0
short_description: Containers as driver_plan takes them, from what docker and podman tell of them
description:
  - Finds out which containers have GPUs. By devices, by a request for devices (C(--gpus)), by NVIDIA's runtime, by
    C(NVIDIA_VISIBLE_DEVICES), or by a CDI device on the command line that made it.
options:
  _input:
    description: What C(docker inspect) or C(podman inspect) printed, parsed, one entry a container.
    type: list
    elements: dict
    required: true
  runtime:
    description: V(docker) or V(podman).
    type: str
    required: true
  cgroup_manager:
    description: >-
      V(systemd) or V(cgroupfs), as C(docker info) tells; podman tells it of each container. V(systemd) where nothing is
      known, as that is what may lose its GPUs.
    type: str
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Know docker's containers
  ansible.builtin.set_fact:
    containers: "{{ inspected.stdout | from_json | gpufleet.sglang.containers_with_gpus('docker', 'systemd') }}"
"""

RETURN = r"""
_value:
  description: Each with C(name), C(runtime), C(cgroup_manager), C(devices) and C(uses_gpus).
  type: list
  elements: dict
"""

_DEVICE = re.compile(r"/dev/nvidia|nvidia\.com/gpu")
# What NVIDIA's runtime takes for "no GPUs" (user guide of the container toolkit, "GPU enumeration").
_NO_GPUS = ("", "void", "none")


def _visible(environment: Sequence[str]) -> bool:
    words = dict(entry.partition("=")[::2] for entry in environment)
    return words.get("NVIDIA_VISIBLE_DEVICES", "") not in _NO_GPUS


def _container(told: Mapping[str, Any], runtime: str, cgroup_manager: str | None) -> dict[str, object]:
    host, config = told.get("HostConfig") or {}, told.get("Config") or {}
    devices = [device.get("PathOnHost") or "" for device in host.get("Devices") or []]
    command = [word for word in config.get("CreateCommand") or [] if isinstance(word, str)]
    # An image of CUDA names all GPUs in its environment; only NVIDIA's runtime, or the hook that podman has, reads it.
    by_environment = _visible(config.get("Env") or []) and (runtime == "podman" or host.get("Runtime") == "nvidia")
    return {
        "name": str(told.get("Name") or told.get("Id") or "unknown").lstrip("/"),
        "runtime": runtime,
        "cgroup_manager": host.get("CgroupManager") or cgroup_manager or "systemd",
        "devices": [device for device in devices if device],
        "uses_gpus": bool(host.get("DeviceRequests"))
        or by_environment
        or any(_DEVICE.search(word) for word in [*devices, *command]),
    }


def containers_with_gpus(
    inspected: Sequence[Mapping[str, Any]], runtime: str, cgroup_manager: str | None = None
) -> list[dict[str, object]]:
    return [_container(told, runtime, cgroup_manager) for told in inspected]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., list[dict[str, object]]]]:
        return {"containers_with_gpus": containers_with_gpus}
