# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host as a driver plan sees it: what host_stack_info and gpu_topology_info returned, as far as it matters here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import (
    Kernel,
    LoadedModule,
    NvidiaModule,
    OperatingSystem,
    Package,
    SecureBoot,
    UnattendedUpgrades,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.packages import DRIVER_KINDS
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.versions import version_key


@dataclass(frozen=True)
class GpuProcess:
    gpu: int
    pid: int | None
    name: str | None


@dataclass(frozen=True)
class Daemon:
    installed_version: str | None = None
    running: bool | None = None
    enabled: bool | None = None


@dataclass(frozen=True)
class Host:
    """C(packages) is None where they could not be listed, C(processes) where the driver was not asked.

    C(gpus_by_driver) counts GPUs by the kernel driver that holds them. C(required_flavour) is as in host_stack_info.
    C(vgpu): whether GPUs are slices of boards, which a hypervisor gives. C(has_fabric): whether the driver says that
    the GPUs belong to an NVLink fabric; None where it was not asked.
    """

    os: OperatingSystem
    kernels: tuple[Kernel, ...]
    running_kernel: str | None
    next_kernel: str | None
    gpus: tuple[str, ...]
    gpus_by_driver: Mapping[str, int]
    required_flavour: str | None
    loaded: LoadedModule
    user_space_version: str | None
    fabric_manager: Daemon
    fabric_needed: bool | None
    persistenced: Daemon
    nouveau_loaded: bool
    nouveau_blacklisted_by: tuple[str, ...]
    secure_boot: SecureBoot
    packages: tuple[Package, ...] | None
    unattended: UnattendedUpgrades
    dkms: tuple[tuple[str, str, str | None, str], ...]
    processes: tuple[GpuProcess, ...] | None
    has_fabric: bool | None
    virtualization: str | None
    vgpu: bool
    mig_enabled: tuple[bool | None, ...]
    mig_profiles: tuple[tuple[str, ...], ...]

    @property
    def in_container(self) -> bool:
        return self.os.container is not None

    def driver_packages(self) -> tuple[Package, ...]:
        return tuple(package for package in self.packages or () if package.kind in DRIVER_KINDS)

    def package(self, name: str) -> Package | None:
        return next((package for package in self.packages or () if package.name == name), None)

    def concerned_kernels(self) -> tuple[Kernel, ...]:
        """Those that need modules: the one that runs, and the one that boots next. In a container the kernel that runs
        is the host's, and its modules nobody's business there, unless it has kernels of its own."""
        ours = [kernel for kernel in self.kernels if kernel.running or kernel.boots_next]
        if self.in_container:
            ours = [kernel for kernel in ours if kernel.vmlinuz is not None]
        return tuple(ours)

    def installed_release(self) -> str | None:
        """The driver's release by its packages (the newest, where they differ), or else by its libraries and module."""
        told = {package.driver_release for package in self.driver_packages() if package.status == "installed"}
        known = sorted((release for release in told if release), key=version_key)
        if known:
            return known[-1]
        if self.user_space_version is not None and not self.in_container:
            return self.user_space_version
        return None if self.in_container else self.loaded.version

    def installed_flavour(self) -> str | None:
        """Of the module that boots next, or runs, or is loaded."""
        modules = [kernel.nvidia_module for kernel in self.concerned_kernels()]
        known = [module.flavour for module in modules if module is not None and module.flavour is not None]
        return known[0] if known else self.loaded.flavour


