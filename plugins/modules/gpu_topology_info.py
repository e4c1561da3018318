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
      - Folder that C(sys) and C(proc) are read below, as an absolute path.
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
  nvml_timeout_seconds:
    description:
      - How long asking the driver may take in all.
      - NVML is asked in a process of its own. When it has not answered everything by then, or when it crashes, that
        process is ended. What it had answered is kept, and RV(problems) names the call and the GPU that did not answer.
      - Without persistence mode a driver may need seconds for each GPU before it answers anything.
    type: float
    default: 60
  python_candidates:
    description:
      - Python interpreters that may have C(nvidia-ml-py), as paths or patterns (C(*), C(?), C([a-z])). When the
        interpreter that runs this module lacks it and an NVML library is there, the module runs again under the first
        of these that has it.
      - Of what one pattern finds the newest version comes first. What does not exist is passed over.
      - The default finds the environment of the role P(gpufleet.sglang.probe#role), those that the role
        P(gpufleet.sglang.sglang#role) installs, then the system's own Python, so that the module needs no options on
        such a node.
    type: list
    elements: path
    default:
      - /opt/gpufleet/probe/bin/python
      - /opt/sglang/*/bin/python
      - /usr/bin/python3
requirements:
  - nvidia-ml-py (for what only the driver knows; the interpreter that runs the module or one of O(python_candidates))
notes:
  - An idle GPU lowers the generation of its PCIe link. RV(gpus[].pcie.generation) below RV(gpus[].pcie.generation_max)
    is therefore no fault by itself; RV(gpus[].pcie.state) tells the one from the other.
  - What the driver does not tell is null with a problem that names the function of NVML. There is no problem where null
    is the full truth, because boards or whole systems may lack the thing. This goes for "not supported" about MIG, ECC
    and its counts, remapped rows, NVLink, the fabric, processes, persistence, the compute mode, virtualization, the
    performance state, the PCIe generation of the board and a NUMA node of its own; for MIG devices and processes that
    are not there any more; and for NVLinks beyond the last.
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
  register: topology

- name: Survey a host whose nvidia-ml-py is elsewhere, and whose driver is slow
  gpufleet.sglang.gpu_topology_info:
    python_candidates:
      - /srv/venvs/nvml*/bin/python
    nvml_timeout_seconds: 180

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
      description: The PCIe link; what the board can, what the slot above it can, and what holds now.
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
        slot_generation_max:
          description: PCIe generation of the slot; in guests that is what the hypervisor makes up.
          type: int
          sample: 5
        slot_width_max:
          description: Lanes of the slot; in guests that is what the hypervisor makes up.
          type: int
          sample: 16
        state:
          description:
            - V(full) = all that board and slot can; V(idle) = a lower generation on a GPU at rest, which is how it
              saves power; V(slot_limited) = the slot is slower or narrower than the board; V(degraded) = lanes are
              lost, or the generation stays low under load. The worse outranks the better.
            - Null where the readings do not tell, as for a low generation without a driver, which alone knows whether
              the GPU rests.
          type: str
          sample: idle
    state:
      description:
        - What the driver says of the board, V(ok), V(lost), V(reset_required), or V(unreadable) where it lists the GPU
          and does not even tell its memory.
        - Null without a driver.
      type: str
      sample: ok
    usable:
      description:
        - Whether a server can have the whole GPU. It cannot where the state is known and not V(ok), MIG divides the
          GPU, the compute mode is V(prohibited), another kernel driver than C(nvidia) holds it, or the driver gives it
          to guests.
        - That processes use it already does not count here.
      type: bool
      sample: true
    virtualization:
      description: >-
        V(none), V(passthrough) (the whole board, in a guest), V(vgpu) (this is a slice of one), V(host_vgpu) or
        V(host_vsga) (this host's driver gives slices away).
      type: str
      sample: none
    performance_state:
      description: Performance state, from 0 (highest clocks) to 15 (at rest).
      type: int
      sample: 8
    iommu_group:
      description: IOMMU group, from the kernel; null where the IOMMU is off.
      type: int
      sample: null
    mig:
      description: Whether MIG divides the GPU; null for boards without it.
      type: dict
      contains:
        enabled:
          description: Whether it is on.
          type: bool
          sample: false
        pending:
          description: Whether it will be on after the next reset.
          type: bool
          sample: false
    mig_devices:
      description: The parts that MIG divides the GPU into, each a device of its own for CUDA.
      type: list
      elements: dict
      contains:
        uuid:
          description: The driver's name for the part, which C(CUDA_VISIBLE_DEVICES) takes.
          type: str
          sample: MIG-36ca8af1-3e3e-5839-9432-e68a2b9aaee1
        name:
          description: Name of the part with its profile.
          type: str
          sample: NVIDIA H100 80GB HBM3 MIG 4g.40gb
        memory_total_bytes:
          description: Memory of the part.
          type: int
          sample: 42412802048
        gpu_instance_id:
          description: Number of the GPU instance.
          type: int
          sample: 1
        compute_instance_id:
          description: Number of the compute instance in it.
          type: int
          sample: 0
    ecc:
      description: Whether ECC protects the memory; null for boards without it.
      type: dict
      contains:
        enabled:
          description: Whether it is on.
          type: bool
          sample: true
        pending:
          description: Whether it will be on after the next reset.
          type: bool
          sample: true
    ecc_errors:
      description: Memory errors; null where ECC is off or not counted.
      type: dict
      contains:
        corrected_volatile:
          description: Errors that ECC corrected since the driver was loaded.
          type: int
          sample: 0
        uncorrected_volatile:
          description: Errors that it could not correct since then.
          type: int
          sample: 0
        corrected_aggregate:
          description: Errors that ECC corrected in the board's life.
          type: int
          sample: 0
        uncorrected_aggregate:
          description: Errors that it could not correct in the board's life.
          type: int
          sample: 0
    remapped_rows:
      description: Memory that was found bad and is replaced by spare rows; null for boards that tell nothing of it.
      type: dict
      contains:
        corrected:
          description: Rows replaced for corrected errors.
          type: int
          sample: 0
        uncorrected:
          description: Rows replaced for uncorrected errors.
          type: int
          sample: 0
        pending:
          description: Whether rows wait for the next reset to be replaced.
          type: bool
          sample: false
        failure:
          description: Whether a row could not be replaced for want of spare ones.
          type: bool
          sample: false
        unit:
          description: >-
            V(row); or V(page) for boards before Ampere, which give up whole pages instead and know no failure.
          type: str
          sample: row
    persistence:
      description: Whether persistence mode is on.
      type: bool
      sample: true
    compute_mode:
      description: V(default), V(prohibited), V(exclusive_process) or V(exclusive_thread).
      type: str
      sample: default
    nvlinks:
      description: The GPU's NVLinks; null for boards without any, and where one of them could not be read.
      type: dict
      contains:
        active:
          description: Links that are up.
          type: int
          sample: 18
        total:
          description: Links that the board has wired.
          type: int
          sample: 18
    fabric:
      description: Membership of an NVSwitch fabric; null for boards that need none.
      type: dict
      contains:
        state:
          description: V(not_started), V(in_progress) or V(completed).
          type: str
          sample: completed
        status:
          description: NVML's error for joining, which counts from when that is completed; 0 is success.
          type: int
          sample: 0
        clique_id:
          description: Number of the group of GPUs that can reach one another over the fabric.
          type: int
          sample: 0
        cluster_uuid:
          description: Name of the fabric; null for one that is this host's own.
          type: str
          sample: null
        health:
          description: V(healthy), V(unhealthy) or V(limited_capacity); null where the driver does not tell.
          type: str
          sample: null
    processes:
      description: Processes on the GPU.
      type: list
      elements: dict
      contains:
        pid:
          description: Process id, as the driver tells it.
          type: int
          sample: 4711
        memory_used_bytes:
          description: Memory that it holds; null where the driver does not tell.
          type: int
          sample: 20971520000
        name:
          description: >-
            Its program, with the module or script where that is Python, but never its other arguments; from C(/proc),
            or else from the driver.
          type: str
          sample: python3
        kind:
          description: V(compute) or V(graphics).
          type: str
          sample: compute
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
    kind:
      description: >-
        V(general) = CPUs and memory; V(cpus) = CPUs without memory; V(memory) = memory without CPUs (expanders, HBM);
        V(gpu_memory) = the memory of a GPU; V(empty) = neither.
      type: str
      sample: general
    cpus_usable:
      description: CPUs of the node that the control groups leave to a system service.
      type: str
      sample: 64-127,192-238,240-255
    usable:
      description: Whether the control groups let a system service have memory of the node.
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
      contains:
        size_bytes:
          description: Size of one page.
          type: int
          sample: 2097152
        total:
          description: Pages of this size that were taken out of the node's memory.
          type: int
          sample: 0
        free:
          description: Those of them that nothing uses.
          type: int
          sample: 0
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
    - The C(nvlinks) is the number of NVLinks that join the two, null where the driver did not tell; then C(level) is
      that of the PCI bus.
    - The C(route) is the way that traffic between them takes, V(nvlink), V(switch) (it turns around at the PCIe switch
      that they share), V(redirected) (access control on that switch sends it up to the host all the same), V(host)
      (their ways meet in the host only) or null where that is not known, as of boards that NVLink may join unsaid.
  returned: always
  type: list
  elements: list
  sample:
    - - {level: SELF, p2p: null, nvlinks: 0, route: null}
      - {level: PIX, p2p: ok, nvlinks: 0, route: switch}
    - - {level: PIX, p2p: ok, nvlinks: 0, route: switch}
      - {level: SELF, p2p: null, nvlinks: 0, route: null}
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
    cgroup_version:
      description: Version of the control groups that limit memory, 1 or 2; 1 on hybrid hosts.
      type: int
      sample: 2
    cgroup_limit_bytes:
      description: Smallest memory limit of a control group that a system service would live under.
      type: int
      sample: null
    cgroup_available_bytes:
      description: >-
        What can still be had below that limit. A new service can have the smaller of this and
        RV(host.memory_available_bytes).
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
    cpus_isolated:
      description: >-
        CPUs that the kernel schedules nothing on by itself (C(isolcpus)), so that only what is bound to them runs
        there; null where there are none.
      type: str
      sample: null
    cpus_usable:
      description: CPUs that a cpuset leaves to a system service; null where none limits them.
      type: str
      sample: null
    cpu_quota:
      description: CPU time per time that a quota leaves to a system service, so 4.0 is that of four CPUs.
      type: float
      sample: null
    memory_nodes_usable:
      description: NUMA nodes that a cpuset lets a system service have memory of; null where none limits them.
      type: str
      sample: null
    numa_nodes_offline:
      description: NUMA nodes that the kernel shows and that are not online.
      type: str
      sample: null
    cpu_model:
      description: Name of the processor, on Arm that of its cores where it is known.
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
    acs_redirecting:
      description: >-
        Switch ports above GPUs that send traffic between their devices up to the host (PCIe Access Control Services);
        null where no such port's configuration could be read, for which the module has to run as root.
      type: list
      elements: str
      sample: []
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
      description: Version of NVML, which a library tells even where the driver does not answer.
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

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.probe import TOPOLOGY_OPTIONS, probe_machine


def main() -> None:
    module = AnsibleModule(argument_spec=TOPOLOGY_OPTIONS, supports_check_mode=True)
    try:
        machine = probe_machine(module.params)
    except Refusal as refusal:
        module.fail_json(msg=str(refusal), failure=refusal.as_dict())
    module.exit_json(changed=False, **machine)


if __name__ == "__main__":
    main()
