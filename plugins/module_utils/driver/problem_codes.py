# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every problem and refusal of a driver plan and of its verification: what it means, what to do about it."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, ProblemCode

CODES: dict[str, ProblemCode] = {
    # The request by itself
    "driver_branch_malformed": ProblemCode(
        "error", "branch is no branch of the driver.", "Give three digits, quoted, such as '580'."
    ),
    "driver_choice_unknown": ProblemCode(
        "error", "An option that takes auto, true or false has another value.", "Give one of the three."
    ),
    "driver_fingerprint_malformed": ProblemCode(
        "error",
        "key_fingerprint is no whole fingerprint.",
        "Give all 40 hexadecimal digits, as gpg --show-keys prints them; the short id of a key can be forged.",
    ),
    "driver_fingerprint_missing": ProblemCode(
        "error",
        "A key of one's own is given without the fingerprint that it is checked against.",
        "Give key_fingerprint, from where you trust it and not from where the key is.",
    ),
    "driver_repository_malformed": ProblemCode(
        "error",
        "Address, suite and components of the repository do not go together.",
        "Correct what the message names.",
    ),
    "driver_repository_missing": ProblemCode(
        "error", "A mirror or a folder is asked for and not named.", "Give repository_url."
    ),
    "driver_repository_unused": ProblemCode(
        "error",
        "repository_url is given for a source that does not use it.",
        "Set source to mirror or folder, or leave repository_url out.",
    ),
    "driver_stack_malformed": ProblemCode(
        "error",
        "stack is not what host_stack_info returns.",
        "Register host_stack_info and hand its result over as a whole.",
    ),
    "driver_version_malformed": ProblemCode(
        "error",
        "version is no exact release of the driver.",
        "Give a release, quoted, such as '580.95.05', without the packages' revision.",
    ),
    "driver_version_not_of_branch": ProblemCode(
        "error", "version and branch contradict each other.", "Give one of the two."
    ),
    # The host and its GPUs
    "driver_architecture_unknown": ProblemCode(
        "error", "NVIDIA has no repository for this architecture.", "Install by other means and set source to none."
    ),
    "driver_distribution_unknown": ProblemCode(
        "error",
        "No repository of the driver is known for this distribution.",
        "Install the driver by other means and set source to none.",
    ),
    "driver_distribution_has_none": ProblemCode(
        "error", "The distribution has no driver of its own.", "Set source to vendor, mirror or folder."
    ),
    "driver_no_gpu": ProblemCode(
        "error",
        "No NVIDIA GPU is on the PCI bus, so that no flavour can be chosen.",
        "Check the boards (lspci -d 10de:); for an image state flavour.",
    ),
    "driver_vgpu_guest": ProblemCode(
        "error",
        "The GPUs are slices of vGPU, which neither NVIDIA's repository nor the distributions have a driver for.",
        "Install the guest driver of vGPU and set source to none.",
    ),
    "driver_without_gpu": ProblemCode(
        "warning",
        "A driver is planned for a host without an NVIDIA GPU.",
        "Nothing to do for an image that other machines will boot.",
    ),
    "driver_flavours_exclude": ProblemCode(
        "error",
        "Some GPUs work with the open modules only and others with the proprietary ones only.",
        "Take the GPUs of one kind out of the host, or give them to a virtual machine.",
    ),
    "driver_flavour_unsuitable": ProblemCode(
        "error",
        "The flavour that is asked for does not work with the GPUs of the host.",
        "Set flavour to auto, or to the one that the message names.",
    ),
    "driver_flavour_gone": ProblemCode(
        "error",
        "The branch has open modules only.",
        "Set flavour to auto, or take a branch up to 615.",
    ),
    "driver_gpu_ended": ProblemCode(
        "error",
        "The branch does not serve Maxwell, Pascal and Volta any more.",
        "Set branch to 580, the last that does.",
    ),
    "driver_too_old_for_gpu": ProblemCode(
        "error",
        "The release or branch is older than the first that serves a board of the host.",
        "Take the release that the message names, or a later one.",
    ),
    "driver_board_not_listed": ProblemCode(
        "warning",
        "The list of boards of the open modules has the board from a later release on.",
        "Take that release, unless the data sheet of the board or a running host says that it is served.",
    ),
    # The release
    "driver_branch_unknown": ProblemCode(
        "warning",
        "The branch is none that this collection knows.",
        "Check the release; its packages are taken to be called as those of the newest known branch.",
    ),
    "driver_branch_ended": ProblemCode(
        "warning",
        "The branch gets no more fixes, or is a short one for new features.",
        "Plan the change to a branch that is maintained; the message lists them.",
    ),
    "driver_branch_before_repository": ProblemCode(
        "warning",
        "NVIDIA's network repository for this distribution has later branches only.",
        "Take a later branch, or a mirror or folder with the packages of the one that is asked for.",
    ),
    "driver_release_open": ProblemCode(
        "warning",
        "Only a branch is decided, so that hosts which are installed at different times get different releases.",
        "Set version.",
    ),
    "driver_version_not_offered": ProblemCode(
        "error",
        "The repository does not have the release.",
        "Take one that the message lists, or bring it into the repository.",
    ),
    "driver_downgrade": ProblemCode(
        "error",
        "An older release than the one that is installed is asked for.",
        "Set allow_downgrade to true where that is meant.",
    ),
    "driver_not_there": ProblemCode(
        "error", "No driver is installed, and none is to be installed.", "Set source to vendor, or install one first."
    ),
    # Packages
    "driver_packages_conflict": ProblemCode(
        "error",
        "Packages of another source exclude those of the plan.",
        "Set remove_conflicting to true to have them replaced, or source to where they are from.",
    ),
    "driver_packages_half_installed": ProblemCode(
        "error",
        "dpkg has packages that are neither installed nor removed, and which are not the plan's own.",
        "Run dpkg --configure -a, then apt-get --fix-broken install, and read why they stopped.",
    ),
    "driver_packages_unknown": ProblemCode(
        "error",
        "The installed packages are not known, so that conflicts cannot be seen.",
        "Run host_stack_info with become: true.",
    ),
    "driver_runfile_installed": ProblemCode(
        "error",
        "A driver is there that no package brought: NVIDIA's .run installer, or by hand.",
        "Remove it first (nvidia-uninstall), and reboot where its module is in use.",
    ),
    "driver_unattended_held": ProblemCode(
        "info",
        "Upgrades come in by themselves; the plan holds the driver's packages, so that those stay.",
        "Nothing to do.",
    ),
    "driver_unattended_unclear": ProblemCode(
        "warning",
        "Upgrades come in by themselves, and whether the driver is among them cannot be told.",
        "Set hold to true, then it is not.",
    ),
    "driver_unattended_upgrades": ProblemCode(
        "error",
        "Upgrades come in by themselves and reach the driver, which ends with a version mismatch under a running "
        "server.",
        "Set hold to true, or exclude the driver from these upgrades.",
    ),
    "driver_dkms_of_repository": ProblemCode(
        "info",
        "NVIDIA's packages need a later DKMS than the distribution has; their repository brings it.",
        "See that a mirror holds the package dkms too, and that dkms is not held.",
    ),
    # Kernels and modules
    "driver_headers_not_there": ProblemCode(
        "error",
        "The headers of a kernel that runs or boots next are neither installed nor to be had, so that no module can be "
        "built for it.",
        "Bring them into a repository of the host, or reboot into a kernel whose headers are to be had.",
    ),
    "driver_headers_unchecked": ProblemCode(
        "warning",
        "The headers of a kernel are missing, and whether they can be installed was not looked up.",
        "Give headers_available, so that it is known before anything is touched.",
    ),
    "driver_kernels_unknown": ProblemCode(
        "info",
        "Which kernels need modules is not known, as in a container.",
        "Nothing to do in a container; else run host_stack_info with become: true.",
    ),
    "driver_module_would_be_unsigned": ProblemCode(
        "error",
        "The kernel loads signed modules only, and what DKMS builds would not be signed with a key that it trusts.",
        "Enrol DKMS's certificate as a machine owner key, as the message lists in steps, or take the distribution's "
        "signed modules.",
    ),
    "driver_signature_assumed": ProblemCode(
        "warning",
        "The kernel loads signed modules only, and assume_signed stands for a key that the survey does not see.",
        "Check with mokutil --test-key that the certificate is enrolled.",
    ),
    "driver_nouveau_without_reboot": ProblemCode(
        "error",
        "nouveau holds the GPUs, and the host may not be rebooted.",
        "Set allow_reboot to true, or blacklist nouveau, make the initramfs anew and reboot by yourself.",
    ),
    "driver_gpu_in_use": ProblemCode(
        "error",
        "The loaded driver would change while GPUs are in use: what runs keeps the old module, and new programs fail.",
        "Drain the host and stop what the message names.",
    ),
    "driver_usage_unknown": ProblemCode(
        "warning",
        "Daemons of the driver hold its module, and whether anything else does is not known.",
        "Give topology, which names the processes on the GPUs.",
    ),
    "driver_no_space": ProblemCode(
        "error",
        "A file system has too little room for packages, modules or the new initramfs.",
        "Free what the message names.",
    ),
    "driver_space_unchecked": ProblemCode(
        "info", "Room was not checked, as it was not given.", "Give space, with what is free on / and /boot."
    ),
    # Fabric, MIG, containers
    "driver_fabric_manager_left_out": ProblemCode(
        "warning",
        "NVSwitches are there, and no fabric manager is to be installed.",
        "Set fabric_manager to auto, unless another host or a virtual machine manages them.",
    ),
    "driver_fabric_manager_not_there": ProblemCode(
        "error",
        "The fabric needs a fabric manager or a subnet manager, and the distribution has none.",
        "Set source to vendor, mirror or folder.",
    ),
    "driver_fabric_manager_pointless": ProblemCode(
        "error",
        "A fabric manager is asked for, and there is no NVSwitch on this host to manage.",
        "Set fabric_manager to auto.",
    ),
    "driver_fabric_in_guest": ProblemCode(
        "info",
        "This is a virtual machine with boards whose NVSwitches hide behind an adapter.",
        "See that the adapters are passed through with the GPUs; else the hypervisor manages them: set fabric_manager "
        "to false.",
    ),
    "driver_imex_assumed": ProblemCode(
        "info",
        "The boards belong to NVLink domains of several hosts as a rule, and the driver could not be asked yet.",
        "Set imex to false on a host that stands alone, such as one with four GPUs of NVL4.",
    ),
    "driver_imex_nodes_missing": ProblemCode(
        "warning",
        "IMEX is installed and not told which hosts form its NVLink domain, so that it does not start.",
        "Give imex_nodes, the addresses of all of them in one order, the same on each.",
    ),
    "driver_imex_pointless": ProblemCode(
        "error", "IMEX is asked for, and no GPU reaches those of other hosts.", "Set imex to auto."
    ),
    "driver_mig_gpu": ProblemCode(
        "error",
        "A MIG layout names a GPU that is not there, cannot be divided, or is in use.",
        "Correct the layout as the message says.",
    ),
    "driver_mig_profile": ProblemCode(
        "error", "A MIG layout has profiles that no GPU can have.", "Correct the layout as the message says."
    ),
    "driver_containers_lose_gpus": ProblemCode(
        "error",
        "Packages reload systemd's units when they are installed, which takes the GPUs away from running containers.",
        "Stop these containers first, or give /dev/char its links to the devices and start the containers anew.",
    ),
    "driver_daemon_reload_postponed": ProblemCode(
        "warning",
        "Reloading systemd's units would take the GPUs away from running containers, so it has to wait.",
        "Reload them when the containers have stopped, or give /dev/char its links to the devices.",
    ),
    # Afterwards
    "driver_verify_module": ProblemCode(
        "error",
        "The loaded module is not the one of the plan, or none is loaded.",
        "Load it as the plan's activation says, or reboot; dmesg tells why the kernel refused it.",
    ),
    "driver_verify_next_module": ProblemCode(
        "error",
        "A kernel that runs or boots next has no module of the plan's release, so that the GPUs are gone after a "
        "reboot.",
        "Install its headers and run dkms autoinstall -k with its release; make.log below /var/lib/dkms tells why a "
        "build failed.",
    ),
    "driver_verify_user_space": ProblemCode(
        "error",
        "The driver's libraries are not of the plan's release.",
        "Install the packages in one release; libraries of another installation may be in the way.",
    ),
    "driver_verify_fabric": ProblemCode(
        "error",
        "The fabric manager is not of the plan's release, does not run, or is not enabled.",
        "Install it in exactly the driver's release, and read /var/log/fabricmanager.log.",
    ),
    "driver_verify_fabric_state": ProblemCode(
        "error",
        "A GPU has not joined the NVLink fabric, or has joined with an error: everything looks fine and NVLink is "
        "dead.",
        "Read /var/log/fabricmanager.log; after a restart of the fabric manager reset the GPUs or reboot.",
    ),
    "driver_verify_gpus": ProblemCode(
        "error",
        "The driver does not list all GPUs that are on the bus.",
        "Read dmesg for NVRM and Xid; reseat or replace the board, or reboot.",
    ),
    "driver_verify_packages": ProblemCode(
        "error",
        "Packages of the driver are of other releases than the plan's, missing, or half installed.",
        "Run the plan again; dpkg --configure -a finishes what was interrupted.",
    ),
    "driver_verify_holds": ProblemCode(
        "warning", "Packages that the plan holds are not held.", "Hold them, so that no upgrade comes in by itself."
    ),
    "driver_verify_nouveau": ProblemCode(
        "error",
        "nouveau is loaded, or will be at the next boot.",
        "Make the initramfs anew and reboot.",
    ),
    "driver_verify_signature": ProblemCode(
        "error",
        "A module is there that the kernel will not take, for it is not signed with a key that it trusts.",
        "Enrol the certificate of DKMS as a machine owner key and reboot.",
    ),
    "driver_verify_service": ProblemCode(
        "warning",
        "A service of the driver does not run or is not enabled.",
        "Start and enable it, and read its journal.",
    ),
}


def problem(code: str, message: str) -> Problem:
    """The problem C(code) with the message of the case at hand."""
    return CODES[code].of(code, message)
