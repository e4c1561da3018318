# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable

DOCUMENTATION = r"""
name: prune_summary
version_added: 0.1.0
short_description: What a pruning of a store removed and why the rest stays, in lines
description:
  - Puts what M(gpufleet.sglang.model_prune) returned into lines for a person, a revision each.
options:
  _input:
    description: What M(gpufleet.sglang.model_prune) returned.
    type: dict
    required: true
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Show it
  gpufleet.sglang.summary:
    title: "{{ inventory_hostname }}"
    lines: "{{ prune | gpufleet.sglang.prune_summary }}"
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
        return {"prune_summary": later("store.summary", "prune_lines")}
