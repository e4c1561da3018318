# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every problem that the survey of a machine can state: code, severity, what it means, what to do about it.

One table for the code and for the documentation, so that no code exists without its remedy.
"""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, ProblemCode

CODES: dict[str, ProblemCode] = {
    "no_gpu": ProblemCode(
        "info",
        "No NVIDIA GPU was found, neither on the PCI bus nor by the driver.",
        "Nothing to do on a host without GPUs; else check that the boards are seated, powered and passed through.",
    ),
    "nvml_not_consulted": ProblemCode(
        "info",
        "NVML was left out, by request or because the facts are read below another root than /.",
        "Give nvml_library to have the NVML that belongs to that root, or leave it: PCI facts are used.",
    ),
    "nvml_library_not_found": ProblemCode(
        "warning",
        "GPUs are on the PCI bus, but there is no libnvidia-ml.so.1: no driver is installed, or only part of it.",
        "Install the NVIDIA driver; until then sizes come from the catalogue of boards.",
    ),
    "nvml_binding_missing": ProblemCode(
        "warning",
        "The driver's NVML is there, but no Python interpreter that was tried has nvidia-ml-py (pynvml).",
        "Install nvidia-ml-py for one of the interpreters and name that one in python_candidates.",
    ),
    "nvml_driver_not_loaded": ProblemCode(
        "error",
        "NVML says that the kernel module of the driver is not loaded.",
        "Load it (modprobe nvidia) and look into the kernel log when that fails: Secure Boot, a missing build for this "
        "kernel, or a board that the driver does not support.",
    ),
    "nvml_version_mismatch": ProblemCode(
        "error",
        "The loaded kernel module and the user space of the driver are of different versions.",
        "Reboot the host, or unload and load the kernel module, after the driver's update.",
    ),
    "nvml_no_permission": ProblemCode(
        "error",
        "The user of this task may not talk to the driver.",
        "Run the task with become, or give the user access to /dev/nvidiactl and /dev/nvidia*.",
    ),
    "nvml_unusable": ProblemCode(
        "error",
        "NVML could not be started for another reason, given in the message.",
        "Look into the kernel log for lines of NVRM and Xid; then reload the driver or reboot.",
    ),
    "nvml_call_failed": ProblemCode(
        "warning",
        "One function of NVML failed, so its value is null.",
        "Look into the kernel log for lines of NVRM and Xid of that GPU; a reset of the GPU often helps.",
    ),
    "nvml_function_missing": ProblemCode(
        "info",
        "The driver's NVML or nvidia-ml-py is too old to know a function, so its value is null.",
        "Update the driver or nvidia-ml-py when the value is needed.",
    ),
    "nvml_not_supported": ProblemCode(
        "info",
        "The driver does not tell a value that boards usually have, so it is null; usual in virtual machines.",
        "Nothing to do when the value is not needed.",
    ),
    "gpu_lost": ProblemCode(
        "error",
        "The driver has lost the GPU: it fell off the bus or hangs.",
        "Take the host out of rotation, read the Xid in the kernel log and power-cycle the host; replace the board "
        "when it happens again.",
    ),
    "gpu_reset_required": ProblemCode(
        "error",
        "The driver wants the GPU to be reset before it is used again.",
        "Stop everything that uses the GPU, then reset it (nvidia-smi --gpu-reset) or reboot.",
    ),
    "gpu_not_in_nvml": ProblemCode(
        "error",
        "A GPU is on the PCI bus and the driver does not list it.",
        "The message names the kernel driver that holds it: bind nvidia, or read the kernel log for why that failed.",
    ),
    "gpu_not_on_pci": ProblemCode(
        "warning",
        "The driver lists a GPU that cannot be seen below /sys, so its NUMA node is taken from the driver or unknown.",
        "Make /sys of the host visible where the task runs.",
    ),
    "gpu_foreign_driver": ProblemCode(
        "warning",
        "Another kernel driver than nvidia holds the GPU.",
        "Unbind it (vfio-pci: the GPU is meant for a guest; nouveau: blacklist it) and bind nvidia.",
    ),
    "gpu_memory_from_catalogue": ProblemCode(
        "info",
        "The driver could not be asked, so name, memory and compute capability are those usual for the board.",
        "Good enough to plan; install the driver to measure.",
    ),
    "gpu_board_unknown": ProblemCode(
        "warning",
        "The driver could not be asked and the catalogue does not hold the board, so its memory is unknown.",
        "Install the driver, or add the board to the catalogue of the collection.",
    ),
    "gpu_numa_unknown": ProblemCode(
        "warning",
        "The kernel does not know on which NUMA node the GPU is (numa_node -1), on a host with several.",
        "Give the guest a virtual NUMA topology with the GPUs on their nodes, or mend the firmware's proximity tables; "
        "until then state the placement in the inventory.",
    ),
    "gpus_on_one_numa_node": ProblemCode(
        "info",
        "All GPUs are on one NUMA node of several: bound to it, only its memory serves their host caches.",
        "Size host pools by that node's memory, or switch NUMA binding off and accept remote memory.",
    ),
    "gpus_differ": ProblemCode(
        "warning",
        "The GPUs are not all the same; a server that spans them is sized by the smallest.",
        "Give each instance GPUs of one kind.",
    ),
    "gpu_mig_enabled": ProblemCode(
        "warning",
        "MIG is on: the GPU is divided and cannot be used as a whole.",
        "Switch MIG off (nvidia-smi -mig 0) and reset the GPU, or leave it out.",
    ),
    "gpu_mode_pending": ProblemCode(
        "info",
        "A change of ECC or MIG waits for the next reset of the GPU.",
        "Reset the GPU or reboot; ECC changes the memory that is left.",
    ),
    "gpu_compute_mode": ProblemCode(
        "warning",
        "The compute mode forbids compute processes or more than one of them.",
        "Set it to default (nvidia-smi -c 0).",
    ),
    "gpu_persistence_off": ProblemCode(
        "info",
        "Persistence mode is off: the driver initialises the GPU anew for each first process, which takes seconds.",
        "Enable nvidia-persistenced.",
    ),
    "gpu_busy": ProblemCode(
        "info",
        "Processes use the GPU already; what they hold is not free for a new server.",
        "Plan with what is free, or stop them.",
    ),
    "pcie_width_reduced": ProblemCode(
        "warning",
        "The GPU's PCIe link has fewer lanes than the GPU; width does not drop when idle, so this is real.",
        "Reseat the board or the riser; or the slot has no more lanes, and copies to the host take that much longer.",
    ),
    "pcie_slot_slower": ProblemCode(
        "warning",
        "The slot is of an older PCIe generation than the GPU.",
        "Move the board or set the slot's speed in the firmware; else copies to the host take that much longer.",
    ),
    "nvlink_down": ProblemCode(
        "warning",
        "Some NVLinks of the GPU are down.",
        "Check the fabric manager's version and log, and the kernel log for NVLink errors; reseat the board.",
    ),
    "fabric_not_ready": ProblemCode(
        "error",
        "The GPU has not joined its NVSwitch fabric: CUDA will not start on it.",
        "Start nvidia-fabricmanager in exactly the driver's version and wait until its state is completed.",
    ),
    "iommu_translates": ProblemCode(
        "warning",
        "The IOMMU translates addresses on bare metal: GPUs without NVLink cannot copy directly to each other.",
        "Boot with iommu=pt, or switch the IOMMU off, unless guests need it.",
    ),
    "gpu_memory_as_numa_node": ProblemCode(
        "info",
        "NUMA nodes without CPUs exist (the memory of GPUs or expanders); they are no place for host pools.",
        "Nothing to do; bind to nodes with CPUs.",
    ),
    "numa_not_reported": ProblemCode(
        "warning",
        "The kernel reports no NUMA nodes below /sys/devices/system/node.",
        "Make /sys of the host visible where the task runs; without it no memory per node can be planned.",
    ),
    "memory_not_reported": ProblemCode(
        "warning",
        "The host's memory could not be read from /proc/meminfo.",
        "Make /proc of the host visible where the task runs.",
    ),
    "hugepages_reserved": ProblemCode(
        "info",
        "Huge pages are reserved; that memory is not available to anything which does not ask for them.",
        "Release them (vm.nr_hugepages=0) when nothing uses them.",
    ),
    "cgroup_memory_limited": ProblemCode(
        "info",
        "A memory limit of a control group is smaller than the host's memory.",
        "Plan by the limit, or raise it for the service's slice.",
    ),
    "cpus_offline": ProblemCode(
        "info",
        "Some CPUs are offline.",
        "Nothing to do when that is meant.",
    ),
}


def problem(code: str, message: str) -> Problem:
    """The problem C(code) with the message of the case at hand."""
    return CODES[code].of(code, message)
