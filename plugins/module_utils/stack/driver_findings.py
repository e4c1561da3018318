# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wrong with the driver: its parts against each other, against the GPUs, and against the next boot."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import (
    DkmsModule,
    Driver,
    Kernel,
    NextBoot,
    NvidiaModule,
    SecureBoot,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.flavours import required_flavour
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.problem_codes import problem


def release_problems(driver: Driver, kernels: Sequence[Kernel], next_boot: NextBoot) -> list[Problem]:
    """One release everywhere, now and after the next boot."""
    found = []
    told = driver.releases
    modules = [kernel.nvidia_module for kernel in kernels if kernel.nvidia_module is not None]
    if driver.gpus and not _is_installed(driver, kernels):
        count = len(driver.gpus)
        found.append(problem("driver_not_installed", f"{count} NVIDIA GPU{'s' * (count > 1)} and no driver."))
    if None not in (told.loaded, told.user_space) and told.loaded != told.user_space:
        message = f"The loaded module is of {told.loaded}, the libraries are of {told.user_space}."
        found.append(problem("driver_user_space_mismatch", message))
    if None not in (told.loaded, told.running_kernel) and told.loaded != told.running_kernel:
        message = f"The loaded module is of {told.loaded}, the installed one of {told.running_kernel}."
        found.append(problem("driver_module_mismatch", message))
    if None not in (told.next_kernel, told.user_space) and told.next_kernel != told.user_space:
        message = (
            f"Kernel {next_boot.kernel} has a module of {told.next_kernel}, the libraries are of {told.user_space}."
        )
        found.append(problem("next_module_mismatch", message))
    following = next((kernel for kernel in kernels if kernel.boots_next), None)
    if following is not None and following.nvidia_module is None and (modules or driver.loaded.loaded):
        found.append(problem("next_kernel_without_module", f"Kernel {following.release} boots next and has none."))
    if len(told.packages) > 1:
        found.append(problem("driver_packages_differ", f"Releases of the packages: {', '.join(told.packages)}."))
    libraries = driver.user_space
    if libraries.other_versions:
        others = ", ".join(libraries.other_versions)
        found.append(problem("driver_libraries_several", f"{libraries.nvml_path} is used; also there: {others}."))
    if None not in (libraries.version, libraries.cuda_version) and libraries.cuda_version != libraries.version:
        message = f"{libraries.cuda_path} is found first, and the driver is of {libraries.version}."
        found.append(problem("cuda_library_differs", message))
    return found


def _is_installed(driver: Driver, kernels: Sequence[Kernel]) -> bool:
    """Whether any part of the driver is there."""
    modules = any(kernel.nvidia_module is not None for kernel in kernels)
    return driver.loaded.loaded or modules or driver.user_space.version is not None


def fabric_problems(driver: Driver, kernels: Sequence[Kernel], packages_known: bool) -> list[Problem]:
    fabric = driver.fabric_manager
    if not fabric.needed or not _is_installed(driver, kernels):
        return []
    if fabric.installed_version is None:
        # A daemon that runs without a package was installed by hand.
        if fabric.running or not packages_known:
            return []
        return [problem("fabric_manager_missing", "NVSwitches are there, and no package of a fabric manager.")]
    found = []
    release = driver.loaded.version or driver.releases.user_space
    if release is not None and fabric.installed_version != release:
        message = f"The fabric manager is of {fabric.installed_version}, the driver of {release}."
        found.append(problem("fabric_manager_mismatch", message))
    if fabric.running is False and driver.loaded.loaded:
        found.append(problem("fabric_manager_stopped", "No process nv-fabricmanager runs."))
    if fabric.enabled is False:
        found.append(problem("fabric_manager_disabled", "nvidia-fabricmanager.service is not enabled."))
    return found


