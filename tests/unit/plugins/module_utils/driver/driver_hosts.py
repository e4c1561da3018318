# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts as host_stack_info tells of them, and requests to plan a driver for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.facts import Plan
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.host import Host, read_host
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.plan import Outcome, plan_driver
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.request import Request
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import (
    Cpu,
    Driver,
    FabricManager,
    Kernel,
    Limits,
    LoadedModule,
    Memory,
    NextBoot,
    NvidiaModule,
    OperatingSystem,
    Package,
    Persistenced,
    Reboot,
    SecureBoot,
    Stack,
    UnattendedUpgrades,
    UserSpace,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.flavours import common_flavour
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.packages import kind_of, release_of

H100, H200, B200, B300 = "10de:2330", "10de:2335", "10de:2901", "10de:3182"
A100, L40S, V100, P100, T4 = "10de:20b2", "10de:26b9", "10de:1db1", "10de:15f8", "10de:1eb8"
RTX_PRO_6000, GB200, GB300, GH200 = "10de:2bb5", "10de:2941", "10de:31c2", "10de:2342"

SYSTEMS: dict[str, OperatingSystem] = {
    "debian12": OperatingSystem("debian", "12", "bookworm", "debian", "x86_64", "apt"),
    "debian13": OperatingSystem("debian", "13", "trixie", "debian", "x86_64", "apt"),
    "ubuntu2204": OperatingSystem("ubuntu", "22.04", "jammy", "debian", "x86_64", "apt"),
    "ubuntu2404": OperatingSystem("ubuntu", "24.04", "noble", "debian", "x86_64", "apt"),
    "rhel9": OperatingSystem("rocky", "9.6", None, "rhel", "x86_64", "dnf"),
    "rhel10": OperatingSystem("rhel", "10.1", None, "rhel", "x86_64", "dnf"),
}
KERNELS = {
    "debian12": "6.1.0-25-amd64",
    "debian13": "6.12.48+deb13-amd64",
    "ubuntu2204": "5.15.0-119-generic",
    "ubuntu2404": "6.8.0-45-generic",
    "rhel9": "5.14.0-570.12.1.el9_6.x86_64",
    "rhel10": "6.12.0-55.9.1.el10_0.x86_64",
}


def package(name: str, version: str, status: str = "installed", held: bool = False) -> Package:
    kind = kind_of(name)
    return Package(
        name,
        version,
        "amd64",
        kind=kind or "driver",
        status=status,
        held=held,
        driver_release=release_of(name, version),
    )


def kernel(release: str, **facts: Any) -> Kernel:
    given: dict[str, Any] = {
        "running": True,
        "boots_next": True,
        "vmlinuz": f"/boot/vmlinuz-{release}",
        "initramfs": f"/boot/initrd.img-{release}",
        "headers_installed": True,
        **facts,
    }
    return Kernel(release, **given)


def module(version: str, flavour: str = "open", **facts: Any) -> NvidiaModule:
    given: dict[str, Any] = {"signed": True, "signer": "DKMS module signing key", "source": "dkms", **facts}
    return NvidiaModule("/lib/modules/x/updates/dkms/nvidia.ko", version, flavour, **given)


def bare(distribution: str = "debian12", gpus: Sequence[str] = (L40S,) * 4, **facts: Any) -> Stack:
    """A host without a driver, whose GPUs nothing holds. Facts of the driver are given by their names in Driver."""
    release = KERNELS[distribution]
    driver_names = ("gpus_by_driver", "loaded", "user_space", "fabric_manager", "persistenced", "nouveau")
    of_driver = {name: facts.pop(name) for name in driver_names if name in facts}
    stack = Stack(
        os=SYSTEMS[distribution],
        running_kernel=release,
        kernels=(kernel(release),),
        next_boot=NextBoot(release, "grub"),
        driver=Driver(gpus=tuple(gpus), required_flavour=common_flavour(gpus), **of_driver),
        secure_boot=SecureBoot(),
        dkms=(),
        packages=(),
        pins=(),
        unattended_upgrades=UnattendedUpgrades(),
        limits=Limits(),
        memory=Memory(),
        cpu=Cpu(),
        reboot=Reboot(),
        unreadable=(),
        problems=(),
    )
    return replace(stack, **facts)


def with_driver(
    distribution: str = "debian12",
    gpus: Sequence[str] = (L40S,) * 4,
    version: str = "570.172.08",
    packages: Sequence[Package] | None = None,
    in_use: bool = False,
    **facts: Any,
) -> Stack:
    """A host with the open driver from NVIDIA's repository, loaded and in force."""
    release = KERNELS[distribution]
    installed = packages
    if installed is None:
        names = ("nvidia-driver-cuda", "nvidia-kernel-open-dkms", "nvidia-persistenced")
        installed = [package(name, f"{version}-1") for name in names]
    given: dict[str, Any] = {
        "kernels": (kernel(release, nvidia_module=module(version)),),
        "packages": tuple(installed),
        "loaded": LoadedModule(True, version, "open", 5, in_use),
        "user_space": UserSpace(version, "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"),
        "gpus_by_driver": dict(Counter(["nvidia"] * len(gpus))),
        "persistenced": Persistenced(version, True, True),
        **facts,
    }
    return bare(distribution, gpus, **given)


def with_fabric_manager(stack: Stack, version: str | None, running: bool = True, enabled: bool = True) -> Stack:
    fabric = FabricManager(version, running, enabled, needed=True)
    return replace(stack, driver=replace(stack.driver, fabric_manager=fabric))


def host_of(stack: Stack, topology: dict[str, Any] | None = None) -> Host:
    return read_host(stack.as_dict(), topology or {})


def topology_of(gpus: Sequence[str], processes: dict[int, list[tuple[int, str]]] | None = None) -> dict[str, Any]:
    """As gpu_topology_info returns it where the driver answered."""
    return {
        "driver": {"source": "nvml"},
        "host": {"nvswitches": 0, "virtualization": "none"},
        "gpus": [
            {
                "index": index,
                "pci_device_id": gpu,
                "state": "ok",
                "fabric": None,
                "mig": None,
                "mig_devices": [],
                "processes": [{"pid": pid, "name": name} for pid, name in (processes or {}).get(index, [])],
            }
            for index, gpu in enumerate(gpus)
        ],
    }


def outcome(stack: Stack, topology: dict[str, Any] | None = None, **asked: Any) -> Outcome:
    if asked.get("version") is not None:
        asked.setdefault("branch", int(asked["version"].partition(".")[0]))
    return plan_driver(host_of(stack, topology), Request(**asked))


def planned(stack: Stack, topology: dict[str, Any] | None = None, **asked: Any) -> Plan:
    """The plan of a request that nothing forbids."""
    found = outcome(stack, topology, **asked)
    assert [str(refusal) for refusal in found.refusals] == []
    assert found.plan is not None
    return found.plan


def codes(found: Outcome) -> list[str]:
    return [refusal.code for refusal in found.refusals]


def problem_codes(found: Outcome) -> list[str]:
    return [problem.code for problem in found.problems]


def names_of(plan: Plan, transaction: str = "driver") -> list[str]:
    return [name for one in plan.transactions if one.name == transaction for name in one.names]


def specs_of(plan: Plan, transaction: str = "driver") -> list[str]:
    return [spec for one in plan.transactions if one.name == transaction for spec in one.packages]
