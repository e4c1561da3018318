# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Whole machines: Debian, Ubuntu with a submenu and two kernels, RHEL with BLS, and roots full of rubbish."""

import random
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack import reading
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import Package, Stack
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.reading import read_stack
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.stack.trees import (
    RELEASE,
    gpus,
    kernel,
    libraries,
    loaded,
    nvswitches,
    package,
    rhel,
    running,
    ubuntu,
    write,
)


def codes(stack: Stack) -> list[str]:
    return [problem.code for problem in stack.problems]


def severities(stack: Stack) -> dict[str, str]:
    return {problem.code: problem.severity for problem in stack.problems}


# Ubuntu ---------------------------------------------------------------------------------------------------------------


def test_ubuntu_that_waits_for_a_reboot(tmp_path: Path) -> None:
    stack = read_stack(ubuntu(tmp_path))
    assert (stack.os.id, stack.os.version_id, stack.os.family) == ("ubuntu", "24.04", "debian")
    assert (stack.os.architecture, stack.os.package_manager) == ("x86_64", "apt")
    assert [(found.release, found.running, found.boots_next) for found in stack.kernels] == [
        ("6.17.0-22-generic", False, True),
        ("6.17.0-20-generic", True, False),
    ]
    assert (stack.next_boot.kernel, stack.next_boot.source) == ("6.17.0-22-generic", "grub")
    assert stack.driver.required_flavour == "open"
    assert stack.driver.releases.packages == (RELEASE,)
    assert stack.driver.releases.consistent is True
    assert [(entry.kernel, entry.state) for entry in stack.dkms] == [
        ("6.17.0-20-generic", "installed"),
        ("6.17.0-22-generic", "installed"),
    ]
    assert stack.packages is not None
    assert [(entry.name, entry.held) for entry in stack.packages] == [
        ("libnvidia-compute", True),
        ("linux-image-6.17.0-22-generic", False),
        ("nvidia-dkms-open", True),
    ]
    assert stack.reboot.required is True
    assert stack.reboot.reasons == ("Kernel 6.17.0-20-generic runs and 6.17.0-22-generic boots next.",)
    assert codes(stack) == ["reboot_required"]


def test_ubuntu_whose_next_kernel_has_neither_headers_nor_module(tmp_path: Path) -> None:
    """A new kernel came in and DKMS could not build: the classic way to lose all GPUs at a reboot."""
    root = ubuntu(tmp_path)
    new = "6.17.0-22-generic"
    (root / f"lib/modules/{new}/modules.dep").write_text("kernel/fs/ext4.ko:\n", encoding="utf-8")
    (root / f"usr/src/linux-headers-{new}/Makefile").unlink()
    (root / f"var/lib/dkms/nvidia/595.58.03/{new}/x86_64/module/nvidia.ko").unlink()
    assert severities(read_stack(root)) == {
        "next_kernel_without_module": "error",
        "dkms_build_missing": "warning",
        "headers_missing": "warning",
        "reboot_required": "warning",
    }


def test_ubuntu_after_an_upgrade_of_the_driver_under_it(tmp_path: Path) -> None:
    root = ubuntu(tmp_path)
    write(root, {**loaded("580.65.06"), "boot/grub/grubenv": "next_entry=gnulinux-advanced-aaaa>2\n"})
    stack = read_stack(root)
    assert stack.next_boot.kernel == "6.17.0-20-generic"
    assert codes(stack) == [
        "driver_user_space_mismatch",
        "driver_module_mismatch",
        "next_boot_once",
        "reboot_required",
    ]


def test_ubuntu_with_secure_boot_and_a_key_that_is_not_enrolled(tmp_path: Path) -> None:
    root = ubuntu(tmp_path)
    guid = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
    write(root, {f"sys/firmware/efi/efivars/SecureBoot-{guid}": b"\x06\0\0\0\x01"})
    assert "secure_boot_signer_unknown" not in codes(read_stack(root))
    write(root, {"proc/keys": "1 I-- 1 perm 1f030000 0 0 asymmetri Canonical: ab12: X509.rsa 1 []\n"})
    assert codes(read_stack(root)).count("secure_boot_signer_unknown") == 2


