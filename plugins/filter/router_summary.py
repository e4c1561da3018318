# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable

DOCUMENTATION = r"""
name: router_summary
version_added: 0.1.0
short_description: Who is in service behind a router, in lines
description:
  - Says how many workers are in service, and of each other one why it is not.
options:
  _input:
    description: What M(gpufleet.sglang.router_info) returns.
    type: dict
    required: true
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: See who serves
  gpufleet.sglang.router_info:
  register: router

- name: Show it
  gpufleet.sglang.summary:
    title: Router
    lines: "{{ router | gpufleet.sglang.router_summary }}"
"""

RETURN = r"""
_value:
  description: The lines.
  type: list
  elements: str
  sample: ["2 of 2 workers in service; 1 has to stay"]
"""

from ansible_collections.gpufleet.sglang.plugins.plugin_utils.later import later


class FilterModule:
    def filters(self) -> dict[str, Callable[..., list[str]]]:
        return {"router_summary": later("router.summary", "summary_lines")}
