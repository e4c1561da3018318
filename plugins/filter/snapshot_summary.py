# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable

DOCUMENTATION = r"""
name: snapshot_summary
version_added: 0.1.0
short_description: What is known of models of a store, in a few lines
description:
  - Puts results of M(gpufleet.sglang.model_snapshot) into lines for a person, a model each, with its problems.
options:
  _input:
    description: Results of M(gpufleet.sglang.model_snapshot).
    type: list
    elements: dict
    required: true
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Show it
  gpufleet.sglang.summary:
    title: "{{ inventory_hostname }}"
    lines: "{{ [model] | gpufleet.sglang.snapshot_summary }}"
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
        return {"snapshot_summary": later("store.summary", "snapshot_lines")}
