# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable

DOCUMENTATION = r"""
name: survey_summary
version_added: 0.1.0
short_description: What a host is made of and what is wrong with it, in a few lines
description:
  - Puts a survey into lines for a person. Problems come last, the worst first, each with what to do about it.
positional: stack
options:
  _input:
    description: What M(gpufleet.sglang.gpu_topology_info) returned.
    type: dict
    required: true
  stack:
    description: What M(gpufleet.sglang.host_stack_info) returned; its problems and the driver's flavour are told too.
    type: dict
    default: {}
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Survey the host
  gpufleet.sglang.gpu_topology_info:
  register: topology

- name: Show it
  gpufleet.sglang.summary:
    title: "{{ inventory_hostname }}"
    lines: "{{ topology | gpufleet.sglang.survey_summary }}"
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
        return {"survey_summary": later("topology.summary", "survey_lines")}
