# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

DOCUMENTATION = r"""
name: instance_gpus
version_added: 0.1.0
short_description: Seat the instances of a node beside each other, each where it was
description:
  - Those that name their GPUs have them. Of the others each keeps those that are reserved for it, where they are still
    as many as it has ranks and no other names them; the rest are chosen for all together, as
    P(gpufleet.sglang.placement#filter) does.
  - What is reserved for instances that are not asked for here stays theirs.
options:
  _input:
    description: What each instance asks for, as O(gpufleet.sglang.placement#filter:instances) takes it.
    type: list
    elements: dict
    required: true
  topology:
    description: The machine, as M(gpufleet.sglang.gpu_topology_info) returns it.
    type: dict
    required: true
  kept:
    description:
      - What is reserved on the node, by the name of the instance, as RV(gpufleet.sglang.instances_info#module:reserved)
        gives it.
    type: dict
    default: {}
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - plugin: gpufleet.sglang.placement
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Seat two instances
  ansible.builtin.debug:
    msg: "{{ wishes | gpufleet.sglang.instance_gpus(probe) }}"
  vars:
    wishes:
      - {name: chat, ranks: 4}
      - {name: code, ranks: 4}
  # => {"chat": [0, 1, 2, 3], "code": [4, 5, 6, 7]}
"""

RETURN = r"""
_value:
  description: Indexes of the GPUs of each instance, in rank order, by its name.
  type: dict
"""


def instance_gpus(
    wishes: Any, topology: Mapping[str, Any], kept: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, list[int]]:
    from ansible_collections.gpufleet.sglang.plugins.module_utils.instances.arrange import claim_of, seated
    from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import machine_facts
    from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.instances import instances_of

    try:
        claims = [claim_of(name, said) for name, said in (kept or {}).items()]
        return seated(instances_of(wishes), claims, machine_facts(topology))
    except Refusal as refusal:
        raise AnsibleFilterError(str(refusal)) from None


class FilterModule:
    def filters(self) -> dict[str, Callable[..., dict[str, list[int]]]]:
        return {"instance_gpus": instance_gpus}
