# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The driver: what is loaded, which libraries, daemons, nouveau, flavours, and who tells which release."""

import os
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.driver import (
    compare,
    fabric_needed,
    parse_version_file,
    read_boards,
    read_driver,
    read_loaded,
    read_user_space,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.driver_findings import (
    flavour_problems,
    nouveau_problems,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import (
    Driver,
    FabricManager,
    Kernel,
    LoadedModule,
    NextBoot,
    NvidiaModule,
    OperatingSystem,
    Package,
    Reboot,
    Releases,
    UserSpace,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.flavours import (
    Board,
    common_flavour,
    required_flavour,
    served,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.modprobe import (
    blacklisted_on_command_line,
    blacklists,
    read_nouveau,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.reboot import read_request, reboot_of
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.stack.trees import (
    RELEASE,
    gpus,
    libraries,
    link,
    loaded,
    nvswitches,
    write,
)

LIB = "usr/lib/x86_64-linux-gnu"


@pytest.mark.parametrize(
    ("line", "version", "flavour"),
    [
        (
            "NVIDIA UNIX Open Kernel Module for x86_64  570.195.03  Release Build  (dvs-builder@U22)",
            "570.195.03",
            "open",
        ),
        ("NVIDIA UNIX x86_64 Kernel Module  535.216.03  Thu Apr  3 01:14:19 UTC 2025", "535.216.03", "proprietary"),
        ("NVIDIA UNIX Open Kernel Module for aarch64  580.95.05  Release Build", "580.95.05", "open"),
        ("NVIDIA UNIX Kernel Module for aarch64  540.3.0  Release Build  (buildbrain@x)", "540.3.0", "proprietary"),
        ("NVIDIA UNIX Open Kernel Module for x86_64 malformed", None, None),
        ("", None, None),
    ],
)
def test_the_drivers_own_word(line: str, version: str | None, flavour: str | None) -> None:
    text = f"NVRM version: {line}\nGCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04.1)\n"
    assert parse_version_file(text) == (version, flavour)


def test_the_loaded_module(tmp_path: Path) -> None:
    write(tmp_path, loaded(references=1))
    assert read_loaded(Tree(tmp_path)) == LoadedModule(True, RELEASE, "open", 1, False)
    write(tmp_path, loaded(references=3, is_open=False))
    assert read_loaded(Tree(tmp_path)) == LoadedModule(True, RELEASE, "proprietary", 3, True)


def test_no_module_and_one_that_tells_nothing(tmp_path: Path) -> None:
    assert read_loaded(Tree(tmp_path)) == LoadedModule()
    (tmp_path / "sys/module/nvidia").mkdir(parents=True)
    assert read_loaded(Tree(tmp_path)) == LoadedModule(loaded=True)


# Libraries ------------------------------------------------------------------------------------------------------------


def test_the_libraries_of_a_distribution(tmp_path: Path) -> None:
    write(tmp_path, libraries())
    assert read_user_space(Tree(tmp_path), "x86_64") == UserSpace(
        RELEASE, f"/{LIB}/libnvidia-ml.so.{RELEASE}", RELEASE, f"/{LIB}/libcuda.so.{RELEASE}", ()
    )


@pytest.mark.parametrize(
    ("architecture", "folder"),
    [
        ("aarch64", "usr/lib/aarch64-linux-gnu"),
        ("x86_64", "usr/lib64"),
        ("x86_64", "usr/lib/x86_64-linux-gnu/nvidia/current"),
        ("x86_64", "usr/local/nvidia/lib64"),
    ],
)
def test_other_folders(tmp_path: Path, architecture: str, folder: str) -> None:
    write(tmp_path, libraries(folder=folder))
    assert read_user_space(Tree(tmp_path), architecture).version == RELEASE


def test_of_two_releases_in_one_folder_the_one_that_the_link_leads_to(tmp_path: Path) -> None:
    write(tmp_path, {**libraries("570.86.10"), **libraries("595.58.03")})
    link(tmp_path, f"{LIB}/libnvidia-ml.so.1", "libnvidia-ml.so.570.86.10")
    link(tmp_path, f"{LIB}/libcuda.so.1", "libcuda.so.595.58.03")
    found = read_user_space(Tree(tmp_path), "x86_64")
    assert (found.version, found.cuda_version, found.other_versions) == ("570.86.10", "595.58.03", ())
    (tmp_path / f"{LIB}/libcuda.so.1").unlink()
    link(tmp_path, f"{LIB}/libcuda.so.1", "libcuda.so.570.86.10")
    assert read_user_space(Tree(tmp_path), "x86_64").other_versions == ("595.58.03",)


def test_a_compatibility_package_in_front_of_the_driver(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            **libraries("570.86.10"),
            "usr/local/cuda-13.0/compat/libcuda.so.580.65.06": "",
            "etc/ld.so.conf": "include /etc/ld.so.conf.d/*.conf\n",
            "etc/ld.so.conf.d/00-compat.conf": "# first\n/usr/local/cuda-13.0/compat\n",
        },
    )
    found = read_user_space(Tree(tmp_path), "x86_64")
    assert (found.version, found.cuda_version) == ("570.86.10", "580.65.06")
    assert found.cuda_path == "/usr/local/cuda-13.0/compat/libcuda.so.580.65.06"


def test_names_that_are_no_library_of_the_driver(tmp_path: Path) -> None:
    names = ("libcuda.so.1", "libcuda.so", "libcudart.so.13.0.1", "libnvidia-ml.so.595.58.03.bak", "libcuda.so.5.1.2")
    write(tmp_path, {f"{LIB}/{name}": "" for name in names})
    assert read_user_space(Tree(tmp_path), "x86_64") == UserSpace()


# The PCI bus ----------------------------------------------------------------------------------------------------------


def test_gpus_and_switches_on_the_bus(tmp_path: Path) -> None:
    write(tmp_path, {**gpus(3, "0x2330"), **nvswitches(4)})
    foreign = "sys/bus/pci/devices/0000:f0:00.0"
    write(tmp_path, {f"{foreign}/vendor": "0x1002\n", f"{foreign}/class": "0x030000\n"})
    virtual = "sys/bus/pci/devices/0000:f1:00.4"
    write(
        tmp_path, {f"{virtual}/vendor": "0x10de\n", f"{virtual}/class": "0x030200\n", f"{virtual}/device": "0x2330\n"}
    )
    link(tmp_path, f"{virtual}/physfn", "../0000:f1:00.0")
    assert read_boards(Tree(tmp_path)) == ((Board("10de:2330"),) * 3, 4)


@pytest.mark.parametrize(
    ("devices", "switches", "needed"),
    [
        (["10de:2330"] * 8, 4, True),
        (["10de:2330"] * 8, 0, False),
        (["10de:2901"] * 8, 0, None),  # behind NVLink 5 the switches do not show
        (["10de:2901"], 0, False),
        ([], 0, False),
    ],
)
def test_whether_a_fabric_manager_is_needed(devices: list[str], switches: int, needed: bool | None) -> None:
    assert fabric_needed(devices, switches) is needed


@pytest.mark.parametrize(
    ("device", "flavour"),
    [
        ("10de:1db5", "proprietary"),  # V100
        ("10de:1b38", "proprietary"),  # P40
        ("10de:1e02", "either"),  # the first Turing
        ("10de:1eb8", "either"),  # T4
        ("10de:2330", "either"),  # H100
        ("10de:2342", "open"),  # GH200
        ("10de:28f8", "either"),  # the last Ada
        ("10de:2901", "open"),  # B200
        ("10de:2bb5", "open"),  # RTX PRO 6000 Blackwell
        ("10de:", None),
        ("nonsense", None),
    ],
)
def test_the_flavour_that_a_gpu_needs(device: str, flavour: str | None) -> None:
    assert required_flavour(device) == flavour


@pytest.mark.parametrize(
    ("devices", "flavour"),
    [
        ([], None),
        (["10de:2330", "10de:1eb8"], "either"),
        (["10de:2330", "10de:2bb5"], "open"),
        (["10de:1db5", "10de:2330"], "proprietary"),
        (["10de:1db5", "10de:2bb5"], "none"),
    ],
)
def test_the_flavour_that_all_gpus_have_in_common(devices: list[str], flavour: str | None) -> None:
    assert common_flavour(devices) == flavour


GT_710, P400, H100, B200 = "10de:128b", "10de:1cb3", "10de:2330", "10de:2901"


@pytest.mark.parametrize(
    ("boards", "flavour"),
    [
        ([Board(GT_710, True, "nouveau"), Board(B200, False, "nvidia"), Board(B200, False, "vfio-pci")], "open"),
        ([Board(GT_710, True), Board(B200, False, "nvidia")], "open"),
        ([Board(GT_710, True), Board(H100, False, "nvidia")], "either"),
        ([Board(GT_710, True, "nouveau"), Board(B200)], "open"),  # before the driver is installed
        ([Board(GT_710, True, "nouveau")], "proprietary"),
        ([Board(P400, True), Board(B200, False, "nvidia")], "none"),  # a driver for it is still maintained
        ([Board(P400, True, "vfio-pci"), Board(B200, False, "nvidia")], "open"),
        ([Board("10de:102d"), Board(B200, False, "nvidia")], "none"),  # K80, which drives no screen
        ([Board(B200, False, "nouveau"), Board(B200, False, "nouveau")], "open"),  # nouveau is in the way
        ([Board(B200, False, "vfio-pci")], None),
        ([Board("10de:", True), Board(H100)], "either"),
        ([], None),
    ],
)
def test_boards_that_the_driver_is_not_to_serve_need_no_flavour(boards: list[Board], flavour: str | None) -> None:
    assert common_flavour(board.pci_id for board in served(boards)) == flavour


def test_a_host_with_a_display_card_and_a_gpu_that_is_passed_through(tmp_path: Path) -> None:
    write(tmp_path, {**gpus(3, "0x2901"), "sys/module/nouveau/refcnt": "1\n", **loaded()})
    card = "sys/bus/pci/devices/0000:00:02.0"
    write(tmp_path, {f"{card}/vendor": "0x10de\n", f"{card}/device": "0x128b\n", f"{card}/class": "0x030000\n"})
    link(tmp_path, f"{card}/driver", "../../../bus/pci/drivers/nouveau")
    for number, holder in enumerate(("nvidia", "nvidia", "vfio-pci"), start=1):
        link(tmp_path, f"sys/bus/pci/devices/0000:{number:02x}:00.0/driver", f"../../../bus/pci/drivers/{holder}")
    found = read_driver(Tree(tmp_path), "x86_64", (), NextBoot(), ())
    assert found.gpus == ("10de:128b", *["10de:2901"] * 3)
    assert found.gpus_by_driver == {"nouveau": 1, "nvidia": 2, "vfio-pci": 1}
    assert found.required_flavour == "open"
    assert flavour_problems(found, ()) == []
    assert nouveau_problems(found, ()) == []


# nouveau --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("blacklist nouveau", True),
        ("  blacklist   nouveau # why", True),
        ("install nouveau /bin/false", True),
        ("alias nouveau off", True),
        ("# blacklist nouveau", False),
        ("blacklist nouveau_x", False),
        ("install nouveau /sbin/modprobe nouveau", False),
        ("options nouveau modeset=0", False),
        ("alias pci:x nouveau", False),
    ],
)
def test_files_that_blacklist(text: str, answer: bool) -> None:
    assert blacklists(f"options a b=1\n{text}\n", "nouveau") is answer


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ("ro modprobe.blacklist=nouveau", True),
        ("rd.driver.blacklist=nouveau,nova_core", True),
        ("module_blacklist=nouveau", True),
        ("modprobe.blacklist=nova_core", False),
        ("nouveau", False),
        (None, False),
    ],
)
def test_a_command_line_that_blacklists(arguments: str | None, answer: bool) -> None:
    assert blacklisted_on_command_line(arguments, "nouveau") is answer


