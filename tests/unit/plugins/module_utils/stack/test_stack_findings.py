# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""What is stated as a problem, and what is not."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack import driver_findings, host_findings
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import (
    Cpu,
    DkmsModule,
    Driver,
    FabricManager,
    Kernel,
    Limits,
    LoadedModule,
    Memlock,
    MemlockLimit,
    Memory,
    NextBoot,
    Nouveau,
    NvidiaModule,
    OperatingSystem,
    Overcommit,
    Package,
    Reboot,
    Releases,
    SecureBoot,
    SharedMemory,
    Swap,
    TransparentHugepage,
    UnattendedUpgrades,
    UserSpace,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.memory import parse_buddyinfo

A, B = "580.65.06", "595.58.03"
GPUS = ("10de:2330", "10de:2330")
MIB, GIB = 1 << 20, 1 << 30


def module(version: str = A, *, signed: bool | None = None, trusted: bool | None = None) -> NvidiaModule:
    path = "/lib/modules/2/updates/dkms/nvidia.ko"
    signer = "Acme" if signed else None
    return NvidiaModule(path, version, flavour="open", signed=signed, signer=signer, signer_trusted=trusted)


def codes(problems: Sequence[Problem]) -> list[str]:
    return [problem.code for problem in problems]


def kernels(following: NvidiaModule | None, running: NvidiaModule | None = None) -> list[Kernel]:
    return [
        Kernel("2", boots_next=True, vmlinuz="/boot/2", headers_installed=True, nvidia_module=following),
        Kernel("1", running=True, vmlinuz="/boot/1", headers_installed=True, nvidia_module=running),
    ]


# One release everywhere -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("releases", "expected"),
    [
        (Releases(loaded=A, running_kernel=A, next_kernel=A, user_space=A, packages=(A,)), []),
        (
            Releases(loaded=A, running_kernel=B, next_kernel=B, user_space=B, packages=(B,)),
            ["driver_user_space_mismatch", "driver_module_mismatch"],
        ),
        (Releases(loaded=A, running_kernel=A, next_kernel=B, user_space=A), ["next_module_mismatch"]),
        (Releases(loaded=A, user_space=A, packages=(A, B)), ["driver_packages_differ"]),
        (Releases(), []),
    ],
)
def test_releases_that_differ(releases: Releases, expected: list[str]) -> None:
    driver = Driver(gpus=GPUS, loaded=LoadedModule(True, releases.loaded), releases=releases)
    found = driver_findings.release_problems(driver, kernels(module(), module()), NextBoot("2"))
    assert codes(found) == expected


def test_the_sentence_names_both_releases() -> None:
    driver = Driver(loaded=LoadedModule(True, A), releases=Releases(loaded=A, user_space=B))
    (found,) = driver_findings.release_problems(driver, (), NextBoot())
    assert found.message == f"The loaded module is of {A}, the libraries are of {B}."
    assert (found.severity, found.remedy[-1]) == ("error", ".")


def test_the_next_kernel_without_a_module() -> None:
    (found,) = driver_findings.release_problems(Driver(gpus=GPUS), kernels(None, module()), NextBoot("2"))
    assert (found.code, found.message) == ("next_kernel_without_module", "Kernel 2 boots next and has none.")
    # Not where no kernel has one: then no driver is installed, which is another matter.
    assert codes(driver_findings.release_problems(Driver(gpus=GPUS), kernels(None), NextBoot("2"))) == [
        "driver_not_installed"
    ]
    assert driver_findings.release_problems(Driver(), kernels(None), NextBoot("2")) == []


def test_libraries_of_several_releases() -> None:
    several = Driver(user_space=UserSpace(A, "/lib/libnvidia-ml.so.1", A, "/lib/libcuda.so.1", (B,)))
    assert codes(driver_findings.release_problems(several, (), NextBoot())) == ["driver_libraries_several"]
    compat = Driver(user_space=UserSpace(A, "/x", B, "/compat/libcuda.so"))
    assert codes(driver_findings.release_problems(compat, (), NextBoot())) == ["cuda_library_differs"]


