# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

DOCUMENTATION = r"""
name: machine_on_paper
version_added: 0.1.0
short_description: The topology of a machine that is not there yet
description:
  - Makes out of a board's name and a few numbers what M(gpufleet.sglang.memory_plan) takes as
    O(gpufleet.sglang.memory_plan#module:topology), with the memory, compute capability, PCIe and NVLink that the
    collection's catalogue of boards knows.
  - A board that the catalogue does not hold is refused with the closest that it does, as is a name that fits several.
  - The code of a refusal stands in front of its sentence.
options:
  _input:
    description: The machine.
    type: dict
    required: true
    suboptions:
      board:
        description:
          - The board, as C(nvidia-smi) prints its name, V(NVIDIA H200), or as people write it, V(H100-80GB-SXM) or
            V(l40s).
        type: str
        required: true
      count:
        description: Number of GPUs.
        type: int
        default: 1
      numa_nodes:
        description: Number of NUMA nodes with CPUs and memory, over which GPUs and memory are divided evenly.
        type: int
        default: 1
      gpu_nodes:
        description: NUMA node of each GPU, for a machine whose GPUs are not divided evenly and in order.
        type: list
        elements: int
      memory_gb:
        description: Memory of the host in GB (1e9 bytes), as C(/proc/meminfo) counts it in all.
        type: float
      available_gb:
        description:
          - Memory in GB that a service can have, where the host has other uses. All of O(_input.memory_gb) when left
            out.
        type: float
      nvlink:
        description:
          - Whether NVLink joins the GPUs. NVSwitch of boards that have it is there unless this is V(false); a bridge
            between two boards is there where this is V(true).
        type: bool
      assumptions:
        description: Sentences that the plan repeats among its own assumptions.
        type: list
        elements: str
        default: []
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - module: gpufleet.sglang.memory_plan
"""

EXAMPLES = r"""
- name: Plan eight H200 before they are bought
  gpufleet.sglang.memory_plan:
    sglang_version: "0.5.23"
    model: "{{ model }}"
    topology: "{{ machine | gpufleet.sglang.machine_on_paper }}"
    server:
      tensor_parallel_size: 8
  vars:
    machine: {board: NVIDIA H200, count: 8, numa_nodes: 2, memory_gb: 2048}
"""

RETURN = r"""
_value:
  description: The topology, a part of what M(gpufleet.sglang.gpu_topology_info) returns. What is not known is null.
  type: dict
"""


def on_paper(machine: Any) -> dict[str, Any]:
    from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.paper import machine_on_paper

    if not isinstance(machine, Mapping):
        raise AnsibleFilterError(
            f"value_malformed: The machine is {machine!r}. Expected a mapping with board and count."
        )
    try:
        return machine_on_paper(machine)
    except Refusal as refusal:
        # A filter has nothing but its sentence to hand on; fleet_plans reads the code in front of it.
        raise AnsibleFilterError(f"{refusal.code}: {refusal}") from None


class FilterModule:
    def filters(self) -> dict[str, Callable[..., dict[str, Any]]]:
        return {"machine_on_paper": on_paper}