def test_an_initramfs_that_is_older_than_the_blacklist(tmp_path: Path) -> None:
    kernel = Kernel(
        "6.8", boots_next=True, initramfs="/boot/initrd.img-6.8", nouveau_path="/lib/modules/6.8/nouveau.ko"
    )
    write(tmp_path, {"boot/initrd.img-6.8": "", "etc/modprobe.d/nvidia.conf": "blacklist nouveau\n"})
    tree = Tree(tmp_path)
    os.utime(tmp_path / "boot/initrd.img-6.8", (1000, 1000))
    os.utime(tmp_path / "etc/modprobe.d/nvidia.conf", (2000, 2000))
    found = read_nouveau(tree, kernel, NextBoot())
    assert (found.blacklisted, found.blacklisted_by) == (True, ("/etc/modprobe.d/nvidia.conf",))
    assert found.initramfs_stale is True
    os.utime(tmp_path / "boot/initrd.img-6.8", (3000, 3000))
    assert read_nouveau(tree, kernel, NextBoot()).initramfs_stale is False
    # The command line holds from the first moment on, and a kernel without nouveau cannot load it.
    assert read_nouveau(tree, kernel, NextBoot(arguments="modprobe.blacklist=nouveau")).initramfs_stale is None
    assert read_nouveau(tree, Kernel("6.8", boots_next=True), NextBoot()).initramfs_stale is None


