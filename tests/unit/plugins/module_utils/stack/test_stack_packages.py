# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Packages that matter: names, dpkg's database with holds and half-installed ones, rpm's answers with locks."""

from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.dpkg import (
    parse_preferences,
    parse_status,
    read_dpkg,
    read_preferences,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import Package, Pin
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.packages import KINDS, kind_of, release_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.rpm import (
    has_database,
    holds,
    parse_lock_toml,
    parse_query,
    read_locks,
    read_rpm,
    with_holds,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.stack.trees import package, write

NAMES = {
    "driver": (
        "nvidia-driver nvidia-driver-580-open nvidia-driver-580-server nvidia-open nvidia-open-580 nvidia-headless-580 "
        "libnvidia-compute-580 libnvidia-compute libcuda1 libnvidia-ml1 nvidia-utils-580 nvidia-compute-utils-580 "
        "cuda-drivers cuda-drivers-580 nvidia-persistenced nvidia-modprobe nvidia-driver-cuda nvidia-driver-libs "
        "nvidia-firmware-580-580.65.06 firmware-nvidia-gsp nvidia-smi xserver-xorg-video-nvidia-580 libnvidia-ml "
        "nvidia-driver-pinning-580 nvidia-settings nvidia-alternative"
    ),
    "kernel_module": (
        "nvidia-dkms-580-open nvidia-dkms nvidia-dkms-open nvidia-kernel-dkms nvidia-kernel-open-dkms "
        "nvidia-open-kernel-dkms nvidia-kernel-common-580 nvidia-kernel-source-580-open kmod-nvidia-open-dkms "
        "kmod-nvidia-latest-dkms akmod-nvidia nvidia-kmod-common linux-modules-nvidia-580-open-generic "
        "linux-objects-nvidia-580-6.8.0-45-generic linux-signatures-nvidia-6.8.0-45-generic nvidia-kernel-support"
    ),
    "fabric": "nvidia-fabricmanager nvidia-fabricmanager-580 cuda-drivers-fabricmanager nvlsm nvidia-imex-580 libnvsdm",
    "container": "nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container1 nvidia-docker2",
    "cuda": "cuda-toolkit-12-8 cuda-cudart-13-0 libcublas-12-8 libnccl2 cudnn9-cuda-12 libcudnn9-cuda-12 cuda-keyring",
    "headers": "linux-headers-generic linux-headers-6.8.0-45-generic kernel-devel kernel-devel-matched kernel-headers",
    "kernel": (
        "linux-image-6.8.0-45-generic linux-image-amd64 linux-modules-extra-6.8.0-45-generic linux-generic-hwe-24.04 "
        "kernel kernel-core kernel-modules kernel-modules-core linux-nvidia-64k-hwe-24.04"
    ),
    "dkms": "dkms",
}
OTHERS = "bash libc6 linux-libc-dev kernel-tools kernelshark nv nvme-cli cudart dkmsx python3-nvidia-ml-py libnvme1"


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in NAMES for name in NAMES[kind].split()])
def test_what_a_package_is_for(kind: str, name: str) -> None:
    assert kind_of(name) == kind


@pytest.mark.parametrize("name", OTHERS.split())
def test_other_packages_do_not_matter(name: str) -> None:
    assert kind_of(name) is None


def test_every_kind_is_tried() -> None:
    assert set(NAMES) == set(KINDS)


@pytest.mark.parametrize(
    ("name", "version", "release"),
    [
        ("libnvidia-compute-580", "580.65.06-0ubuntu1", "580.65.06"),
        ("nvidia-driver-cuda-libs", "3:595.58.03-1.el9", "595.58.03"),
        ("kmod-nvidia-open-dkms", "3:595.58.03-1.el9", "595.58.03"),
        ("nvidia-fabricmanager-580", "580.65.06-1", "580.65.06"),
        ("nvidia-kernel-open-dkms", "580.65.06-1", "580.65.06"),
        # Distributions build these of another release, which works.
        ("nvidia-settings", "535.171.04-1", None),
        ("nvidia-persistenced", "535.171.04-1", None),
        ("nvidia-modprobe", "535.161.07-1", None),
        # Versioned like the kernel.
        ("linux-modules-nvidia-580-6.8.0-45-generic", "6.8.0-45.45+1", None),
        ("nvlsm", "2025.06.5-1", None),
        ("cuda-toolkit-12-8", "12.8.1-1", None),
    ],
)
def test_the_release_that_a_package_tells(name: str, version: str, release: str | None) -> None:
    assert release_of(name, version) == release