def flavour_problems(driver: Driver, kernels: Sequence[Kernel]) -> list[Problem]:
    """The flavour that is loaded or will be, against what the GPUs can work with."""
    needed = driver.required_flavour
    demanding = ", ".join(sorted({gpu for gpu in driver.gpus if required_flavour(gpu) not in (None, "either")}))
    if needed == "none":
        return [problem("flavour_conflict", f"GPUs: {demanding}.")]
    if needed not in ("open", "proprietary"):
        return []
    following = next((kernel.nvidia_module for kernel in kernels if kernel.boots_next), None)
    seen = {"The loaded module": driver.loaded.flavour}
    if following is not None:
        seen[f"{following.path}"] = following.flavour
    return [
        problem("flavour_unsuitable", f"{whose} is {flavour}; {_needing(driver, needed)} needs {needed}.")
        for whose, flavour in seen.items()
        if flavour is not None and flavour != needed
    ]


def _needing(driver: Driver, flavour: str) -> str:
    return ", ".join(sorted({gpu for gpu in driver.gpus if required_flavour(gpu) == flavour}))


def nouveau_problems(driver: Driver, kernels: Sequence[Kernel]) -> list[Problem]:
    nouveau = driver.nouveau
    if not driver.gpus:
        return []
    if nouveau.loaded and driver.gpus_by_driver.get("nvidia"):
        return []  # nouveau has what NVIDIA's driver was not to have, a display card
    if nouveau.loaded:
        return [problem("nouveau_loaded", "The kernel has nouveau loaded.")]
    found = []
    following = next((kernel for kernel in kernels if kernel.boots_next), None)
    if nouveau.initramfs_stale and following is not None:
        message = f"{following.initramfs} is older than {', '.join(nouveau.blacklisted_by)}."
        found.append(problem("nouveau_in_initramfs", message))
    if not nouveau.blacklisted and following is not None and following.nouveau_path is not None:
        found.append(problem("nouveau_not_blacklisted", f"{following.nouveau_path} is there and not blacklisted."))
    return found


def signature_problems(secure: SecureBoot, kernels: Sequence[Kernel]) -> list[Problem]:
    """Modules that the kernel will not take, where it takes signed ones only."""
    if not refuses_unsigned(secure):
        return []
    found = []
    for kernel in _concerned(kernels):
        module = kernel.nvidia_module
        if module is None:
            continue
        if module.signed is False:
            found.append(problem("secure_boot_unsigned_module", f"{module.path} is not signed."))
        elif module.signer_trusted is False:
            found.append(problem("secure_boot_signer_unknown", _signer_message(module)))
    return found


def refuses_unsigned(secure: SecureBoot) -> bool:
    """By what the kernel says of itself: its parameter and its lockdown, either of which is enough to refuse.

    Where one of the two is not known, Secure Boot is taken to bring it on, unless shim's validation is off.
    """
    if secure.module_sig_enforce or secure.lockdown in ("integrity", "confidentiality"):
        return True
    if secure.module_sig_enforce is False and secure.lockdown == "none":
        return False
    return bool(secure.enabled) and secure.shim_validation is not False


def _signer_message(module: NvidiaModule) -> str:
    return f"{module.path} is signed by {module.signer}, whose key the running kernel does not have."


def dkms_problems(dkms: Sequence[DkmsModule], kernels: Sequence[Kernel]) -> list[Problem]:
    """For the kernels that matter: is the module built, and can it be?"""
    ours = [entry for entry in dkms if entry.module.startswith("nvidia") and "fs" not in entry.module.split("-")]
    if not ours:
        return []
    found = []
    for kernel in _concerned(kernels):
        states = [entry.state for entry in ours if entry.kernel == kernel.release]
        if "installed" not in states and (kernel.nvidia_module is None or "built" in states):
            versions = ", ".join(dict.fromkeys(f"{entry.module}/{entry.version}" for entry in ours))
            state = "built and not installed" if "built" in states else "not built"
            found.append(problem("dkms_build_missing", f"{versions} is {state} for kernel {kernel.release}."))
        if not kernel.headers_installed:
            found.append(problem("headers_missing", f"The headers of kernel {kernel.release} are not installed."))
    return found


def _concerned(kernels: Sequence[Kernel]) -> list[Kernel]:
    return [kernel for kernel in kernels if kernel.running or kernel.boots_next]
