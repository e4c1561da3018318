#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_topology_info
version_added: 0.1.0
short_description: Survey the GPUs, NUMA nodes and memory of a host
description:
  - Tells which NVIDIA GPUs a host has, how much memory they have and use, on which NUMA node each one is, how they
    reach one another, and how much host memory there is on each NUMA node.
  - Asks the NVIDIA driver through NVML where that is to be had, and takes places (NUMA nodes, CPU lists, bridges) from
    the kernel. Without a driver the GPUs are found on the PCI bus, and their names and sizes come from a catalogue of
    boards, so that a host can be planned before it is provisioned.
  - No failure of a single question ends the survey. The value is null then, and RV(problems) says why and what to do.
  - Can read the facts of another machine from a folder that holds its C(sys) and C(proc).
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    platforms: linux
options:
  root:
    description:
      - Folder that C(sys) and C(proc) are read below.
      - With another root than V(/) the NVML of this system is left out, because it speaks of another machine, unless
        O(nvml_library) is given.
    type: path
    default: /
  nvml:
    description: Whether the driver is asked at all. V(false) shows what can be known without one.
    type: bool
    default: true
  nvml_library:
    description:
      - Path of the NVML library to use.
      - The default is the C(libnvidia-ml.so.1) that the system's loader finds.
    type: path
  python_candidates:
    description:
      - Python interpreters that may have C(nvidia-ml-py). When the interpreter that runs this module lacks it and an
        NVML library is there, the module runs again under the first of these that has it.
      - Paths that do not exist are passed over.
    type: list
    elements: path
    default: []
requirements:
  - nvidia-ml-py (for what only the driver knows; the interpreter that runs the module or one of O(python_candidates))
notes:
  - An idle GPU lowers the generation of its PCIe link. RV(gpus[].pcie.generation) below RV(gpus[].pcie.generation_max)
    is therefore no fault; fewer lanes than the board has are one.
  - Sizes are bytes. The driver's and the kernel's MiB and kB are converted without rounding.
seealso:
  - name: NVML API reference
    description: What the driver can be asked.
    link: https://docs.nvidia.com/deploy/nvml-api/
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Survey the host
  gpufleet.sglang.gpu_topology_info:
    python_candidates:
      - /opt/sglang/0.5.23/bin/python
  register: topology

- name: Stop where something is wrong with the driver or a GPU
  ansible.builtin.assert:
    that: errors | length == 0
    fail_msg: "{{ errors | map(attribute='message') | join(' ') }}"
  vars:
    errors: "{{ topology.problems | selectattr('severity', 'equalto', 'error') | list }}"

- name: See what a host holds before it has a driver
  gpufleet.sglang.gpu_topology_info:
    nvml: false

- name: Survey a recorded machine
  gpufleet.sglang.gpu_topology_info:
    root: /srv/recordings/gpu-host-7
    nvml_library: /srv/recordings/gpu-host-7/lib/libnvidia-ml.so.1
"""

RETURN = r"""
gpus:
  description:
    - The GPUs in the order of their indexes; empty where there is none.
    - With RV(driver.source=nvml) these are the driver's GPUs, else those on the PCI bus in the order of the bus.
  returned: always
  type: list
  elements: dict
  contains:
    index:
      description: Index that C(nvidia-smi) and CUDA (with C(CUDA_DEVICE_ORDER=PCI_BUS_ID)) use.
      type: int
      sample: 0
    uuid:
      description: The driver's name for the GPU.
      type: str
      sample: GPU-db3b077d-2399-57db-8e33-ab9c932b13d9
    name:
      description: Name of the board, from the driver or from the catalogue.
      type: str
      sample: NVIDIA RTX PRO 6000 Blackwell Server Edition
    pci_address:
      description: Domain, bus, device and function. The domain can have more than four digits.
      type: str
      sample: "0000:06:00.0"
    pci_device_id:
      description: PCI vendor and device.
      type: str
      sample: 10de:2bb5
    minor:
      description: Number of C(/dev/nvidiaN). It need not be the index.
      type: int
      sample: 2
    kernel_driver:
      description: Kernel driver that holds the GPU.
      type: str
      sample: nvidia
    memory_total_bytes:
      description: All memory of the GPU.
      type: int
      sample: 102641958912
    memory_reserved_bytes:
      description: What the driver keeps for itself.
      type: int
      sample: 666894336
    memory_used_bytes:
      description: >-
        What is in use, without what is reserved. A driver which does not tell RV(gpus[].memory_reserved_bytes) counts
        that in here.
      type: int
      sample: 0
    memory_free_bytes:
      description: What is free.
      type: int
      sample: 101975064576
    memory_source:
      description: V(nvml) when the driver told the size, V(catalogue) when it is the one usual for the board.
      type: str
      sample: nvml
    compute_capability:
      description: Compute capability.
      type: str
      sample: "12.0"
    architecture:
      description: Name of the GPU's generation.
      type: str
      sample: blackwell
    numa_node:
      description: NUMA node of the host that the GPU is on, from the kernel; null where the kernel does not know.
      type: int
      sample: 0
    cpu_list:
      description: CPUs near the GPU, from the kernel.
      type: str
      sample: 0-63,128-191
    gpu_numa_id:
      description: >-
        NUMA node that the GPU's own memory forms on coherent systems (Grace). Never a place for host memory.
      type: int
      sample: null
    pcie:
      description: The PCIe link, what the board can and what holds now.
      type: dict
      contains:
        generation_max:
          description: PCIe generation of the board.
          type: int
          sample: 5
        width_max:
          description: Lanes of the board.
          type: int
          sample: 16
        generation:
          description: Generation that the link runs at now; lower while the GPU is idle.
          type: int
          sample: 1
        width:
          description: Lanes that the link uses.
          type: int
          sample: 16
    mig:
      description: Whether MIG is on and will be on after the next reset; null for boards without it.
      type: dict
      sample: {enabled: false, pending: false}
    ecc:
      description: Whether ECC is on and will be on after the next reset; null for boards without it.
      type: dict
      sample: {enabled: true, pending: true}
    persistence:
      description: Whether persistence mode is on.
      type: bool
      sample: true
    compute_mode:
      description: V(default), V(prohibited), V(exclusive_process) or V(exclusive_thread).
      type: str
      sample: default
    nvlinks:
      description: How many NVLinks the GPU has wired and how many are up; null for boards without NVLink.
      type: dict
      sample: null
    fabric:
      description: >-
        Membership of an NVSwitch fabric with RV(ignore:state) (V(not_started), V(in_progress), V(completed)),
        RV(ignore:status), RV(ignore:clique_id) and RV(ignore:cluster_uuid); null for boards that need none.
      type: dict
      sample: null
    processes:
      description: Compute processes on the GPU, each with RV(ignore:pid) and RV(ignore:memory_used_bytes).
      type: list
      elements: dict
      sample: []
