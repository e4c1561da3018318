# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable

DOCUMENTATION = r"""
name: capacity_summary
version_added: 0.1.0
short_description: Options for a workload as a table
description:
  - What M(gpufleet.sglang.capacity_options) found, for a person. All options that serve the workload have a row. Of
    boards, or of a machine, on which nothing does, the closest has one.
options:
  _input:
    description: A result of M(gpufleet.sglang.capacity_options).
    type: dict
    required: true
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Show the options
  gpufleet.sglang.summary:
    title: Which GPUs serve it
    lines: "{{ weighed | gpufleet.sglang.capacity_summary }}"
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
        return {"capacity_summary": later("capacity.capacity_table", "capacity_lines")}
