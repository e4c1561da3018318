# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable
from typing import Any

DOCUMENTATION = r"""
name: rolling_order
version_added: 0.1.0
short_description: The order in which a fleet is changed
description:
  - Puts nodes into batches. Those that are out of service come first, then the canaries, then batches that every router
    can do without. Members of a replica (C(sglang_replica)) stay together.
options:
  _input:
    description: Variables of the hosts, with their ledgers in C(rolling_ledgers).
    type: list
    elements: dict
    required: true
  routers:
    description: Results of M(gpufleet.sglang.router_info) for each router, of a loop over their names.
    type: list
    elements: dict
    required: true
  canary:
    description: Number or share of the nodes that go first.
    type: str
    required: true
  batch:
    description: Number or share of the nodes in each batch.
    type: str
    required: true
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Put the fleet in order
  ansible.builtin.set_fact:
    rolling_plan: "{{ hosts | gpufleet.sglang.rolling_order(routers.results, 1, '25%') }}"
  run_once: true
  vars:
    hosts: "{{ ansible_play_hosts_all | map('extract', hostvars) }}"
"""

RETURN = r"""
_value:
  description:
    - C(batches) with their C(kind), C(nodes), how many are C(serving) meanwhile, the share C(tokens_left) of the KV
      cache, and the C(seconds) that the slowest start takes; C(sizes) and C(order) of all; C(lines) for a person;
      C(refusal), null unless nobody can leave.
  type: dict
"""

from ansible_collections.gpufleet.sglang.plugins.plugin_utils.later import later


class FilterModule:
    def filters(self) -> dict[str, Callable[..., dict[str, Any]]]:
        return {"rolling_order": later("rolling.asked", "rolling_order")}