def _mapping(value: Any, name: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise Refusal(
            "driver_stack_malformed",
            f"{name} is {value!r}.",
            "Expected what gpufleet.sglang.host_stack_info returned, as a whole.",
            {"name": name},
        )
    return value


def _kernel(given: Mapping[str, Any]) -> Kernel:
    module = given.get("nvidia_module")
    known = {name: given.get(name) for name in ("vmlinuz", "initramfs", "headers_path", "nouveau_path", "boots_next")}
    return Kernel(
        release=str(given.get("release")),
        running=bool(given.get("running")),
        headers_installed=bool(given.get("headers_installed")),
        nvidia_module=None if module is None else NvidiaModule(**_known(NvidiaModule, module)),
        **known,
    )


def _known(kind: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a dataclass has of the given keys; lists as tuples."""
    names = kind.__dataclass_fields__
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in given.items()
        if name in names and not (value is None and names[name].default is False)
    }


def _daemon(given: Mapping[str, Any]) -> Daemon:
    return Daemon(**_known(Daemon, given))


def _processes(topology: Mapping[str, Any]) -> tuple[GpuProcess, ...] | None:
    if (topology.get("driver") or {}).get("source") != "nvml":
        return None
    found = []
    for position, gpu in enumerate(topology.get("gpus") or ()):
        for process in gpu.get("processes") or ():
            found.append(GpuProcess(gpu.get("index", position), process.get("pid"), process.get("name")))
    return tuple(found)


def _has_fabric(topology: Mapping[str, Any]) -> bool | None:
    gpus: Sequence[Mapping[str, Any]] = topology.get("gpus") or ()
    if (topology.get("driver") or {}).get("source") != "nvml" or not gpus:
        return None
    return any(gpu.get("fabric") is not None for gpu in gpus)


def read_host(stack: Mapping[str, Any], topology: Mapping[str, Any]) -> Host:
    """Refused where C(stack) is not what host_stack_info returns; what is null there is not known here."""
    for name in ("os", "kernels", "driver"):
        if name not in stack:
            raise Refusal(
                "driver_stack_malformed",
                f"stack has no {name}.",
                "Expected what gpufleet.sglang.host_stack_info returned, as a whole.",
                {"name": name},
            )
    driver = _mapping(stack["driver"], "stack.driver")
    nouveau = _mapping(driver.get("nouveau"), "stack.driver.nouveau")
    fabric = _mapping(driver.get("fabric_manager"), "stack.driver.fabric_manager")
    packages = stack.get("packages")
    host = _mapping(topology.get("host"), "topology.host")
    switches = host.get("nvswitches")
    return Host(
        os=OperatingSystem(**_known(OperatingSystem, _mapping(stack["os"], "stack.os"))),
        kernels=tuple(_kernel(kernel) for kernel in stack["kernels"] or ()),
        running_kernel=stack.get("running_kernel"),
        next_kernel=_mapping(stack.get("next_boot"), "stack.next_boot").get("kernel"),
        gpus=tuple(driver.get("gpus") or ()),
        gpus_by_driver=dict(driver.get("gpus_by_driver") or {}),
        required_flavour=driver.get("required_flavour"),
        loaded=LoadedModule(**_known(LoadedModule, _mapping(driver.get("loaded"), "stack.driver.loaded"))),
        user_space_version=_mapping(driver.get("user_space"), "stack.driver.user_space").get("version"),
        fabric_manager=_daemon(fabric),
        fabric_needed=True if switches else fabric.get("needed"),
        persistenced=_daemon(_mapping(driver.get("persistenced"), "stack.driver.persistenced")),
        nouveau_loaded=bool(nouveau.get("loaded")),
        nouveau_blacklisted_by=tuple(nouveau.get("blacklisted_by") or ()),
        secure_boot=SecureBoot(**_known(SecureBoot, _mapping(stack.get("secure_boot"), "stack.secure_boot"))),
        packages=None if packages is None else tuple(Package(**_known(Package, one)) for one in packages),
        unattended=UnattendedUpgrades(
            **_known(UnattendedUpgrades, _mapping(stack.get("unattended_upgrades"), "stack.unattended_upgrades"))
        ),
        dkms=tuple(
            (entry.get("module", ""), entry.get("version", ""), entry.get("kernel"), entry.get("state", "added"))
            for entry in stack.get("dkms") or ()
        ),
        processes=_processes(topology),
        has_fabric=_has_fabric(topology),
        virtualization=host.get("virtualization"),
        vgpu=any(gpu.get("virtualization") == "vgpu" for gpu in topology.get("gpus") or ()),
        mig_enabled=tuple((gpu.get("mig") or {}).get("enabled") for gpu in topology.get("gpus") or ()),
        # A part is called by its profile at the end: NVIDIA H100 80GB HBM3 MIG 4g.40gb.
        mig_profiles=tuple(
            tuple(str(part.get("name")).rpartition(" ")[2] for part in gpu.get("mig_devices") or ())
            for gpu in topology.get("gpus") or ()
        ),
    )
