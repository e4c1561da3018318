# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The software under a server, as far as it decides whether GPUs work: what host_stack_info returns.

Unknown is None. Paths are those of the machine itself, also where it is read below another root.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.plain import plain
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem


@dataclass(frozen=True)
class OperatingSystem:
    """C(family) is debian, rhel or other; C(container) names the manager of a container, None on a machine."""

    id: str | None = None
    version_id: str | None = None
    codename: str | None = None
    family: str = "other"
    architecture: str | None = None
    package_manager: str | None = None
    container: str | None = None


# Kernels and how the machine boots ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NvidiaModule:
    """nvidia.ko of one kernel. C(source) is dkms, packaged or unknown (by hand, or NVIDIA's .run installer)."""

    path: str
    version: str | None = None
    flavour: str | None = None
    license: str | None = None
    signed: bool | None = None
    signer: str | None = None
    signer_trusted: bool | None = None
    source: str = "unknown"


@dataclass(frozen=True)
class Kernel:
    """An installed kernel. C(nouveau_path) is nouveau's module file, which most kernels carry."""

    release: str
    running: bool = False
    boots_next: bool | None = None
    vmlinuz: str | None = None
    initramfs: str | None = None
    headers_installed: bool = False
    headers_path: str | None = None
    nvidia_module: NvidiaModule | None = None
    nouveau_path: str | None = None


@dataclass(frozen=True)
class NextBoot:
    """C(source) is grub, bls, systemd_boot, newest (no menu was found or may be read), or None where nothing boots."""

    kernel: str | None = None
    source: str | None = None
    entry: str | None = None
    arguments: str | None = None
    once: bool = False


# The driver -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LoadedModule:
    """The nvidia module in the running kernel; all None where it is not loaded, C(loaded) apart."""

    loaded: bool = False
    version: str | None = None
    flavour: str | None = None
    reference_count: int | None = None
    in_use: bool | None = None


@dataclass(frozen=True)
class UserSpace:
    """The driver's libraries. C(version) is NVML's, which belongs to the driver alone."""

    version: str | None = None
    nvml_path: str | None = None
    cuda_version: str | None = None
    cuda_path: str | None = None
    other_versions: tuple[str, ...] = ()


@dataclass(frozen=True)
class FabricManager:
    """C(needed) is None where NVSwitches may be there without showing on the PCI bus (NVLink 5)."""

    installed_version: str | None = None
    running: bool | None = None
    enabled: bool | None = None
    needed: bool | None = None


@dataclass(frozen=True)
class Persistenced:
    installed_version: str | None = None
    running: bool | None = None
    enabled: bool | None = None


@dataclass(frozen=True)
class Nouveau:
    """C(initramfs_stale): the initramfs of the next boot is older than what blacklists nouveau, and loads it still."""

    loaded: bool = False
    blacklisted: bool = False
    blacklisted_by: tuple[str, ...] = ()
    initramfs_stale: bool | None = None


@dataclass(frozen=True)
class Releases:
    """The driver's release by who tells it, for the comparison; C(consistent) is None with less than two."""

    loaded: str | None = None
    running_kernel: str | None = None
    next_kernel: str | None = None
    user_space: str | None = None
    fabric_manager: str | None = None
    packages: tuple[str, ...] = ()
    consistent: bool | None = None


@dataclass(frozen=True)
class Driver:
    """C(required_flavour) is open, proprietary, either, or none (GPUs that have no flavour in common).

    C(gpus_by_driver) counts GPUs by the kernel driver that holds them.
    """

    gpus: tuple[str, ...] = ()
    gpus_by_driver: dict[str, int] = field(default_factory=dict)
    required_flavour: str | None = None
    loaded: LoadedModule = LoadedModule()
    user_space: UserSpace = UserSpace()
    fabric_manager: FabricManager = FabricManager()
    persistenced: Persistenced = Persistenced()
    nouveau: Nouveau = Nouveau()
    releases: Releases = Releases()


# Security, packages ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SecureBoot:
    """C(shim_validation): whether shim has its validation on (mokutil); off, the kernel takes Secure Boot for off."""

    efi: bool = False
    enabled: bool | None = None
    shim_validation: bool | None = None
    setup_mode: bool | None = None
    lockdown: str | None = None
    module_sig_enforce: bool | None = None
    trusted_keys: tuple[str, ...] | None = None


@dataclass(frozen=True)
class DkmsModule:
    """C(state) is added, built or installed; kernel and architecture are None for what is only added."""

    module: str
    version: str
    kernel: str | None = None
    architecture: str | None = None
    state: str = "added"