# Fabric manager, flavour, nouveau -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fabric", "expected"),
    [
        (FabricManager(A, True, True, True), []),
        (FabricManager(None, False, None, True), ["fabric_manager_missing"]),
        (FabricManager(None, True, None, True), []),  # installed by hand
        (FabricManager(B, True, True, True), ["fabric_manager_mismatch"]),
        (FabricManager(A, False, False, True), ["fabric_manager_stopped", "fabric_manager_disabled"]),
        (FabricManager(A, None, None, True), []),
        (FabricManager(None, False, None, False), []),
        (FabricManager(None, False, None, None), []),
        (FabricManager(B, False, False, False), []),
    ],
)
def test_the_fabric_manager(fabric: FabricManager, expected: list[str]) -> None:
    driver = Driver(loaded=LoadedModule(True, A), fabric_manager=fabric)
    assert codes(driver_findings.fabric_problems(driver, (), packages_known=True)) == expected


def test_without_a_driver_the_fabric_manager_is_not_missed() -> None:
    bare = Driver(fabric_manager=FabricManager(needed=True))
    assert driver_findings.fabric_problems(bare, kernels(None), packages_known=True) == []
    assert codes(driver_findings.fabric_problems(bare, kernels(module()), packages_known=True)) == [
        "fabric_manager_missing"
    ]


def test_without_knowing_the_packages_the_fabric_manager_is_not_missed() -> None:
    driver = Driver(loaded=LoadedModule(True, A), fabric_manager=FabricManager(needed=True))
    assert driver_findings.fabric_problems(driver, (), packages_known=False) == []


@pytest.mark.parametrize(
    ("required", "loaded", "expected"),
    [
        ("open", "proprietary", ["flavour_unsuitable"]),
        ("open", "open", []),
        ("proprietary", "proprietary", ["flavour_unsuitable"]),  # the next kernel's module is open
        ("either", "proprietary", []),
        ("none", "open", ["flavour_conflict"]),
        (None, None, []),
        ("open", None, []),
    ],
)
def test_flavours(required: str | None, loaded: str | None, expected: list[str]) -> None:
    driver = Driver(gpus=GPUS, required_flavour=required, loaded=LoadedModule(bool(loaded), A, loaded))
    assert codes(driver_findings.flavour_problems(driver, kernels(module()))) == expected


def test_a_flavour_is_asked_for_by_the_gpus_that_need_it() -> None:
    mixed = Driver(
        gpus=("10de:2330", "10de:2901"), required_flavour="open", loaded=LoadedModule(True, A, "proprietary")
    )
    (found,) = driver_findings.flavour_problems(mixed, ())
    assert found.message == "The loaded module is proprietary; 10de:2901 needs open."
    three = Driver(gpus=("10de:2330", "10de:2901", "10de:1db5"), required_flavour="none")
    (found,) = driver_findings.flavour_problems(three, ())
    assert found.message == "GPUs: 10de:1db5, 10de:2901."


def test_nouveau_beside_nvidias_driver_has_a_card_of_its_own() -> None:
    both = Driver(gpus=GPUS, gpus_by_driver={"nvidia": 1, "nouveau": 1}, nouveau=Nouveau(loaded=True))
    assert driver_findings.nouveau_problems(both, ()) == []
    alone = replace(both, gpus_by_driver={"nouveau": 2})
    assert codes(driver_findings.nouveau_problems(alone, ())) == ["nouveau_loaded"]


def test_nouveau() -> None:
    with_nouveau = [Kernel("2", boots_next=True, initramfs="/boot/i", nouveau_path="/n.ko")]

    def found(nouveau: Nouveau, gpus: tuple[str, ...] = GPUS) -> list[str]:
        return codes(driver_findings.nouveau_problems(Driver(gpus=gpus, nouveau=nouveau), with_nouveau))

    assert found(Nouveau(loaded=True)) == ["nouveau_loaded"]
    assert found(Nouveau()) == ["nouveau_not_blacklisted"]
    assert found(Nouveau(blacklisted=True, blacklisted_by=("/x",), initramfs_stale=True)) == ["nouveau_in_initramfs"]
    assert found(Nouveau(blacklisted=True, initramfs_stale=False)) == []
    assert found(Nouveau(loaded=True), gpus=()) == []
    assert driver_findings.nouveau_problems(Driver(gpus=GPUS), [Kernel("2", boots_next=True)]) == []


