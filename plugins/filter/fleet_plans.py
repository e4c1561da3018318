# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable
from typing import Any

DOCUMENTATION = r"""
name: fleet_plans
version_added: 0.1.0
short_description: What became of the plan of each host of a play
description:
  - Gathers the plans of many hosts, and the refusals, in one document that can be written as JSON and that
    P(gpufleet.sglang.fleet_table#filter) and P(gpufleet.sglang.plan_picture#filter) take.
options:
  _input:
    description:
      - Variables of the hosts. Used are C(inventory_hostname), C(sglang_plan), which the role's entry point C(plan)
        sets, C(__sglang_planned), which its entry point C(plan_memory) registers, and C(plan_failure), the result of
        the task that failed.
    type: list
    elements: dict
    required: true
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Gather the plans
  ansible.builtin.set_fact:
    fleet: "{{ ansible_play_hosts_all | map('extract', hostvars) | gpufleet.sglang.fleet_plans }}"
  run_once: true
"""

RETURN = r"""
_value:
  description: The document. What is not known is null.
  type: dict
  contains:
    schema:
      description: Number of this form. It grows when a key changes its meaning or goes; new keys may come without.
      type: int
      sample: 1
    summary:
      description: How many nodes there are, and in which states.
      type: dict
      sample: {nodes: 1000, planned: 960, refused: 40, not_reached: 0}
    nodes:
      description: One entry for each host, in the order that they were given.
      type: list
      elements: dict
      contains:
        node:
          description: Name of the host in the inventory.
          type: str
          sample: kimi-01
        instance:
          description: Name of the instance, null where the inventory does not say.
          type: str
          sample: kimi
        state:
          description: V(planned), V(refused) or V(not_reached).
          type: str
          sample: planned
        model:
          description: Name of the model.
          type: str
          sample: Kimi-K2.5
        sglang_version:
          description: Release of SGLang.
          type: str
          sample: 0.5.9
        refusal:
          description: C(code), C(message), C(remedy) and C(evidence) of the refusal, null where there is none.
          type: dict
        plan:
          description: The plan, as RV(gpufleet.sglang.memory_plan#module:plan) gives it, null where there is none.
          type: dict
"""

from ansible_collections.gpufleet.sglang.plugins.plugin_utils.later import later


class FilterModule:
    def filters(self) -> dict[str, Callable[..., dict[str, Any]]]:
        return {"fleet_plans": later("fleet.outcomes", "fleet_plans")}