# dpkg -----------------------------------------------------------------------------------------------------------------


def test_dpkgs_database(tmp_path: Path) -> None:
    status = "\n".join(
        [
            package("bash", "5.2"),
            package("nvidia-dkms-580", "580.65.06-0ubuntu1", "hold ok installed", Source="nvidia-graphics (580.65.06)"),
            package("libnvidia-compute-580", "580.65.06-0ubuntu1", "install ok half-configured"),
            package("nvidia-utils-580", "580.65.06-0ubuntu1", "install reinstreq half-installed"),
            package("cuda-drivers", "580.65.06-0ubuntu1", "deinstall ok config-files"),
            package("nvidia-driver-570", "", "purge ok not-installed"),
            package("linux-headers-amd64", "6.12.48-1", "install ok triggers-pending"),
        ]
    )
    found = read_dpkg(Tree(write(tmp_path, {"var/lib/dpkg/status": status})))
    assert found is not None
    assert [(entry.name, entry.kind, entry.status, entry.held) for entry in found] == [
        ("libnvidia-compute-580", "driver", "half-configured", False),
        ("linux-headers-amd64", "headers", "triggers-pending", False),
        ("nvidia-dkms-580", "kernel_module", "installed", True),
        ("nvidia-utils-580", "driver", "reinstall-required", False),
    ]
    assert found[2] == Package(
        "nvidia-dkms-580",
        "580.65.06-0ubuntu1",
        "amd64",
        "nvidia-graphics",
        "kernel_module",
        "installed",
        True,
        "580.65.06",
    )


def test_no_database_is_unknown_and_an_empty_one_is_empty(tmp_path: Path) -> None:
    assert read_dpkg(Tree(tmp_path)) is None
    assert read_dpkg(Tree(write(tmp_path, {"var/lib/dpkg/status": ""}))) == ()


@pytest.mark.parametrize(
    "text",
    [
        "Package: nvidia-driver\n",
        "Package: nvidia-driver\nStatus: hold\nVersion: 1\n",
        "Package:\nStatus: install ok installed\n",
        "Status: install ok installed\nVersion: 1\n",
        "\0\0\0",
        ": : :\n\n:",
    ],
)
def test_broken_stanzas_are_no_packages(text: str) -> None:
    assert parse_status(text) == ()


def test_preferences(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "etc/apt/preferences.d/nvidia": (
                "# keep\nPackage: src:*nvidia*:any src:cuda-drivers:any\nPin: version 580.65.06-0ubuntu1\n"
                "Pin-Priority: 1000\n\nPackage: bash\nPin: release a=x\nPin-Priority: 10\n"
            ),
            "etc/apt/preferences.d/cuda.pref": "Package: nsight-*\nPin: origin *x\nPin-Priority: 1\n",
            "etc/apt/preferences.d/old.bak": "Package: nvidia-*\nPin: version 1\nPin-Priority: 1\n",
            "etc/apt/preferences": "Package: cuda-*\nPin: origin nowhere\nPin-Priority: lots\n",
        },
    )
    assert read_preferences(Tree(tmp_path)) == (
        Pin("cuda-*", "origin nowhere", None, "/etc/apt/preferences"),
        Pin(
            "src:*nvidia*:any src:cuda-drivers:any",
            "version 580.65.06-0ubuntu1",
            1000,
            "/etc/apt/preferences.d/nvidia",
        ),
    )
    assert parse_preferences("", "x") == ()


# rpm ------------------------------------------------------------------------------------------------------------------

QUERY = (
    "bash\t0\t5.1.8\t9.el9\tx86_64\n"
    "kmod-nvidia-open-dkms\t3\t595.58.03\t1.el9\tnoarch\n"
    "kernel-core\t0\t5.14.0\t570.12.1.el9_6\tx86_64\n"
    "kernel-core\t0\t5.14.0\t503.40.1.el9_5\tx86_64\n"
    "broken line\n"
)


def test_rpms_answer() -> None:
    assert parse_query(QUERY) == (
        Package("kernel-core", "5.14.0-503.40.1.el9_5", "x86_64", kind="kernel"),
        Package("kernel-core", "5.14.0-570.12.1.el9_6", "x86_64", kind="kernel"),
        Package(
            "kmod-nvidia-open-dkms", "3:595.58.03-1.el9", "noarch", kind="kernel_module", driver_release="595.58.03"
        ),
    )


