# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable

DOCUMENTATION = r"""
name: fleet_table
version_added: 0.1.0
short_description: The plans of a fleet as a table
description:
  - Gives a row for each node, or one for all nodes of which the same is shown. Refused nodes come last, each kind with
    the reason.
options:
  _input:
    description: What P(gpufleet.sglang.fleet_plans#filter) gives.
    type: dict
    required: true
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Show the fleet
  gpufleet.sglang.summary:
    title: Plans
    lines: "{{ hosts | gpufleet.sglang.fleet_plans | gpufleet.sglang.fleet_table }}"
  run_once: true
  vars:
    hosts: "{{ ansible_play_hosts_all | map('extract', hostvars) }}"
"""

RETURN = r"""
_value:
  description: The lines.
  type: list
  elements: str
"""

from ansible_collections.gpufleet.sglang.plugins.plugin_utils.later import later


class FilterModule:
    def filters(self) -> dict[str, Callable[..., list[str]]]:
        return {"fleet_table": later("fleet.table", "table_lines")}
