# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable

DOCUMENTATION = r"""
name: node_report
version_added: 0.1.0
short_description: What was planned, what is in force and what it means
description:
  - Puts the plan of an instance, the ledger of its proven start and the comparison of both into a few lines for a
    person.
positional: ledger, change
options:
  _input:
    description: The plan, as RV(gpufleet.sglang.memory_plan#module:plan) gives it.
    type: dict
    required: true
  ledger:
    description: The record of the proven start, empty when there is none.
    type: dict
    required: true
  change:
    description: What M(gpufleet.sglang.effective_change) returned.
    type: dict
    required: true
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Say what is in force
  gpufleet.sglang.summary:
    title: "{{ inventory_hostname }}"
    lines: "{{ plan | gpufleet.sglang.node_report(change.ledger, change) }}"
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
        return {"node_report": later("report", "node_report_lines")}