@pytest.mark.parametrize(
    ("pattern", "held"),
    [
        ("kmod-nvidia-open-dkms-3:595.58.03-1.el9.*", True),
        ("kmod-nvidia-open-dkms-3:595.58.03-1.el9.noarch", True),
        ("kmod-nvidia-open-dkms", True),
        ("*nvidia*", True),
        ("kmod-nvidia-open-dkms-3:570.86.10-1.el9.*", False),
        ("nvidia-driver", False),
        ("kernel*", False),
    ],
)
def test_what_a_lock_holds(pattern: str, held: bool) -> None:
    driver = next(entry for entry in parse_query(QUERY) if entry.kind == "kernel_module")
    assert holds(Pin(pattern, "lock", None, "x"), driver) is held


def test_a_package_without_an_epoch_is_locked_with_epoch_zero() -> None:
    kernel = parse_query(QUERY)[1]
    assert holds(Pin("kernel-core-0:5.14.0-570.12.1.el9_6.*", "lock", None, "x"), kernel)


def test_locks_and_excludes(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "etc/dnf/plugins/versionlock.list": (
                "# locks\nnvidia-driver-3:595.58.03-1.el9.*\n!cuda-drivers-3:600*\nbash-0:5*\n"
            ),
            "etc/dnf/dnf.conf": "[main]\ngpgcheck=1\nexcludepkgs=kernel*, vim\nexclude=nvidia-settings\n",
        },
    )
    assert [(pin.packages, pin.pin, pin.path) for pin in read_locks(Tree(tmp_path))] == [
        ("nvidia-driver-3:595.58.03-1.el9.*", "lock", "/etc/dnf/plugins/versionlock.list"),
        ("cuda-drivers-3:600*", "exclude", "/etc/dnf/plugins/versionlock.list"),
        ("nvidia-settings", "exclude", "/etc/dnf/dnf.conf"),
        ("kernel*", "exclude", "/etc/dnf/dnf.conf"),
    ]


def test_dnf_5_locks() -> None:
    text = (
        'version = "1.0"\n[[packages]]\nname = "*nvidia*"\ncomment = "x"\n[[packages.conditions]]\nkey = "evr"\n'
        'comparator = ">="\nvalue = "3:570"\n[[packages]]\nname = "acpi"\n'
    )
    assert parse_lock_toml(text, "x") == (Pin("*nvidia*", "evr >= 3:570", None, "x"), Pin("acpi", None, None, "x"))
    assert with_holds(parse_query(QUERY), parse_lock_toml(text, "x"))[2].held is True


@pytest.fixture(name="rpm")
def _rpm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name, the only one that can be found."""
    program = write(tmp_path / "bin", {"rpm": "#!/bin/sh\n"}) / "rpm"
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    return program


def test_rpm_is_asked_about_the_root_and_its_database(tmp_path: Path, rpm: Path) -> None:
    root = write(tmp_path / "root", {"usr/lib/sysimage/rpm/rpmdb.sqlite": "x"})
    asked: list[list[str]] = []

    def run(command: list[str]) -> tuple[int, str, str]:
        asked.append(command)
        return 0, QUERY, ""

    assert read_rpm(Tree(root), run) == parse_query(QUERY)
    assert asked[0][:7] == [str(rpm), "--root", str(root), "--dbpath", "/usr/lib/sysimage/rpm", "-qa", "--qf"]


def broken(_command: list[str]) -> tuple[int, str, str]:
    raise OSError("no such program")


def test_rpm_that_is_absent_or_fails_is_unknown(tmp_path: Path, rpm: Path) -> None:
    tree = Tree(write(tmp_path / "root", {"var/lib/rpm/rpmdb.sqlite": "x"}))
    assert read_rpm(tree, lambda _command: (0, "", "")) == ()
    assert read_rpm(tree, lambda _command: (1, QUERY, "broken")) is None
    assert read_rpm(tree, broken) is None
    assert read_rpm(tree, None) is None
    assert read_rpm(Tree(tmp_path), lambda _command: (0, QUERY, "")) is None
    rpm.unlink()
    assert read_rpm(tree, lambda _command: (0, QUERY, "")) is None


@pytest.mark.parametrize(
    "path", ["var/lib/rpm/rpmdb.sqlite", "usr/lib/sysimage/rpm/rpmdb.sqlite", "var/lib/rpm/Packages"]
)
def test_where_rpms_database_lies(tmp_path: Path, path: str) -> None:
    assert has_database(Tree(tmp_path)) is False
    assert has_database(Tree(write(tmp_path, {path: "x"}))) is True
