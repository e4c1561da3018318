# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

DOCUMENTATION = r"""
name: placement
version_added: 0.1.0
short_description: Seat the ranks of one or several instances on GPUs and NUMA nodes
description:
  - Chooses, for the SGLang instances that share a node, which rank runs on which GPU and lives on which NUMA node, and
    says how the ranks can be bound there and whether their host pools fit.
  - Lists that an instance states win; what cannot be honoured is refused, with what was found and what to do.
  - Instances with more ranks are seated first, those of one size weighed together. A set of GPUs is better the fewer of
    them are of unknown board beside known ones, the fewer of them others use, the fewer kinds it mixes, the better its
    worst link is (more NVLinks, then V(PIX), V(PXB), V(PHB), V(NODE), V(SYS)), the fewer NUMA nodes it spans, the
    better the pools fit these, and the nearer they are to one another. Among equals, what stays free stays together.
  - GPUs that cannot be used as a whole are left out. As CUDA may not count them, the others are then named by UUID
    where that is known; with several ranks SGLang's custom all-reduce stays off for it, which is said.
  - Processes of SGLang, by program, module or script, do not count as use by others, as they are the instances that are
    being seated. Name the GPUs of an instance that runs where it has to stay on them.
  - A rank lives on the node of its GPU, or on the nearest one that has CPUs and memory which a service may use; never
    on the memory of a GPU or an expander. Where the machine has but one such node, that is it; where a GPU's node is
    not known and there are several, the rank is not bound.
positional: instances
options:
  _input:
    description: A topology, as M(gpufleet.sglang.gpu_topology_info) returns it, or a part of it on paper.
    type: dict
    required: true
  instances:
    description: What shall run on the node.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the instance, different from all others.
        type: str
        required: true
      ranks:
        description: Number of ranks, one a GPU. The length of O(instances[].gpus) when left out.
        type: int
      gpus:
        description: GPUs in rank order, by index, UUID or PCI address. Chosen when left out.
        type: list
        elements: raw
      numa_nodes:
        description: NUMA node of each rank, in rank order. That of the GPU when left out.
        type: list
        elements: int
      pool_bytes_per_rank:
        description: Host memory in bytes that each rank pins, such as C(host.bytes_per_rank) of a plan.
        type: int
  sglang_version:
    description: Release of SGLang that will run, quoted. Without it nothing is said about what the server does itself.
    type: str
  avoid_in_use:
    description: Whether GPUs that other processes use are taken only when no other is free.
    type: bool
    default: true
  reserve_bytes:
    description: Host memory in bytes that stays free beside the pools, divided evenly among the NUMA nodes.
    type: int
    default: 10737418240
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - module: gpufleet.sglang.gpu_topology_info
  - module: gpufleet.sglang.memory_plan
"""

EXAMPLES = r"""
- name: Seat two instances of four ranks beside each other
  ansible.builtin.set_fact:
    placed: "{{ probe | gpufleet.sglang.placement(instances, sglang_version='0.5.23') }}"
  vars:
    instances:
      - {name: chat, ranks: 4, pool_bytes_per_rank: 44770923648}
      - {name: code, ranks: 4, pool_bytes_per_rank: 44770923648}

- name: Keep one where it is and seat the other beside it
  ansible.builtin.debug:
    msg: "{{ (probe | gpufleet.sglang.placement(instances)).free_gpus }}"
  vars:
    instances:
      - {name: chat, gpus: [4, 5, 6, 7]}
      - {name: embed, ranks: 1}
"""

RETURN = r"""
_value:
  description: The placement. What is not known is null.
  type: dict
  contains:
    instances:
      description: The instances in the order that they were given.
      type: list
      elements: dict
      contains:
        name:
          description: Name of the instance.
          type: str
          sample: chat
        seats:
          description:
            - Each rank's C(gpu) by index, the C(numa_node) where its threads run and its pool lies, the CPUs there that
              a service may use, and the GPU's own node, which may be another one.
          type: list
          elements: dict
          sample:
            - {rank: 0, gpu: 0, numa_node: 0, gpu_numa_node: 0, cpus: "0-63,128-191"}
        gpus:
          description: Indexes of the GPUs in rank order.
          type: list
          elements: int
          sample: [0, 1, 2, 3]
        link:
          description: Level of the slowest link between these GPUs, null for one GPU or where links are not known.
          type: str
          sample: NODE
        numa_nodes:
          description: The NUMA nodes that the ranks live on.
          type: list
          elements: int
          sample: [0]
        binding:
          description:
            - How the ranks are bound, C(mode) being V(strict), V(preferred) or V(none), and why. C(numa_nodes) is the
              value for C(--numa-node), one a rank, empty where the flag is to be left out. C(possible) are the modes
              that can be had with this release, V(interleave) being set by the unit.
          type: dict
          sample:
            mode: strict
            reason: SGLang 0.5.23 binds its ranks to the node of their GPU by itself, where numactl is installed.
            numa_nodes: []
            possible: [strict, preferred, interleave, none]
        environment:
          description:
            - Variables that put the ranks on their GPUs, empty where SGLang's own order does it. GPUs go by index, and
              by UUID on a machine where a GPU cannot be used.
          type: dict
          sample: {CUDA_DEVICE_ORDER: PCI_BUS_ID, CUDA_VISIBLE_DEVICES: "0,1,2,3"}
        problems:
          description: What to know of this instance, each with C(code), C(severity), C(message) and C(remedy).
          type: list
          elements: dict
          sample: []
    free_gpus:
      description: Indexes of usable GPUs that no instance got.
      type: list
      elements: int
      sample: []
    nodes:
      description:
        - For each NUMA node that ranks can live on, how many do, what their pools need and what is there for them with
          the reserve taken off, which is no more than the host and its control groups leave to services in all.
        - The largest pool is what each rank with a pool could have there, or each rank where no instance has pools,
          others having as much; null where there is no such rank.
      type: list
      elements: dict
      sample:
        - node: 0
          ranks: 4
          needed_bytes: 179083694592
          there_bytes: 192631290880
          largest_pool_bytes_per_rank: 48157822720
          fits: true
    problems:
      description: Pools that do not fit, with the bytes and the bindings under which they would.
      type: list
      elements: dict
      sample: []
"""

DEFAULT_RESERVE_BYTES = 10 * (1 << 30)


def placement(
    topology: Any,
    instances: Any,
    sglang_version: str | None = None,
    avoid_in_use: bool = True,
    reserve_bytes: Any = DEFAULT_RESERVE_BYTES,
) -> dict[str, Any]:
    from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import integer, machine_facts
    from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.instances import instances_of
    from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.place import place, placement_as_dict
    from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import version_facts

    if not isinstance(topology, Mapping):
        raise AnsibleFilterError(f"The topology is {topology!r}. Expected what gpu_topology_info returns.")
    try:
        facts = None if sglang_version is None else version_facts(sglang_version)
        reserve = integer(reserve_bytes, "reserve_bytes") or 0
        if reserve < 0:
            raise Refusal("value_negative", f"reserve_bytes is {reserve}.", "Expected 0 or more.")
        machine = machine_facts(topology)
        return placement_as_dict(place(machine, instances_of(instances), facts, avoid_in_use, reserve))
    except Refusal as refusal:
        raise AnsibleFilterError(str(refusal)) from None


class FilterModule:
    def filters(self) -> dict[str, Callable[..., dict[str, Any]]]:
        return {"placement": placement}
