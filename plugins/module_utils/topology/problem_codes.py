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
    "nvml_no_answer": ProblemCode(
        "error",
        "NVML did not answer in time: the driver hangs, or it takes long to initialise boards without persistence "
        "mode. What it had not told by then is null.",
        "Look into the kernel log for lines of NVRM and Xid and for tasks that hang; reboot the host when nvidia-smi "
        "hangs as well. Raise nvml_timeout_seconds when it is only slow.",
    ),
    "nvml_crashed": ProblemCode(
        "error",
        "The process that asked NVML was ended by a fault in it, so what it had not told by then is null.",
        "Look whether nvidia-smi ends in the same way; then install the driver anew, in one version throughout.",
    ),
    "nvml_version_differs": ProblemCode(
        "warning",
        "NVML answers, but is of another version than the loaded kernel module.",
        "Finish the driver's update with a reboot; in a container, mount the host's libraries.",
    ),
    "nvml_answer_implausible": ProblemCode(
        "warning",
        "NVML answered what no driver would say: the value is null, or the message names the GPUs that it was said of.",
        "Look whether nvidia-ml-py and the driver fit together: update nvidia-ml-py, and read the kernel log.",
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
    "display_board_not_in_nvml": ProblemCode(
        "info",
        "A display board that no driver holds is on the PCI bus beside the driver's GPUs.",
        "Nothing to do where it drives a screen only; else read the kernel log for why nvidia did not take it.",
    ),
    "gpu_not_on_pci": ProblemCode(
        "warning",
        "The driver lists a GPU that cannot be seen below /sys, so its NUMA node is taken from the driver or unknown.",
        "Make /sys of the host visible where the task runs.",
    ),
    "gpu_address_unknown": ProblemCode(
        "warning",
        "The driver lists a GPU and does not tell its PCI address, so its place in the host is unknown.",
        "Mend what else is said of this GPU; the message names the addresses that are left.",
    ),
    "affinity_disagrees": ProblemCode(
        "info",
        "The driver gives another NUMA node or other CPUs as near to a GPU than the kernel does.",
        "Nothing to do: the kernel's word is used. Do not bind by what nvidia-smi topo -m prints.",
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
        "Install the driver, or add the board to the catalogue of the collection; until then take the indexes of GPUs "
        "for places on the bus, not for the driver's.",
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
    "gpu_is_vgpu": ProblemCode(
        "info",
        "The GPU is a virtual one: a share of a board that other guests may use as well.",
        "Plan by the memory that it shows, and expect others to slow it down.",
    ),
    "gpu_given_to_guests": ProblemCode(
        "warning",
        "The driver of this host gives the GPU to guests, so it cannot be used here.",
        "Install the driver for computing instead of that for virtual GPUs, or serve from a guest.",
    ),
    "gpu_ecc_uncorrected": ProblemCode(
        "warning",
        "Memory errors of the GPU could not be corrected; each ends the processes that use the memory in question.",
        "Reset the GPU so that the rows are remapped; take it out of use when errors come back.",
    ),
    "gpu_remap_pending": ProblemCode(
        "warning",
        "Memory of the GPU is found bad and will be taken out of use at the next reset.",
        "Stop what uses the GPU and reset it, or reboot.",
    ),
    "gpu_remap_failed": ProblemCode(
        "error",
        "Memory of the GPU is bad and there is nothing left to replace it with.",
        "Take the GPU out of use and have the board replaced.",
    ),
    "pcie_width_reduced": ProblemCode(
        "warning",
        "The GPU's PCIe link has lost lanes: it has fewer than GPU and slot have. Width does not drop when idle, so "
        "this is real.",
        "Reseat the board or the riser; else copies to the host take that much longer.",
    ),
    "pcie_slot_slower": ProblemCode(
        "warning",
        "The slot is of an older PCIe generation than the GPU.",
        "Move the board or set the slot's speed in the firmware; else copies to the host take that much longer.",
    ),
    "pcie_slot_narrower": ProblemCode(
        "warning",
        "The slot has fewer PCIe lanes than the GPU.",
        "Move the board to a wider slot (in a guest of a cloud that is how the machine is made); copies to the host "
        "take that much longer.",
    ),
    "pcie_speed_reduced": ProblemCode(
        "warning",
        "The GPU's PCIe link is slower than GPU and slot can be, although the GPU is at work and not saving power.",
        "Reseat the board or the riser, and look into the kernel log for corrected PCIe errors (AER).",
    ),
    "nvlink_down": ProblemCode(
        "warning",
        "Some NVLinks of the GPU are down.",
        "Check the fabric manager's version and log, and the kernel log for NVLink errors; reseat the board.",
    ),
    "nvlink_unused": ProblemCode(
        "info",
        "The GPU has NVLink and no link is up: there is no bridge on it, or nothing at the bridge's other end.",
        "Nothing to do when no bridge was bought; GPUs then reach each other over PCIe.",
    ),
    "fabric_not_ready": ProblemCode(
        "error",
        "The GPU has not joined its NVSwitch fabric: CUDA will not start on it.",
        "Start nvidia-fabricmanager in exactly the driver's version and wait until its state is completed.",
    ),
    "fabric_unhealthy": ProblemCode(
        "warning",
        "The GPU has joined its NVSwitch fabric, but the fabric reports faults or less than its full bandwidth.",
        "Look into the log of nvidia-fabricmanager and of the switches; nvidia-smi -q shows the state in detail.",
    ),
    "fabric_unknown": ProblemCode(
        "info",
        "The host has NVSwitches and the driver does not tell whether the GPU has joined their fabric.",
        "See that nvidia-fabricmanager runs in exactly the driver's version; update driver or nvidia-ml-py to be told.",
    ),
    "link_level_disagrees": ProblemCode(
        "info",
        "The driver names another level between GPUs than the PCI tree of the kernel shows; its word is reported. "
        "Releases 535.129 to 550.54 say SYS of GPUs at different host bridges of one NUMA node, which is NODE.",
        "Nothing to do with these releases; else compare nvidia-smi topo -m with lspci -tv.",
    ),
    "acs_redirects_peers": ProblemCode(
        "warning",
        "Access control (ACS) is on in PCIe switches: traffic between GPUs below one switch goes up to the host and "
        "back, at a fraction of the speed, or does not arrive.",
        "Switch ACS off in the firmware, or clear the bits at each boot (setpci, or pci=disable_acs_redir= on the "
        "kernel command line), unless guests need the isolation.",
    ),
    "acs_redirects_ports": ProblemCode(
        "info",
        "Access control (ACS) is on in PCIe switches above GPUs; no two GPUs share one of these, but a network adapter "
        "may: GPUDirect RDMA between them then goes through the host.",
        "Nothing to do for a server on one host; else switch ACS off in the firmware.",
    ),
    "acs_unknown": ProblemCode(
        "warning",
        "Whether access control (ACS) sends traffic between GPUs below one PCIe switch up to the host is unknown, as "
        "the configuration space of the switch's ports could not be read beyond its beginning.",
        "Run the task with become: the kernel shows all of it to root only. Below another root than /, record "
        "the files config of the ports as root.",
    ),
    "acs_ports_unknown": ProblemCode(
        "info",
        "Whether access control (ACS) is on in PCIe switches above GPUs is unknown, as the configuration space of "
        "their ports could not be read beyond its beginning; no copies between GPUs depend on it, but GPUDirect RDMA "
        "may.",
        "Run the task with become when the answer is needed: the kernel shows all of it to root only.",
    ),
    "iommu_translates": ProblemCode(
        "warning",
        "The IOMMU translates addresses on bare metal: GPUs without NVLink cannot copy directly to each other.",
        "Boot with iommu=pt, or switch the IOMMU off, unless guests need it.",
    ),
    "p2p_doubtful": ProblemCode(
        "warning",
        "The driver allows peer access over PCIe, which is no proof: with ACS or a translating IOMMU on the way, "
        "copies may be slow, hang or leave the target unchanged.",
        "Remove the cause, or prove a copy (p2pBandwidthLatencyTest of the CUDA samples) before relying on it; "
        "NCCL_P2P_DISABLE=1 does without.",
    ),
    "gpu_memory_as_numa_node": ProblemCode(
        "info",
        "The memory of GPUs forms NUMA nodes, which the kernel counts as the host's; host pools do not belong there.",
        "Bind to nodes with CPUs and plan host pools by what these have, not by MemAvailable.",
    ),
    "memory_without_cpus": ProblemCode(
        "info",
        "Memory of expanders (CXL), of persistent or on-package kind forms NUMA nodes without CPUs: it is slower or "
        "smaller than the rest.",
        "Nothing to do; bind to nodes with CPUs, or to these knowingly.",
    ),
    "gpu_numa_absent": ProblemCode(
        "warning",
        "The firmware places a GPU on a NUMA node that is not there or offline, so it is taken as unknown.",
        "Bring the node online, or mend the firmware's tables; until then state the placement in the inventory.",
    ),
    "gpu_node_without_memory": ProblemCode(
        "warning",
        "GPUs are on a NUMA node without memory: a server that is bound to it strictly finds none.",
        "Populate the memory slots of that node, or bind by CPUs only and let memory come from the nearest node.",
    ),
    "gpu_node_without_cpus": ProblemCode(
        "warning",
        "GPUs are on a NUMA node without CPUs: a server cannot be bound to the CPUs of its GPU's node.",
        "Bring CPUs of the node online, or bind to the nearest node that has some (see its distances).",
    ),
    "gpu_nodes_uneven": ProblemCode(
        "info",
        "The NUMA nodes of the GPUs are of different size: bound ranks have pools of the same size, which the smallest "
        "node limits.",
        "Size host pools by the smallest node, or even out the memory modules.",
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
    "cgroup_cpus_limited": ProblemCode(
        "info",
        "A cpuset leaves only some of the CPUs to services.",
        "Plan by these, or widen AllowedCPUs of the service's slice.",
    ),
    "cgroup_cpu_quota": ProblemCode(
        "warning",
        "A quota of a control group stops services for the rest of each period when they have used their CPU time up; "
        "a server then stalls at random.",
        "Remove CPUQuota from the service's slice, or raise it.",
    ),
    "cgroup_memory_nodes_limited": ProblemCode(
        "info",
        "A cpuset leaves the memory of only some NUMA nodes to services; binding to another one fails.",
        "Plan by these, or widen AllowedMemoryNodes of the service's slice.",
    ),
    "cgroup_bars_gpu_node": ProblemCode(
        "warning",
        "A cpuset keeps services from the CPUs or the memory of a node that GPUs are on.",
        "Use GPUs on the nodes that are left, or widen the cpuset.",
    ),
    "cpus_without_node": ProblemCode(
        "warning",
        "CPUs are online whose NUMA node is not, so no binding by nodes reaches them.",
        "Bring their node online (its memory is off as well), or leave them unused.",
    ),
    "numa_nodes_offline": ProblemCode(
        "info",
        "Some NUMA nodes are offline with their memory and CPUs.",
        "Nothing to do when that is meant.",
    ),
    "cpus_isolated": ProblemCode(
        "info",
        "The kernel schedules nothing on some CPUs by itself (isolcpus, or an isolated cpuset): a service that is not "
        "bound runs beside them, while one that is bound to the CPUs of a NUMA node has them in its set and does not "
        "get its threads balanced onto them.",
        "Take isolcpus off the kernel command line, or count these CPUs out.",
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
