# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable
from typing import Any

DOCUMENTATION = r"""
name: fleet_details
version_added: 0.1.0
short_description: The plans of a fleet in lines
description:
  - Gives each plan in lines, and those of instances and nodes alike once, under all their names.
options:
  _input:
    description: What P(gpufleet.sglang.fleet_plans#filter) gives.
    type: dict
    required: true
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Show each plan
  gpufleet.sglang.summary:
    title: "{{ item.title }}"
    lines: "{{ item.lines }}"
  loop: "{{ fleet | gpufleet.sglang.fleet_details }}"
  run_once: true
"""

RETURN = r"""
_value:
  description: C(title) and C(lines) of each kind of plan, in the order of the nodes.
  type: list
  elements: dict
"""

from ansible_collections.gpufleet.sglang.plugins.plugin_utils.later import later


class FilterModule:
    def filters(self) -> dict[str, Callable[..., list[dict[str, Any]]]]:
        return {"fleet_details": later("fleet.details", "details")}