def test_nouveau_that_nothing_keeps_away(tmp_path: Path) -> None:
    write(tmp_path, {"sys/module/nouveau/refcnt": "1", "proc/cmdline": "ro quiet\n"})
    found = read_nouveau(Tree(tmp_path), None, NextBoot())
    assert (found.loaded, found.blacklisted, found.blacklisted_by) == (True, False, ())
    write(tmp_path, {"proc/cmdline": "ro modprobe.blacklist=nouveau\n"})
    assert read_nouveau(Tree(tmp_path), None, NextBoot()).blacklisted_by == ("command line",)


# Daemons and the comparison -------------------------------------------------------------------------------------------


def test_daemons(tmp_path: Path) -> None:
    units = "usr/lib/systemd/system"
    write(
        tmp_path,
        {
            **nvswitches(),
            "proc/1/comm": "systemd\n",
            "proc/800/comm": "nv-fabricmanage\n",
            f"{units}/nvidia-fabricmanager.service": "[Unit]",
            f"{units}/nvidia-persistenced.service": "[Unit]",
        },
    )
    link(tmp_path, "etc/systemd/system/multi-user.target.wants/nvidia-fabricmanager.service", f"/{units}/x")
    packages = [
        Package("nvidia-fabricmanager-580", "580.65.06-1", kind="fabric"),
        Package("nvidia-persistenced", "580.65.06-1"),
    ]
    found = read_driver(Tree(tmp_path), "x86_64", (), NextBoot(), packages)
    assert found.fabric_manager == FabricManager("580.65.06", True, True, True)
    assert (found.persistenced.running, found.persistenced.enabled) == (False, False)
    assert found.persistenced.installed_version == "580.65.06"