numa_nodes:
  description: NUMA nodes that are online, by id. The ids may have gaps.
  returned: always
  type: list
  elements: dict
  contains:
    id:
      description: Number of the node.
      type: int
      sample: 1
    cpus:
      description: CPUs of the node that are online.
      type: str
      sample: 64-127,192-238,240-255
    has_cpus:
      description: Whether the node has any; memory of GPUs and expanders forms nodes without.
      type: bool
      sample: true
    memory_total_bytes:
      description: Memory of the node.
      type: int
      sample: 811629281280
    memory_free_bytes:
      description: Memory that nothing uses.
      type: int
      sample: 189440000000
    memory_available_bytes:
      description: >-
        The node's share of the host's available memory. The kernel counts that for the whole host only; the share is
        by what the node has free or can free (page cache, reclaimable slabs).
      type: int
      sample: 198000000000
    hugepages:
      description: Huge pages by size.
      type: list
      elements: dict
      sample:
        - {size_bytes: 2097152, total: 0, free: 0}
        - {size_bytes: 1073741824, total: 0, free: 0}
    distances:
      description: Distance to each node, in the order of RV(numa_nodes).
      type: list
      elements: int
      sample: [32, 10]
    gpus:
      description: Indexes of the GPUs on the node.
      type: list
      elements: int
      sample: [4, 5, 6, 7]
gpu_links:
  description:
    - One row a GPU and in it one entry a GPU, in the order of RV(gpus).
    - The C(level) is V(SELF), C(NV) and the number of NVLinks that join the two, V(PIX) (one PCIe switch), V(PXB)
      (several), V(PHB) (the host bridge), V(NODE) (one NUMA node) or V(SYS) (several).
    - The C(p2p) is V(ok) when the driver lets the two read each other's memory, else why not.
  returned: always
  type: list
  elements: list
  sample:
    - - {level: SELF, p2p: null}
      - {level: PIX, p2p: ok}
    - - {level: PIX, p2p: ok}
      - {level: SELF, p2p: null}