# Secure Boot, DKMS ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("secure", "found", "expected"),
    [
        (SecureBoot(enabled=True), module(signed=False), ["secure_boot_unsigned_module"]),
        (SecureBoot(module_sig_enforce=True), module(signed=False), ["secure_boot_unsigned_module"]),
        (SecureBoot(lockdown="integrity"), module(signed=False), ["secure_boot_unsigned_module"]),
        (SecureBoot(enabled=True), module(signed=True, trusted=False), ["secure_boot_signer_unknown"]),
        (SecureBoot(enabled=True), module(signed=True, trusted=None), []),
        (SecureBoot(enabled=True), module(signed=True, trusted=True), []),
        (SecureBoot(enabled=True), module(signed=None), []),
        (SecureBoot(enabled=True), None, []),
        (SecureBoot(enabled=False, lockdown="none"), module(signed=False), []),
        (SecureBoot(), module(signed=False), []),
        (SecureBoot(enabled=True, shim_validation=False), module(signed=False), []),
        (SecureBoot(enabled=True, shim_validation=False), module(signed=True, trusted=False), []),
        (SecureBoot(enabled=True, shim_validation=True), module(signed=False), ["secure_boot_unsigned_module"]),
        (
            SecureBoot(enabled=True, shim_validation=False, module_sig_enforce=True, lockdown="none"),
            module(signed=False),
            ["secure_boot_unsigned_module"],
        ),
        (
            SecureBoot(enabled=True, shim_validation=False, module_sig_enforce=False, lockdown="integrity"),
            module(signed=False),
            ["secure_boot_unsigned_module"],
        ),
        (SecureBoot(enabled=True, module_sig_enforce=False, lockdown="none"), module(signed=False), []),
        (
            SecureBoot(enabled=True, module_sig_enforce=False),
            module(signed=False),
            ["secure_boot_unsigned_module"],
        ),
        (SecureBoot(enabled=True, lockdown="none"), module(signed=False), ["secure_boot_unsigned_module"]),
    ],
)
def test_signatures(secure: SecureBoot, found: NvidiaModule | None, expected: list[str]) -> None:
    assert codes(driver_findings.signature_problems(secure, kernels(found))) == expected


def test_builds_of_dkms() -> None:
    added = [DkmsModule("nvidia", A)]
    for_next = [DkmsModule("nvidia", A, "2", "x86_64", "installed")]
    assert codes(driver_findings.dkms_problems(added, kernels(None, module()))) == ["dkms_build_missing"]
    assert driver_findings.dkms_problems(for_next, kernels(module(), module())) == []
    built = [DkmsModule("nvidia", A, "2", "x86_64", "built")]
    (found,) = driver_findings.dkms_problems(built, kernels(module(B), module()))
    assert found.message == f"nvidia/{A} is built and not installed for kernel 2."
    assert driver_findings.dkms_problems([DkmsModule("nvidia-fs", "2.2")], kernels(None)) == []
    assert driver_findings.dkms_problems([], kernels(None)) == []


def test_headers_matter_where_dkms_builds() -> None:
    bare = [replace(kernel, headers_installed=False) for kernel in kernels(module(), module())]
    installed = [DkmsModule("nvidia", A, each, "x86_64", "installed") for each in ("1", "2")]
    assert codes(driver_findings.dkms_problems(installed, bare)) == ["headers_missing", "headers_missing"]
    assert driver_findings.dkms_problems([], bare) == []
    # Neither runs nor boots next: nothing has to be built for it.
    assert driver_findings.dkms_problems(installed, [Kernel("0", vmlinuz="/boot/0")]) == []


# Packages and boot ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("installed", []),
        ("triggers-pending", []),
        ("half-configured", ["package_half_installed"]),
        ("half-installed", ["package_half_installed"]),
        ("unpacked", ["package_half_installed"]),
        ("reinstall-required", ["package_half_installed"]),
    ],
)
def test_states_of_packages(status: str, expected: list[str]) -> None:
    packages = [Package("nvidia-driver", "1", status=status)]
    assert codes(host_findings.package_problems(packages, True, UnattendedUpgrades())) == expected


def test_a_database_that_cannot_be_read() -> None:
    assert codes(host_findings.package_problems(None, True, UnattendedUpgrades())) == ["packages_unknown"]
    assert host_findings.package_problems(None, False, UnattendedUpgrades()) == []


@pytest.mark.parametrize(
    ("enabled", "covers", "expected"),
    [
        (True, True, ["unattended_upgrade_of_driver"]),
        (True, None, ["unattended_upgrade_unclear"]),
        (True, False, []),
        (False, False, []),
        (None, None, []),
    ],
)
def test_unattended_upgrades(enabled: bool | None, covers: bool | None, expected: list[str]) -> None:
    unattended = UnattendedUpgrades("unattended-upgrades", True, enabled, covers, "Because.")
    found = host_findings.package_problems((), True, unattended)
    assert codes(found) == expected
    assert all(problem.message == "Because." for problem in found)


