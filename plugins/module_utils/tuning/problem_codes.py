# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Everything that tuning a node can state or refuse: code, severity, meaning, remedy."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import ProblemCode

CODES: dict[str, ProblemCode] = {
    "acs_isolation_in_use": ProblemCode(
        "error",
        "PCIe ACS is to be cleared while devices are passed through, whose isolation it is.",
        "Free these devices first, or leave node_tuning_clear_acs out.",
    ),
    "acs_not_seen": ProblemCode(
        "error",
        "The configuration space of the PCIe ports above the GPUs cannot be read.",
        "Run the role with become, on the machine itself.",
    ),
    "governor_missing": ProblemCode(
        "error",
        "The frequency governor that is asked for is not offered.",
        "Choose one of those that the message lists, or null.",
    ),
    "governor_not_here": ProblemCode(
        "info",
        "There is no frequency governor to be set: a virtual machine, or the firmware governs.",
        "Set the power profile in the firmware, or on the virtual machine's host.",
    ),
    "hugepages_amount": ProblemCode(
        "error",
        "Huge pages are asked for with neither or both of pages and bytes, or with a negative number.",
        "Give one of the two, not negative.",
    ),
    "hugepages_no_room": ProblemCode(
        "error",
        "Reserving the huge pages would leave too little memory available.",
        "Stop what holds the memory, or reserve at most what the message says.",
    ),
    "hugepages_node_missing": ProblemCode(
        "error",
        "Huge pages are asked for on a NUMA node that has no memory or is not there.",
        "Name one of the nodes that the message lists.",
    ),
    "hugepages_node_unknown": ProblemCode(
        "error",
        "A plan does not say on which NUMA node its pools lie.",
        "Give the huge pages with a NUMA node each.",
    ),
    "hugepages_short_now": ProblemCode(
        "error",
        "Fewer huge pages could be reserved than asked for, as memory is fragmented.",
        "Reboot the node: the pages are reserved early then.",
    ),
    "hugepages_size_missing": ProblemCode(
        "error",
        "The node offers no huge pages of this size.",
        "Use the other size.",
    ),
    "hugepages_too_many": ProblemCode(
        "error",
        "The huge pages would take a NUMA node's share of what is to be left for everything else.",
        "Reserve at most what the message says, or lower node_tuning_leave_bytes.",
    ),
    "kernel_argument_conflict": ProblemCode(
        "error",
        "Somebody else gave the kernel an argument that contradicts the one that is asked for.",
        "Take it out of the file that the message names, or do not ask for the other.",
    ),
    "kernel_argument_twice": ProblemCode(
        "error",
        "Two arguments are asked for that contradict each other.",
        "Ask for one of the two.",
    ),
    "kernel_argument_wrong": ProblemCode(
        "error",
        "The text is no argument that can be given to the kernel, or one that decides where the machine boots from.",
        "Give name or name=value.",
    ),
    "kernel_arguments_not_in_menu": ProblemCode(
        "error",
        "GRUB's menu was written anew, and the entry that boots next does not have the arguments.",
        "See which other file sets the command line, or whether the entry is written by hand.",
    ),
    "kernel_arguments_not_taken": ProblemCode(
        "error",
        "The node was booted since, and its kernel was not given the arguments.",
        "Find out which loader and entry boot it; the message names the loader whose files were changed.",
    ),
    "kernel_loader_unknown": ProblemCode(
        "error",
        "No file of a boot loader that is known was found.",
        "Give the kernel its arguments by hand, or on the machine that boots this one.",
    ),
    "kernel_menu_failed": ProblemCode(
        "error",
        "The command that writes GRUB's menu failed.",
        "Correct what it says, then run the role again.",
    ),
    "kernel_menu_tool_missing": ProblemCode(
        "error",
        "GRUB's settings are there, and no command that makes its menu of them.",
        "Install the package that has it.",
    ),
    "kernel_unified_image": ProblemCode(
        "error",
        "The kernel boots from a unified image, which has its command line inside.",
        "Add the arguments to /etc/kernel/cmdline and have the image built anew.",
    ),
    "limit_wrong": ProblemCode(
        "error",
        "The limit of a unit is none that systemd takes.",
        "Give infinity or a number.",
    ),
    "limits_of_no_unit": ProblemCode(
        "error",
        "Limits are asked for of something that is no service.",
        "Name a service; limits of everything are not set.",
    ),
    "setpci_missing": ProblemCode(
        "error",
        "PCIe ACS is to be cleared, and the program that does so at each boot is not installed.",
        "Install the package pciutils.",
    ),
    "shm_missing": ProblemCode(
        "error",
        "The size of /dev/shm is asked for, and it is not mounted as a tmpfs.",
        "Leave it out; in a container it is the container's own setting.",
    ),
    "shm_too_large": ProblemCode(
        "error",
        "The size of /dev/shm would not leave memory for the rest of the host.",
        "Take at most what the message says.",
    ),
    "shm_too_small": ProblemCode(
        "error",
        "More of /dev/shm is in use than it shall have.",
        "Take at least what the message says, or remove what no process has open.",
    ),
    "swap_does_not_fit": ProblemCode(
        "error",
        "Swap is to be switched off, and what is swapped out does not fit into memory.",
        "Stop what was swapped out, or leave swap on.",
    ),
    "sysctl_left_to_person": ProblemCode(
        "warning",
        "A file below /etc sets a kernel setting otherwise than the role would, so that it is left alone.",
        "Take that line out to have it set.",
    ),
    "sysctl_missing": ProblemCode(
        "error",
        "A kernel setting is asked for that this kernel does not have.",
        "Correct the name, or load the module that brings it.",
    ),
    "sysctl_name_wrong": ProblemCode(
        "error",
        "The name is none of a kernel setting.",
        "Give names such as vm.swappiness.",
    ),
    "sysctl_not_here": ProblemCode(
        "error",
        "The kernel setting has an option of its own.",
        "Use the option that the message names.",
    ),
    "sysctl_set_elsewhere": ProblemCode(
        "error",
        "A file below /etc sets the kernel setting to another value than is asked for.",
        "Take that line out, or do not ask for it.",
    ),
    "sysctl_value_wrong": ProblemCode(
        "error",
        "The value of a kernel setting is empty or of several lines.",
        "Give one line, or null to leave the setting alone.",
    ),
    "thp_mode_missing": ProblemCode(
        "error",
        "The kernel does not have the mode of transparent huge pages that is asked for.",
        "Choose one of those that the message lists.",
    ),
    "tuned_active": ProblemCode(
        "warning",
        "TuneD sets some of the same values.",
        "Run the role again after a change of its profile, or switch TuneD off.",
    ),
    "tuning_changed_since": ProblemCode(
        "warning",
        "A value was changed by somebody else since, and is given back what it was before the role.",
        "Set it anew where the value in between was meant.",
    ),
    "tuning_command_failed": ProblemCode(
        "error",
        "A command of the node failed.",
        "Correct what it says, then run the role again.",
    ),
    "tuning_file_changed": ProblemCode(
        "error",
        "Somebody changed the very lines of a file that the role wrote, so that they cannot be taken out.",
        "Take them out by hand, or put the former content back, then restore again.",
    ),
    "tuning_in_progress": ProblemCode(
        "error",
        "Another run is tuning the node.",
        "Wait for it.",
    ),
    "tuning_no_file": ProblemCode(
        "error",
        "Something else than a file lies where a file is to be written.",
        "Move it out of the way.",
    ),
    "tuning_no_link": ProblemCode(
        "error",
        "Something else than a link lies where a link is to be made.",
        "Move it out of the way.",
    ),
    "tuning_path_circle": ProblemCode(
        "error",
        "A path leads through links in a circle.",
        "Correct these links.",
    ),
    "tuning_record_broken": ProblemCode(
        "error",
        "The record of what was in force before cannot be read.",
        "Take it from a backup; or remove it when nothing is to be given back.",
    ),
    "tuning_record_version": ProblemCode(
        "error",
        "The record was written by another release of the collection.",
        "Restore with that release, then tune anew.",
    ),
    "tuning_size_small": ProblemCode(
        "error",
        "A size of less than a MiB is asked for.",
        "Give bytes.",
    ),
    "tuning_value_gone": ProblemCode(
        "info",
        "What was changed is not there any more, so that nothing is given back to it.",
        "Nothing to do where what it belonged to is gone.",
    ),
    "tuning_value_not_taken": ProblemCode(
        "error",
        "The kernel shows another value than was written.",
        "See what else sets it, or leave it alone.",
    ),
    "tuning_write_failed": ProblemCode(
        "error",
        "Something could not be written.",
        "See why, then run the role again.",
    ),
}
