# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The installed kernels with their images, headers and modules, and DKMS's tree."""

from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.dkms import read_dkms
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import DkmsModule, Kernel, Package
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.kernels import (
    KERNELS_LIMIT,
    flavour_of,
    read_kernels,
    release_of_image,
    source_of,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.stack.trees import (
    RELEASE,
    kernel,
    link,
    nvidia_module,
    write,
)

K = "6.8.0-45-generic"


def read(root: Path, running: str | None = None, packages: tuple[Package, ...] = ()) -> tuple[Kernel, ...]:
    tree = Tree(root)
    return read_kernels(tree, running, read_dkms(tree), packages, None)


@pytest.mark.parametrize(
    ("path", "release"),
    [
        ("/boot/vmlinuz-6.8.0-45-generic", "6.8.0-45-generic"),
        ("/vmlinuz-5.14.0-570.el9.x86_64", "5.14.0-570.el9.x86_64"),
        ("/boot/vmlinux-6.1.0-40-arm64", "6.1.0-40-arm64"),
        ("/boot/vmlinuz-6.1.0-40-amd64.efi.signed", "6.1.0-40-amd64"),
        ("/3f1c0de5a0c94d9db7f0c2f9a4f1d0aa/6.12.9-amd64/linux", "6.12.9-amd64"),
        ("/boot/memtest86+x64.efi", None),
        ("/EFI/Linux/image.efi", None),
        ("", None),
        (None, None),
    ],
)
def test_the_release_in_an_images_path(path: str | None, release: str | None) -> None:
    assert release_of_image(path) == release


@pytest.mark.parametrize(
    ("license_name", "flavour"),
    [("NVIDIA", "proprietary"), ("Dual MIT/GPL", "open"), ("Something", None), (None, None)],
)
def test_the_flavour_by_the_licence(license_name: str | None, flavour: str | None) -> None:
    assert flavour_of(license_name) == flavour


def test_a_kernel_with_everything(tmp_path: Path) -> None:
    write(tmp_path, kernel(K, nvidia=nvidia_module(signer="Acme")))
    link(tmp_path, f"lib/modules/{K}/build", f"/usr/src/linux-headers-{K}")
    (found,) = read(tmp_path, running=K)
    assert (found.release, found.running, found.boots_next) == (K, True, None)
    assert (found.vmlinuz, found.initramfs) == (f"/boot/vmlinuz-{K}", f"/boot/initrd.img-{K}")
    assert (found.headers_installed, found.headers_path) == (True, f"/usr/src/linux-headers-{K}")
    assert found.nouveau_path == f"/lib/modules/{K}/kernel/drivers/gpu/drm/nouveau/nouveau.ko"
    module = found.nvidia_module
    assert module is not None
    assert module.path == f"/lib/modules/{K}/updates/dkms/nvidia.ko"
    assert (module.version, module.license, module.flavour) == (RELEASE, "Dual MIT/GPL", "open")
    assert (module.signed, module.signer, module.signer_trusted, module.source) == (True, "Acme", None, "dkms")


def test_kernels_are_the_newest_first_and_no_rescue_image_is_one(tmp_path: Path) -> None:
    for release in ("6.8.0-9-generic", "6.8.0-45-generic", "6.11.0-1-generic"):
        write(tmp_path, kernel(release))
    write(tmp_path, {"boot/vmlinuz-0-rescue-ffff": "", "boot/vmlinuz": "", "boot/vmlinuz-6.8.0-45-generic.old": ""})
    assert [found.release for found in read(tmp_path)] == ["6.11.0-1-generic", "6.8.0-45-generic", "6.8.0-9-generic"]


def test_a_link_to_headers_that_leads_nowhere_is_none(tmp_path: Path) -> None:
    """kernel-core of RHEL brings the link, kernel-devel what it leads to."""
    write(tmp_path, kernel("5.14.0-1.el9.x86_64", headers=False))
    link(tmp_path, "lib/modules/5.14.0-1.el9.x86_64/build", "/usr/src/kernels/5.14.0-1.el9.x86_64")
    assert read(tmp_path)[0].headers_installed is False
    write(tmp_path, {"usr/src/kernels/5.14.0-1.el9.x86_64/Makefile": ""})
    found = read(tmp_path)[0]
    assert (found.headers_installed, found.headers_path) == (True, "/usr/src/kernels/5.14.0-1.el9.x86_64")


def test_of_several_modules_the_one_that_depmod_chose(tmp_path: Path) -> None:
    base = f"lib/modules/{K}"
    write(
        tmp_path,
        {
            f"{base}/kernel/drivers/video/nvidia.ko": nvidia_module("570.86.10"),
            f"{base}/updates/dkms/nvidia.ko": nvidia_module("595.58.03"),
            f"{base}/modules.dep": "updates/dkms/nvidia-uvm.ko: updates/dkms/nvidia.ko\nupdates/dkms/nvidia.ko:\n",
        },
    )
    found = read(tmp_path)[0].nvidia_module
    assert found is not None and (found.version, found.path) == ("595.58.03", f"/{base}/updates/dkms/nvidia.ko")
    write(tmp_path, {f"{base}/modules.dep": "kernel/fs/ext4.ko:\n"})
    assert read(tmp_path)[0].nvidia_module is None


@pytest.mark.parametrize(
    "place",
    [
        "updates/dkms/nvidia.ko.zst",
        "extra/nvidia.ko.xz",
        "weak-updates/nvidia/nvidia.ko",
        "kernel/drivers/video/nvidia.ko",
        "kernel/nvidia-580-open/nvidia.ko",
        "updates/dkms/nvidia-current.ko",
        "updates/dkms/nvidia-current-open.ko.xz",
    ],
)
def test_the_places_where_distributions_put_it(tmp_path: Path, place: str) -> None:
    """Whatever the name ends in: the content tells how it is packed. The same with depmod's list and without."""
    base = f"lib/modules/{K}"
    write(tmp_path, {f"{base}/{place}": nvidia_module()})
    found = read(tmp_path)[0].nvidia_module
    assert found is not None and (found.path, found.version) == (f"/{base}/{place}", RELEASE)
    write(tmp_path, {f"{base}/modules.dep": f"kernel/a.ko:\n{place}:\n"})
    assert read(tmp_path)[0].nvidia_module == found


def test_other_modules_of_the_driver_are_not_taken_for_it(tmp_path: Path) -> None:
    base = f"lib/modules/{K}/updates/dkms"
    write(tmp_path, {f"{base}/nvidia-uvm.ko": nvidia_module(), f"{base}/nvidia-fs.ko": nvidia_module()})
    assert read(tmp_path)[0].nvidia_module is None


def test_a_broken_module_is_there_and_unknown(tmp_path: Path) -> None:
    write(tmp_path, {f"lib/modules/{K}/updates/dkms/nvidia.ko": b"\x7fELF garbage"})
    found = read(tmp_path)[0].nvidia_module
    assert found is not None
    assert (found.version, found.flavour, found.signed, found.signer) == (None, None, None, None)


def test_whether_the_signer_is_trusted(tmp_path: Path) -> None:
    write(tmp_path, kernel(K, nvidia=nvidia_module(signer="Acme")))
    for trusted, expected in ((("Acme", "Canonical"), True), (("Canonical",), False), (None, None)):
        module = read_kernels(Tree(tmp_path), None, (), (), trusted)[0].nvidia_module
        assert module is not None and module.signer_trusted is expected


@pytest.mark.parametrize(
    ("path", "dkms", "package", "source"),
    [
        ("updates/dkms/nvidia.ko", (), None, "dkms"),
        ("extra/nvidia.ko.xz", (DkmsModule("nvidia-open", "1", K, "x86_64", "installed"),), None, "dkms"),
        ("extra/nvidia.ko.xz", (DkmsModule("nvidia-open", "1", K, "x86_64", "built"),), None, "unknown"),
        ("extra/nvidia.ko.xz", (DkmsModule("zfs", "1", K, "x86_64", "installed"),), None, "unknown"),
        ("kernel/nvidia-580/nvidia.ko", (), f"linux-modules-nvidia-580-server-{K}", "packaged"),
        ("kernel/nvidia-580/nvidia.ko", (), "linux-modules-nvidia-580-server-6.8.0-1-generic", "unknown"),
        ("extra/drivers/video/nvidia/nvidia.ko", (), "kmod-nvidia-open-580", "packaged"),
        ("extra/nvidia.ko.xz", (), "kmod-nvidia-open-dkms", "unknown"),
        ("kernel/drivers/video/nvidia.ko", (), None, "unknown"),
    ],
)
def test_where_a_module_is_from(path: str, dkms: tuple[DkmsModule, ...], package: str | None, source: str) -> None:
    assert source_of(path, K, dkms, [Package(package, "1")] if package else []) == source


def test_a_folder_full_of_kernels_is_not_read_to_its_end(tmp_path: Path) -> None:
    for number in range(KERNELS_LIMIT + 20):
        (tmp_path / f"lib/modules/6.{number}.0").mkdir(parents=True)
    found = read(tmp_path)
    assert (len(found), found[0].release) == (KERNELS_LIMIT, f"6.{KERNELS_LIMIT + 19}.0")


# DKMS -----------------------------------------------------------------------------------------------------------------


def dkms(root: Path) -> Path:
    base = "var/lib/dkms"
    write(
        root,
        {
            f"{base}/dkms_dbversion": "2.0",
            f"{base}/mok.key": "",
            f"{base}/nvidia/595.58.03/6.8.0-45-generic/x86_64/module/nvidia.ko.zst": "",
            f"{base}/nvidia/595.58.03/6.8.0-45-generic/x86_64/log/make.log": "",
            f"{base}/nvidia/595.58.03/6.8.0-60-generic/x86_64/module/nvidia.ko.zst": "",
            f"{base}/nvidia/595.58.03/6.8.0-70-generic/x86_64/log/make.log": "failed",
            f"{base}/nvidia/595.58.03/build/make.log": "",
            f"{base}/zfs/2.3.1/build/x": "",
        },
    )
    link(root, f"{base}/nvidia/595.58.03/source", "/usr/src/nvidia-595.58.03")
    link(root, f"{base}/nvidia/kernel-6.8.0-45-generic-x86_64", "595.58.03/6.8.0-45-generic/x86_64")
    link(root, f"{base}/zfs/2.3.1/source", "/usr/src/zfs-2.3.1")
    link(root, f"{base}/gone/1.0/6.8.0-45-generic", "nowhere")
    return root


def test_dkms_states(tmp_path: Path) -> None:
    assert read_dkms(Tree(dkms(tmp_path))) == (
        DkmsModule("nvidia", "595.58.03", "6.8.0-45-generic", "x86_64", "installed"),
        DkmsModule("nvidia", "595.58.03", "6.8.0-60-generic", "x86_64", "built"),
        DkmsModule("zfs", "2.3.1"),
    )


def test_a_link_to_another_version_does_not_install_this_one(tmp_path: Path) -> None:
    root = dkms(tmp_path)
    write(
        root, {"var/lib/dkms/nvidia/600.1/6.8.0-45-generic/x86_64/module/nvidia.ko": "", "usr/src/nvidia-600.1/x": ""}
    )
    link(root, "var/lib/dkms/nvidia/600.1/source", "/usr/src/nvidia-600.1")
    states = {(entry.version, entry.kernel): entry.state for entry in read_dkms(Tree(root))}
    assert states["600.1", "6.8.0-45-generic"] == "built"
    assert states["595.58.03", "6.8.0-45-generic"] == "installed"


def test_no_dkms(tmp_path: Path) -> None:
    assert read_dkms(Tree(tmp_path)) == ()
