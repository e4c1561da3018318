# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable
from typing import Any

DOCUMENTATION = r"""
name: rolling_outcome
version_added: 0.1.0
short_description: How a rolling update ended
description:
  - Says which nodes are as declared and in service, which failed and are out, and which were not begun.
options:
  _input:
    description: Variables of the hosts, with what the playbook C(rolling_update) has left in C(rolling_result).
    type: list
    elements: dict
    required: true
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Say how it ended
  gpufleet.sglang.summary:
    title: Rolling update
    lines: "{{ (hosts | gpufleet.sglang.rolling_outcome).lines }}"
  run_once: true
  vars:
    hosts: "{{ groups['rolling_order'] | map('extract', hostvars) }}"
"""

RETURN = r"""
_value:
  description: Names of nodes C(done), C(failed) and C(left), and C(lines) for a person.
  type: dict
"""

from ansible_collections.gpufleet.sglang.plugins.plugin_utils.later import later


class FilterModule:
    def filters(self) -> dict[str, Callable[..., dict[str, Any]]]:
        return {"rolling_outcome": later("rolling.asked", "rolling_outcome")}
