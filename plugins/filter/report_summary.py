# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable

DOCUMENTATION = r"""
name: report_summary
version_added: 0.1.0
short_description: The verdict of a report in a few lines
description:
  - How many instances serve, what is wrong, and what to do next, the most urgent first.
options:
  _input:
    description: What P(gpufleet.sglang.report_facts#filter) or P(gpufleet.sglang.report_redacted#filter) gives.
    type: dict
    required: true
seealso:
  - plugin: gpufleet.sglang.report_page
    plugin_type: filter
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Show how the fleet is
  gpufleet.sglang.summary:
    title: Report
    lines: "{{ ansible_play_hosts_all | map('extract', hostvars) | gpufleet.sglang.report_facts
               | gpufleet.sglang.report_summary }}"
  run_once: true
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
        return {"report_summary": later("fleet_report.verdict", "summary_lines")}