def test_the_next_boot() -> None:
    def found(next_boot: NextBoot, reboot: Reboot | None = None, container: str | None = None) -> list[str]:
        system = OperatingSystem(container=container)
        return codes(host_findings.boot_problems(system, kernels(None), next_boot, reboot or Reboot()))

    assert found(NextBoot()) == ["next_boot_unknown"]
    assert found(NextBoot(), container="podman") == []
    assert found(NextBoot("2", "grub", "Ubuntu", once=True)) == ["next_boot_once"]
    assert found(NextBoot("3", "grub", "Ubuntu")) == ["next_kernel_missing"]
    assert found(NextBoot("2"), Reboot(True, ("One.", "Two."))) == ["reboot_required"]
    assert host_findings.boot_problems(OperatingSystem(), (), NextBoot(), Reboot()) == []


# Limits, memory, processors -------------------------------------------------------------------------------------------


def test_memlock() -> None:
    def found(limit: MemlockLimit) -> list[Problem]:
        return host_findings.limit_problems(Limits(memlock=Memlock(services=limit)))

    assert found(MemlockLimit(8 * MIB, False))[0].message == "By default a service may lock 8.0 MiB."
    assert found(MemlockLimit(None, True)) == []
    assert found(MemlockLimit()) == []


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        (Memory(), []),
        (Memory(swap=Swap(8 * GIB, 7 * GIB)), ["swap_in_use"]),
        (Memory(swap=Swap(8 * GIB, 8 * GIB - MIB)), []),
        (Memory(overcommit=Overcommit("never", 50, GIB, MIB)), ["overcommit_never"]),
        (Memory(overcommit=Overcommit("heuristic", 50, GIB, 2 * GIB)), []),
        (Memory(transparent_hugepage=TransparentHugepage("never")), ["thp_off"]),
        (Memory(transparent_hugepage=TransparentHugepage("madvise")), []),
        (Memory(shm=SharedMemory(size_bytes=64 * MIB)), ["shm_small"]),
        (Memory(shm=SharedMemory(size_bytes=GIB)), []),
        (Memory(zone_reclaim_mode=1), ["zone_reclaim_on"]),
        (Memory(zone_reclaim_mode=0), []),
        (Memory(numa_balancing=1), []),
        (
            Memory(numa_balancing=1, free_by_order=parse_buddyinfo("Node 0, zone A 1\nNode 1, zone A 1", 4096)),
            ["numa_balancing_on"],
        ),
    ],
)
def test_memory(memory: Memory, expected: list[str]) -> None:
    assert codes(host_findings.memory_problems(memory)) == expected


@pytest.mark.parametrize(
    ("orders", "fragmented"),
    [
        ("2000000 0 0 0 0 0 0 0 0 0 0", True),  # 8 GB in pages
        ("1500000 0 0 0 0 0 0 0 0 200 200", False),
        ("100000 0 0 0 0 0 0 0 0 0 0", False),  # so little is free that it says nothing
        ("2000000 0 0 0 0 0 0 0 0 0 180", True),
    ],
)
def test_fragmentation(orders: str, fragmented: bool) -> None:
    found = host_findings.fragmentation_problems(parse_buddyinfo(f"Node 3, zone Normal {orders}", 4096))
    assert codes(found) == ["memory_fragmented"] * fragmented
    assert all("NUMA node 3" in problem.message for problem in found)


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [
        (Cpu(), []),
        (Cpu("acpi-cpufreq", {"performance": 4}), []),
        (Cpu("acpi-cpufreq", {"performance": 4, "ondemand": 2}), ["governor_not_performance"]),
        (Cpu("amd-pstate-epp", {"powersave": 4}, {"performance": 4}), []),
        (Cpu("amd-pstate-epp", {"powersave": 4}, {"balance_performance": 4}), ["governor_not_performance"]),
        (Cpu("intel_pstate", {"powersave": 4}), ["governor_not_performance"]),
    ],
)
def test_governors(cpu: Cpu, expected: list[str]) -> None:
    assert codes(host_findings.cpu_problems(cpu)) == expected


def test_what_may_not_be_read_is_one_problem() -> None:
    assert host_findings.reading_problems(()) == []
    paths = [f"/boot/{number}" for number in range(10)]
    (found,) = host_findings.reading_problems(paths)
    assert found.message == f"May not be read: {', '.join(paths[:8])} and 2 more."