@dataclass(frozen=True)
class Package:
    """A package that matters here. C(kind) is one of packages.KINDS, C(status) dpkg's word, installed for rpm.

    C(source) is the source package of a Debian one, which apt's preferences can name.
    """

    name: str
    version: str
    architecture: str | None = None
    source: str | None = None
    kind: str = "driver"
    status: str = "installed"
    held: bool = False
    driver_release: str | None = None


@dataclass(frozen=True)
class Pin:
    """An apt preference or a dnf exclude or version lock that names packages which matter here."""

    packages: str
    pin: str | None
    priority: int | None
    path: str


@dataclass(frozen=True)
class UnattendedUpgrades:
    """C(covers_driver): whether an upgrade of the driver can come in by itself; None where that cannot be decided."""

    tool: str | None = None
    installed: bool = False
    enabled: bool | None = None
    covers_driver: bool | None = None
    reason: str | None = None


# Limits, memory, processors -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MemlockLimit:
    """How much memory a process may lock. Unlimited is None with the flag true; unknown is None for both."""

    soft_bytes: int | None = None
    soft_unlimited: bool | None = None
    hard_bytes: int | None = None
    hard_unlimited: bool | None = None
    source: str | None = None


@dataclass(frozen=True)
class NofileLimit:
    """How many files a process may have open; otherwise as MemlockLimit."""

    soft: int | None = None
    soft_unlimited: bool | None = None
    hard: int | None = None
    hard_unlimited: bool | None = None
    source: str | None = None


@dataclass(frozen=True)
class Memlock:
    """C(services): what a service is given that sets nothing itself; C(process): the one that runs this module."""

    services: MemlockLimit = MemlockLimit()
    pid1: MemlockLimit = MemlockLimit()
    process: MemlockLimit = MemlockLimit()


@dataclass(frozen=True)
class Nofile:
    services: NofileLimit = NofileLimit()
    pid1: NofileLimit = NofileLimit()
    process: NofileLimit = NofileLimit()


@dataclass(frozen=True)
class Limits:
    memlock: Memlock = Memlock()
    nofile: Nofile = Nofile()


@dataclass(frozen=True)
class TransparentHugepage:
    enabled: str | None = None
    defrag: str | None = None
    shmem_enabled: str | None = None


@dataclass(frozen=True)
class SwapDevice:
    path: str
    kind: str
    size_bytes: int
    used_bytes: int


@dataclass(frozen=True)
class Swap:
    total_bytes: int | None = None
    free_bytes: int | None = None
    swappiness: int | None = None
    devices: tuple[SwapDevice, ...] = ()


@dataclass(frozen=True)
class Overcommit:
    """C(policy) is heuristic, always or never."""

    policy: str | None = None
    ratio: int | None = None
    limit_bytes: int | None = None
    committed_bytes: int | None = None


@dataclass(frozen=True)
class SharedMemory:
    path: str = "/dev/shm"
    size_bytes: int | None = None
    used_bytes: int | None = None


@dataclass(frozen=True)
class OrderedFree:
    """Free blocks of C(2^order) pages."""

    order: int
    bytes_each: int | None
    blocks: int
    bytes: int | None


@dataclass(frozen=True)
class FreeZone:
    node: int
    zone: str
    orders: tuple[OrderedFree, ...]
    largest_free_block_bytes: int | None


@dataclass(frozen=True)
class Memory:
    page_bytes: int | None = None
    total_bytes: int | None = None
    transparent_hugepage: TransparentHugepage = TransparentHugepage()
    swap: Swap = Swap()
    overcommit: Overcommit = Overcommit()
    shm: SharedMemory = SharedMemory()
    zone_reclaim_mode: int | None = None
    numa_balancing: int | None = None
    free_by_order: tuple[FreeZone, ...] = ()


@dataclass(frozen=True)
class Cpu:
    """C(governors) and C(energy_preferences) count processors by name."""

    driver: str | None = None
    governors: dict[str, int] | None = None
    energy_preferences: dict[str, int] | None = None
    tuned_profile: str | None = None


@dataclass(frozen=True)
class Reboot:
    """C(required) is None where neither a reason for it nor the kernel of the next boot is known."""

    required: bool | None = None
    reasons: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stack:
    os: OperatingSystem
    running_kernel: str | None
    kernels: tuple[Kernel, ...]
    next_boot: NextBoot
    driver: Driver
    secure_boot: SecureBoot
    dkms: tuple[DkmsModule, ...]
    packages: tuple[Package, ...] | None
    pins: tuple[Pin, ...]
    unattended_upgrades: UnattendedUpgrades
    limits: Limits
    memory: Memory
    cpu: Cpu
    reboot: Reboot
    unreadable: tuple[str, ...]
    problems: tuple[Problem, ...]

    def as_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = plain(self)
        return found
