# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every problem that host_stack_info can state: code, severity, what it means, what to do about it.

One table for the code and for the documentation, so that no code exists without its remedy.
"""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, ProblemCode

CODES: dict[str, ProblemCode] = {
    # The driver's parts against each other
    "driver_not_installed": ProblemCode(
        "info",
        "NVIDIA GPUs are on the PCI bus, and neither a kernel module nor libraries of the driver are installed.",
        "Install the driver.",
    ),
    "driver_user_space_mismatch": ProblemCode(
        "error",
        "The loaded kernel module and the driver's libraries are of different releases, so that nothing can use a GPU.",
        "Reboot the host when the module that is installed for the next kernel is of the libraries' release; else "
        "install module and libraries in one release first.",
    ),
    "driver_module_mismatch": ProblemCode(
        "warning",
        "The loaded kernel module is of another release than the one that is installed for the running kernel.",
        "Reboot the host, or stop what uses the GPUs and load the module anew.",
    ),
    "next_module_mismatch": ProblemCode(
        "error",
        "The module of the kernel that boots next and the driver's libraries are of different releases: after the next "
        "reboot nothing can use a GPU.",
        "Install module and libraries in one release; with DKMS build the module for that kernel (dkms autoinstall).",
    ),
    "next_kernel_without_module": ProblemCode(
        "error",
        "The kernel that boots next has no nvidia module, so that the GPUs are gone after the next reboot.",
        "Install that kernel's headers and let DKMS build (dkms autoinstall -k), or install the packaged module for "
        "it, or choose the kernel that has one.",
    ),
    "driver_packages_differ": ProblemCode(
        "warning",
        "The installed packages of the driver are of more than one release.",
        "Bring all of them to one release, with the version pinned; an interrupted upgrade is the usual cause.",
    ),
    "driver_libraries_several": ProblemCode(
        "warning",
        "The driver's libraries are installed in more than one release, and which is used depends on the loader.",
        "Remove what a former installation left, often that of NVIDIA's .run file (nvidia-uninstall).",
    ),
    "cuda_library_differs": ProblemCode(
        "info",
        "The libcuda that the loader finds is of another release than the driver: a compatibility package.",
        "Nothing to do when that is meant; else take its folder out of /etc/ld.so.conf.d.",
    ),
    "fabric_manager_missing": ProblemCode(
        "error",
        "NVSwitches are on the PCI bus, and no fabric manager is installed: CUDA will not start on any GPU.",
        "Install nvidia-fabricmanager in exactly the driver's release and enable its service.",
    ),
    "fabric_manager_mismatch": ProblemCode(
        "error",
        "The fabric manager is of another release than the driver; it refuses to start then.",
        "Install nvidia-fabricmanager in exactly the driver's release.",
    ),
    "fabric_manager_stopped": ProblemCode(
        "error",
        "The fabric manager is needed and installed, and it does not run.",
        "Start nvidia-fabricmanager and read its log in /var/log/fabricmanager.log when that fails.",
    ),
    "fabric_manager_disabled": ProblemCode(
        "warning",
        "The fabric manager is needed, and it is not started at boot.",
        "Enable nvidia-fabricmanager.",
    ),
    "flavour_unsuitable": ProblemCode(
        "error",
        "The nvidia module is of the flavour that these GPUs do not work with.",
        "Install the flavour that the message names: the open modules for Grace Hopper, Blackwell and later, the "
        "proprietary ones for Maxwell, Pascal and Volta.",
    ),
    "flavour_conflict": ProblemCode(
        "error",
        "Some GPUs need the open kernel modules and others the proprietary ones, which exclude each other.",
        "Take the GPUs of one kind out of the host.",
    ),
    # nouveau
    "nouveau_loaded": ProblemCode(
        "error",
        "nouveau is loaded and holds the GPUs, so that the nvidia module cannot.",
        "Blacklist nouveau (blacklist nouveau, options nouveau modeset=0), make the initramfs anew and reboot.",
    ),
    "nouveau_in_initramfs": ProblemCode(
        "warning",
        "The initramfs of the next boot is older than the file that blacklists nouveau, so nouveau may load from it.",
        "Make it anew: update-initramfs -u, or dracut --force.",
    ),
    "nouveau_not_blacklisted": ProblemCode(
        "info",
        "Nothing keeps nouveau from taking the GPUs at the next boot, before the nvidia module loads.",
        "Blacklist nouveau and make the initramfs anew; the driver's packages do both.",
    ),
    # Secure Boot, DKMS, headers
    "secure_boot_unsigned_module": ProblemCode(
        "error",
        "Secure Boot or the kernel demands signed modules, and the nvidia module is not signed, so it will not load.",
        "Sign it with an enrolled machine owner key (mokutil --import, then confirm at the console on the next boot), "
        "or use the distribution's signed modules, or switch Secure Boot off.",
    ),
    "secure_boot_signer_unknown": ProblemCode(
        "warning",
        "Secure Boot or the kernel demands signed modules, and the signer of the nvidia module is not among the keys "
        "that the running kernel trusts.",
        "Enrol the signer's certificate as a machine owner key (mokutil --import) and confirm at the console.",
    ),
    "dkms_build_missing": ProblemCode(
        "warning",
        "DKMS has the driver's source, and has not installed a module of it for a kernel that runs or boots next.",
        "Install the kernel's headers and run dkms autoinstall -k with its release; its make.log tells why it failed.",
    ),
    "headers_missing": ProblemCode(
        "warning",
        "The driver's module is built by DKMS, and the headers of a kernel that runs or boots next are not installed.",
        "Install linux-headers (Debian, Ubuntu) or kernel-devel (RHEL) of exactly that release.",
    ),
    # Packages
    "package_half_installed": ProblemCode(
        "error",
        "A package is neither installed nor removed: an installation was interrupted or failed.",
        "Run dpkg --configure -a, then apt-get --fix-broken install, and read why it failed.",
    ),
    "packages_unknown": ProblemCode(
        "warning",
        "The database of packages could not be read, so that packages, holds and releases of packages are unknown.",
        "Run the task with become; an RPM database needs rpm where the task runs.",
    ),
    "unattended_upgrade_of_driver": ProblemCode(
        "warning",
        "Unattended upgrades may upgrade the driver under a running server, which ends with a version mismatch.",
        "Hold the driver's packages (apt-mark hold, dnf versionlock) or put them on the black list.",
    ),
    "unattended_upgrade_unclear": ProblemCode(
        "info",
        "Unattended upgrades are on, and whether they reach the driver cannot be decided.",
        "Hold the driver's packages (apt-mark hold, dnf versionlock), then they do not.",
    ),
    # Boot
    "reboot_required": ProblemCode(
        "warning",
        "What is installed is not what runs; a reboot puts it into force.",
        "Drain the host and reboot it.",
    ),
    "next_kernel_missing": ProblemCode(
        "warning",
        "The boot menu's default names a kernel that is not installed here, so the host may not come up again.",
        "Make the menu anew (update-grub, grub2-mkconfig) or choose a kernel that is there; nothing to do when the "
        "default is meant to be another system's.",
    ),
    "next_boot_unknown": ProblemCode(
        "info",
        "Which kernel boots next could not be told.",
        "Run the task with become, so that the boot loader's configuration can be read.",
    ),
    "next_boot_once": ProblemCode(
        "info",
        "A kernel is chosen for the next boot only; the one after it boots the default again.",
        "Nothing to do when that is meant; else unset next_entry (grub-editenv) or choose a default.",
    ),
    # Limits and memory
    "memlock_limited": ProblemCode(
        "info",
        "A service that sets nothing may lock only little memory, which is not enough for host caches.",
        "Set LimitMEMLOCK=infinity in the service's unit, as this collection's units do; limits.d has no effect there.",
    ),
    "swap_in_use": ProblemCode(
        "warning",
        "Memory has been swapped out: the host has been short of it, and what is swapped is slow to come back.",
        "Find what used the memory; on an inference host switch swap off (swapoff -a) or set vm.swappiness=1.",
    ),
    "overcommit_never": ProblemCode(
        "warning",
        "The kernel hands out no more memory than its commit limit: large processes fail with memory still free.",
        "Set vm.overcommit_memory=0 (or 1).",
    ),
    "thp_off": ProblemCode(
        "info",
        "Transparent huge pages are off: pinning host memory takes longer, a page of 4 KiB at a time.",
        "Set transparent_hugepage to madvise or always.",
    ),
    "shm_small": ProblemCode(
        "warning",
        "/dev/shm is small: processes of one server exchange data through it and fail when it is full.",
        "Mount it larger (size= in /etc/fstab, or --shm-size of the container).",
    ),
    "memory_fragmented": ProblemCode(
        "warning",
        "Nearly all free memory of a NUMA node lies in small blocks, so that huge pages are not to be had.",
        "Reboot before large pools are allocated, or compact memory (echo 1 > /proc/sys/vm/compact_memory).",
    ),
    "zone_reclaim_on": ProblemCode(
        "warning",
        "The kernel reclaims a node's page cache before it takes another node's free memory, which stalls allocations.",
        "Set vm.zone_reclaim_mode=0.",
    ),
    "numa_balancing_on": ProblemCode(
        "info",
        "The kernel moves pages between NUMA nodes by itself; for processes that are bound to a node it is mere work.",
        "Set kernel.numa_balancing=0 on hosts whose servers are bound to nodes.",
    ),
    "governor_not_performance": ProblemCode(
        "warning",
        "The processors' frequency follows the load, which adds latency to a server's scheduler.",
        "Use the governor performance (cpupower, or tuned's profile throughput-performance).",
    ),
    # The reading itself
    "not_readable": ProblemCode(
        "warning",
        "Some files may not be read by the user of this task, so what they tell is null.",
        "Run the task with become.",
    ),
}


def problem(code: str, message: str) -> Problem:
    """The problem C(code) with the message of the case at hand."""
    return CODES[code].of(code, message)
