# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.filter.containers_with_gpus import containers_with_gpus

GPU = {"PathOnHost": "/dev/nvidia0", "PathInContainer": "/dev/nvidia0", "CgroupPermissions": "rwm"}
ALL = "NVIDIA_VISIBLE_DEVICES=all"


@pytest.mark.parametrize(
    ("runtime", "host", "config", "expected"),
    [
        ("docker", {}, {}, False),
        ("docker", {"Devices": None, "DeviceRequests": None}, {"Env": None}, False),
        ("docker", {"Devices": [{"PathOnHost": "/dev/fuse"}]}, {}, False),
        ("docker", {"Devices": [GPU]}, {}, True),
        ("docker", {"DeviceRequests": [{"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}]}, {}, True),
        ("docker", {"Runtime": "nvidia"}, {"Env": ["PATH=/bin", ALL]}, True),
        ("docker", {"Runtime": "nvidia"}, {"Env": ["NVIDIA_VISIBLE_DEVICES=void"]}, False),
        ("docker", {"Runtime": "nvidia"}, {"Env": []}, False),
        # An image of CUDA that runs on a CPU.
        ("docker", {"Runtime": "runc"}, {"Env": [ALL]}, False),
        ("podman", {}, {"Env": [ALL]}, True),
        ("podman", {}, {"CreateCommand": ["podman", "run", "--device", "nvidia.com/gpu=all", "image"]}, True),
        ("podman", {}, {"CreateCommand": ["podman", "run", "image"]}, False),
    ],
)
def test_who_has_gpus(runtime: str, host: dict[str, Any], config: dict[str, Any], *, expected: bool) -> None:
    (found,) = containers_with_gpus([{"Name": "/server", "HostConfig": host, "Config": config}], runtime, "cgroupfs")
    assert (found["name"], found["runtime"], found["uses_gpus"]) == ("server", runtime, expected)


def test_podman_tells_the_manager_of_each_container_and_docker_of_all() -> None:
    told: list[dict[str, Any]] = [{"Name": "one", "HostConfig": {"CgroupManager": "cgroupfs"}}, {"Id": "4f2a"}]
    assert [(entry["name"], entry["cgroup_manager"]) for entry in containers_with_gpus(told, "podman")] == [
        ("one", "cgroupfs"),
        ("4f2a", "systemd"),
    ]
    assert containers_with_gpus([{"Name": "/two"}], "docker", "cgroupfs")[0]["cgroup_manager"] == "cgroupfs"


def test_devices_are_passed_on() -> None:
    told = [{"Name": "one", "HostConfig": {"Devices": [GPU, {"PathOnHost": ""}]}}]
    assert containers_with_gpus(told, "docker")[0]["devices"] == ["/dev/nvidia0"]