host:
  description: The host itself.
  returned: always
  type: dict
  contains:
    memory_total_bytes:
      description: Memory that the kernel manages.
      type: int
      sample: 1622887366656
    memory_available_bytes:
      description: Memory that new processes can have without swapping (MemAvailable).
      type: int
      sample: 396000000000
    memory_free_bytes:
      description: Memory that nothing uses.
      type: int
      sample: 378880000000
    hugepages_total_bytes:
      description: Memory in huge pages; it is not available.
      type: int
      sample: 0
    cgroup_limit_bytes:
      description: Smallest memory limit of a control group that a system service would live under.
      type: int
      sample: null
    cpus:
      description: CPUs that are online.
      type: str
      sample: 0-238,240-255
    cpus_offline:
      description: CPUs that are present and not online.
      type: str
      sample: "239"
    cpu_model:
      description: Name of the processor.
      type: str
      sample: AMD EPYC 9575F 64-Core Processor
    kernel:
      description: Release of the kernel.
      type: str
      sample: 6.17.0-20-generic
    product:
      description: Name of the machine in its firmware.
      type: str
      sample: 8 x RTX PRO 6000 rehearsal
    virtualization:
      description: V(none) on bare metal, V(kvm), V(vmware), V(hyperv), V(xen), V(virtualbox) or V(other).
      type: str
      sample: none
    iommu:
      description: V(off), V(passthrough) (the host's drivers use addresses as they are) or V(on) (they are translated).
      type: str
      sample: "off"
    nvswitches:
      description: Number of NVSwitches on the PCI bus.
      type: int
      sample: 0
driver:
  description: The NVIDIA driver.
  returned: always
  type: dict
  contains:
    version:
      description: Version of the driver, from NVML or else of the loaded kernel module.
      type: str
      sample: 595.58.03
    nvml_version:
      description: Version of NVML.
      type: str
      sample: 13.595.58.03
    cuda_version:
      description: Newest CUDA version that the driver supports.
      type: str
      sample: "13.2"
    source:
      description: V(nvml) when the driver answered, V(pci) when GPUs were found on the bus only, V(none) without any.
      type: str
      sample: nvml
problems:
  description: What is wrong or worth knowing, and why a value is null.
  returned: always
  type: list
  elements: dict
  contains:
    code:
      description: Fixed name of the problem.
      type: str
      sample: cpus_offline
    severity:
      description: V(info), V(warning) or V(error).
      type: str
      sample: info
    message:
      description: The case at hand.
      type: str
      sample: "Offline CPUs: 239."
    remedy:
      description: What to do.
      type: str
      sample: Nothing to do when that is meant.
"""

from ctypes import CDLL, RTLD_GLOBAL
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.respawn import has_respawned, probe_interpreters_for_module, respawn_module

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.host import read_driver_version, read_host
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.numa import read_numa_nodes
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml import NvmlReading, read_nvml
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.pci import read_pci_gpus
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.problem_codes import problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.survey import survey

NVML_SONAME = "libnvidia-ml.so.1"


def load_library(path: str | None) -> str | None:
    """Load NVML into this process; None when that went well, else why not.

    nvidia-ml-py opens the library by its SONAME, and the loader then gives it the one that is loaded already: so a
    library in any place can be used without touching the environment.
    """
    try:
        CDLL(path or NVML_SONAME, mode=RTLD_GLOBAL)
    except OSError as error:
        return str(error)
    return None


def import_binding(candidates: list[str]) -> Any:
    """The module pynvml, or None. Does not return where another interpreter has it: the module runs again there."""
    try:
        import pynvml
    except ImportError:
        if not has_respawned():
            interpreter = probe_interpreters_for_module(candidates, "pynvml")
            if interpreter:
                respawn_module(interpreter)
        return None
    return pynvml


def ask_driver(params: dict[str, Any], gpus_on_bus: int) -> tuple[NvmlReading | None, list[Problem]]:
    """What NVML says, or why it was not asked."""
    library = params["nvml_library"]
    if not params["nvml"]:
        return None, [problem("nvml_not_consulted", "NVML was left out by request.")]
    if library is None and Path(params["root"]).resolve() != Path("/"):
        why = f"The facts are read below {params['root']}, and the NVML of this system speaks of another machine."
        return None, [problem("nvml_not_consulted", why)]
    trouble = load_library(library)
    if trouble is not None:
        # Without a GPU there is no reason to have a driver.
        expected = gpus_on_bus > 0 or library is not None
        return None, [problem("nvml_library_not_found", f"{trouble}.")] if expected else []
    pynvml = import_binding(params["python_candidates"])
    if pynvml is None:
        tried = ", ".join(params["python_candidates"]) or "no other"
        why = f"The interpreter of this module has no nvidia-ml-py; {tried} was tried beside it."
        return None, [problem("nvml_binding_missing", why)]
    return read_nvml(pynvml), []


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "default": "/"},
            "nvml": {"type": "bool", "default": True},
            "nvml_library": {"type": "path"},
            "python_candidates": {"type": "list", "elements": "path", "default": []},
        },
        supports_check_mode=True,
    )
    root = Path(module.params["root"])
    if not root.is_dir():
        refusal = Refusal(
            "root_missing",
            f"root is {root}, which is no folder here.",
            "Name the folder that holds sys and proc; / is this machine.",
        )
        module.fail_json(msg=str(refusal), failure=refusal.as_dict())
    pci_gpus = read_pci_gpus(root)
    nvml, beforehand = ask_driver(module.params, len(pci_gpus))
    host = read_host(root)
    machine = survey(
        host=host,
        nodes=read_numa_nodes(root, host),
        pci_gpus=pci_gpus,
        nvml=nvml,
        driver_version=read_driver_version(root),
        beforehand=beforehand,
    )
    module.exit_json(changed=False, **machine.as_dict())


if __name__ == "__main__":
    main()