def test_a_daemon_whose_process_is_hidden_is_seen_by_its_control_group(tmp_path: Path) -> None:
    unit = "sys/fs/cgroup/system.slice/nvidia-fabricmanager.service"
    write(tmp_path, {"proc/900/comm": "python3\n", f"{unit}/cgroup.procs": "800\n"})
    found = read_driver(Tree(tmp_path), "x86_64", (), NextBoot(), ())
    assert (found.fabric_manager.running, found.persistenced.running) == (True, False)
    write(tmp_path, {f"{unit}/cgroup.procs": ""})
    assert read_driver(Tree(tmp_path), "x86_64", (), NextBoot(), ()).fabric_manager.running is False


def test_a_masked_service_is_not_enabled(tmp_path: Path) -> None:
    link(tmp_path, "etc/systemd/system/nvidia-fabricmanager.service", "/dev/null")
    link(tmp_path, "etc/systemd/system/multi-user.target.wants/nvidia-fabricmanager.service", "/x")
    found = read_driver(Tree(tmp_path), "x86_64", (), NextBoot(), ())
    assert (found.fabric_manager.enabled, found.persistenced.enabled, found.fabric_manager.running) == (
        False,
        None,
        None,
    )


def test_the_releases_of_all_parts() -> None:
    kernels = [
        Kernel("2", boots_next=True, nvidia_module=NvidiaModule("/b", "595.58.03")),
        Kernel("1", running=True, nvidia_module=NvidiaModule("/a", "580.65.06")),
    ]
    packages = [
        Package("a", "1", kind="driver", driver_release="595.58.03"),
        Package("b", "1", kind="kernel_module", driver_release="580.65.06"),
        Package("c", "1", kind="fabric", driver_release="570.86.10"),
    ]
    found = compare(
        LoadedModule(True, "580.65.06"), UserSpace("595.58.03"), FabricManager("595.58.03"), kernels, packages
    )
    assert found == Releases(
        loaded="580.65.06",
        running_kernel="580.65.06",
        next_kernel="595.58.03",
        user_space="595.58.03",
        fabric_manager="595.58.03",
        packages=("580.65.06", "595.58.03"),
        consistent=False,
    )


