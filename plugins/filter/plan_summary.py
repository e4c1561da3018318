# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable

DOCUMENTATION = r"""
name: plan_summary
version_added: 0.1.0
short_description: A memory plan in a few lines
description:
  - What a plan means for a person, without the arithmetic behind it, which is in the plan's C(explanation).
options:
  _input:
    description: A plan, as RV(gpufleet.sglang.memory_plan#module:plan) gives it.
    type: dict
    required: true
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Show the plan
  gpufleet.sglang.summary:
    title: "Plan of {{ inventory_hostname }}"
    lines: "{{ sglang_plan | gpufleet.sglang.plan_summary }}"
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
        return {"plan_summary": later("memory.summary", "summary_lines")}