# Debian ---------------------------------------------------------------------------------------------------------------


def debian(root: Path) -> Path:
    """Debian 13 with NVSwitches, the driver freshly unpacked by an interrupted apt, no grub.cfg to read."""
    release = "6.12.48+deb13-amd64"
    status = [
        package("nvidia-driver", "580.65.06-1", "install ok unpacked"),
        package("nvidia-open-kernel-dkms", "580.65.06-1", "install ok half-configured"),
        package("nvidia-fabricmanager", "570.86.10-1"),
        package("libcuda1", "580.65.06-1"),
    ]
    return write(
        root,
        {
            "etc/os-release": "ID=debian\nVERSION_ID=13\nVERSION_CODENAME=trixie\n",
            "usr/bin/apt-get": "program",
            "var/lib/dpkg/status": "\n".join(status),
            "proc/1/comm": "systemd\n",
            **kernel(release, headers=False),
            **running(release),
            **gpus(8, "0x2330"),
            **nvswitches(),
            **libraries("580.65.06"),
        },
    )


def test_debian_with_an_interrupted_installation(tmp_path: Path) -> None:
    stack = read_stack(debian(tmp_path))
    assert (stack.next_boot.kernel, stack.next_boot.source) == ("6.12.48+deb13-amd64", "newest")
    assert stack.driver.fabric_manager.needed is True
    assert codes(stack) == ["fabric_manager_mismatch", "nouveau_not_blacklisted", "package_half_installed"]
    message = next(problem.message for problem in stack.problems if problem.code == "package_half_installed")
    assert message == "Not wholly installed: nvidia-driver (unpacked), nvidia-open-kernel-dkms (half-configured)."


# RHEL -----------------------------------------------------------------------------------------------------------------


def test_rhel_that_is_set_to_boot_its_older_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = (
        Package("kmod-nvidia-open-dkms", "3:595.58.03-1.el9", "noarch", kind="kernel_module", driver_release=RELEASE),
        Package("nvidia-driver-cuda", "3:595.58.03-1.el9", "x86_64", kind="driver", driver_release=RELEASE),
    )
    monkeypatch.setattr(reading, "read_rpm", lambda _tree, _run: installed)
    stack = read_stack(rhel(tmp_path))
    assert (stack.os.id, stack.os.family, stack.os.package_manager) == ("rocky", "rhel", "dnf")
    assert stack.next_boot.source == "bls"
    assert stack.next_boot.kernel == "5.14.0-503.40.1.el9_5.x86_64"
    assert stack.next_boot.arguments == "root=/dev/mapper/rl-root ro iommu=pt"
    new, old = stack.kernels
    assert new.nvidia_module is not None
    assert (new.nvidia_module.flavour, new.nvidia_module.path[-23:]) == (
        "proprietary",
        "x86_64/extra/nvidia.ko.xz"[-23:],
    )
    assert (new.headers_installed, old.headers_installed, old.nvidia_module) == (True, False, None)
    assert stack.packages is not None
    assert [(entry.name, entry.held) for entry in stack.packages] == [
        ("kmod-nvidia-open-dkms", True),
        ("nvidia-driver-cuda", False),
    ]
    assert [pin.pin for pin in stack.pins] == ["lock"]
    assert (stack.unattended_upgrades.tool, stack.unattended_upgrades.installed) == ("dnf-automatic", False)
    assert codes(stack) == ["next_kernel_without_module", "reboot_required"]


def test_rhel_whose_packages_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "read_rpm", lambda _tree, _run: None)
    stack = read_stack(rhel(tmp_path))
    assert stack.packages is None
    assert "packages_unknown" in codes(stack)


def test_a_proprietary_module_for_blackwell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "read_rpm", lambda _tree, _run: ())
    root = write(rhel(tmp_path), {**gpus(), "boot/grub2/grubenv": "saved_entry=0\n"})
    stack = read_stack(root)
    assert codes(stack) == ["flavour_unsuitable"]
    assert "is proprietary; 10de:2bb5 needs open." in stack.problems[0].message


# Nothing, and rubbish -------------------------------------------------------------------------------------------------