def test_one_release_is_no_comparison() -> None:
    alone = compare(LoadedModule(True, RELEASE), UserSpace(), FabricManager(), (), ())
    two = compare(LoadedModule(True, RELEASE), UserSpace(RELEASE), FabricManager(), (), ())
    assert (alone.consistent, two.consistent) == (None, True)


# Reboot ---------------------------------------------------------------------------------------------------------------


def reboot(driver: Driver | None = None, *, running: str = "1", boots: str | None = "1", **options: object) -> Reboot:
    kernels = [Kernel("2", vmlinuz="/boot/vmlinuz-2"), Kernel("1", vmlinuz="/boot/vmlinuz-1")]
    os_ = OperatingSystem(container="podman" if options.get("container") else None)
    asked = bool(options.get("asked"))
    return reboot_of(
        os_, running, kernels, NextBoot(boots), driver or Driver(), asked, ("linux-base",) if asked else ()
    )


def test_nothing_to_reboot_for() -> None:
    assert reboot() == Reboot(False)
    assert reboot(boots=None) == Reboot(None)


def test_reasons_for_a_reboot() -> None:
    assert reboot(boots="2").reasons == ("Kernel 1 runs and 2 boots next.",)
    gone = reboot(running="0", boots="2")
    assert gone.reasons[0] == "The running kernel 0 is no longer installed, so no module can be loaded into it."
    assert reboot(asked=True) == Reboot(True, ("/run/reboot-required asks for it for linux-base.",), ("linux-base",))
    old = Driver(releases=Releases(loaded="580.65.06", running_kernel="595.58.03", user_space="595.58.03"))
    assert len(reboot(old).reasons) == 2
    assert reboot(Driver(releases=Releases(loaded="1", running_kernel="1"))).required is False


def test_a_container_has_its_hosts_kernel() -> None:
    assert reboot(running="0", boots="2", container=True) == Reboot(False)


def test_debians_request(tmp_path: Path) -> None:
    assert read_request(Tree(tmp_path)) == (False, ())
    write(tmp_path, {"run/reboot-required": "*** System restart required ***\n"})
    write(tmp_path, {"run/reboot-required.pkgs": "linux-image-6.8\nlibc6\nlinux-image-6.8\n"})
    assert read_request(Tree(tmp_path)) == (True, ("linux-image-6.8", "libc6"))