def test_an_empty_root(tmp_path: Path) -> None:
    stack = read_stack(tmp_path)
    assert (stack.kernels, stack.packages, stack.problems, stack.reboot.required) == ((), None, (), None)


def test_a_machine_with_gpus_and_no_driver(tmp_path: Path) -> None:
    stack = read_stack(write(tmp_path, gpus(8)))
    assert (codes(stack), stack.problems[0].message) == (["driver_not_installed"], "8 NVIDIA GPUs and no driver.")


def test_what_may_not_be_read_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = ubuntu(tmp_path)
    real = Tree.open

    def guarded(tree: Tree, relative: str) -> int | None:
        if relative in ("boot/grub/grub.cfg", "proc/800/comm"):
            tree.denied.add(relative)
            return None
        return real(tree, relative)

    monkeypatch.setattr(Tree, "open", guarded)
    write(root, {"proc/800/comm": "x"})
    stack = read_stack(root)
    assert stack.unreadable == ("/boot/grub/grub.cfg",)
    assert (stack.next_boot.kernel, stack.next_boot.source) == ("6.17.0-22-generic", "newest")
    assert codes(stack)[-1] == "not_readable"


FILES = sorted(
    {
        "boot/grub/grub.cfg",
        "boot/grub/grubenv",
        "boot/loader/entries/a.conf",
        "etc/apt/apt.conf.d/50x",
        "etc/apt/preferences.d/x",
        "etc/default/grub",
        "etc/dnf/dnf.conf",
        "etc/dnf/plugins/versionlock.list",
        "etc/dnf/versionlock.toml",
        "etc/ld.so.conf.d/x.conf",
        "etc/modprobe.d/x.conf",
        "etc/os-release",
        "etc/systemd/system.conf",
        "lib/modules/6.17.0-22-generic/modules.dep",
        "lib/modules/6.17.0-22-generic/updates/dkms/nvidia.ko",
        "proc/1/limits",
        "proc/buddyinfo",
        "proc/cmdline",
        "proc/driver/nvidia/version",
        "proc/keys",
        "proc/meminfo",
        "proc/self/mounts",
        "proc/swaps",
        "proc/sys/kernel/arch",
        "proc/sys/kernel/osrelease",
        "proc/sys/vm/overcommit_memory",
        "run/reboot-required.pkgs",
        "sys/bus/pci/devices/0000:01:00.0/class",
        "sys/bus/pci/devices/0000:01:00.0/device",
        "sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f",
        "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
        "sys/module/nvidia/refcnt",
        "usr/bin/env",
        "usr/bin/unattended-upgrade",
        "var/lib/dpkg/status",
    }
)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 4096,
        b"\xff\xfe\xfd" * 1000,
        b"9" * 6000,
        b"-" * 6000,
        b"{" * 6000,
        b'"' * 999,
        b"=\n:\n[\n" * 500,
        b"Node 0, zone Normal " + b"9" * 5000,
        b"MemTotal: " + b"9" * 5000 + b" kB\nSwapTotal: 18446744073709551615 kB\nSwapFree: 1 kB\n",
        b"Package: nvidia-driver\n" * 500,
        b'[[packages]]\nname = "' * 300,
        b"menuentry x {\n" * 2000,
    ],
)
def test_rubbish_in_every_file_is_no_crash(tmp_path: Path, content: bytes) -> None:
    root = ubuntu(tmp_path)
    write(root, dict.fromkeys(FILES, content))
    assert read_stack(root).as_dict()["os"]["family"] in ("debian", "rhel", "other")


def test_a_machine_whose_files_are_changed_at_random_is_no_crash(tmp_path: Path) -> None:
    root = ubuntu(tmp_path)
    write(root, {"usr/bin/unattended-upgrade": "", "proc/buddyinfo": "Node 0, zone Normal 1 2 3\n"})
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and not path.is_symlink()]
    contents = {path: path.read_bytes() for path in files}
    chance = random.Random(7)
    for _round in range(40):
        for path, content in contents.items():
            data = bytearray(content)
            for _byte in range(min(len(data), chance.randint(0, 4))):
                data[chance.randrange(len(data))] = chance.randrange(256)
            path.write_bytes(bytes(data))
        assert read_stack(root).running_kernel is not None
