# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable

DOCUMENTATION = r"""
name: report_page
version_added: 0.1.0
short_description: The page of a fleet, as one file of HTML
description:
  - Draws the verdict and the next action, what is wrong with the nodes that have it, and a table with a row for each
    instance, which opens into problems with remedies, memory planned and in fact, the start, its proof and versions.
  - The page needs nothing from outside and works from a file. It sorts, filters and opens rows by a script of its own;
    the table reads without it, and so does what rows hold where there are at most 25.
options:
  _input:
    description: What P(gpufleet.sglang.report_facts#filter) or P(gpufleet.sglang.report_redacted#filter) gives.
    type: dict
    required: true
  title:
    description: Title of the page.
    type: str
    default: SGLang fleet
seealso:
  - plugin: gpufleet.sglang.report_facts
    plugin_type: filter
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Draw the page
  ansible.builtin.copy:
    content: "{{ hosts | gpufleet.sglang.report_facts | gpufleet.sglang.report_page(title='Cluster 7') }}"
    dest: /tmp/fleet.html
    mode: "0644"
  run_once: true
  delegate_to: localhost
  vars:
    hosts: "{{ ansible_play_hosts_all | map('extract', hostvars) }}"
"""

RETURN = r"""
_value:
  description: The page.
  type: str
"""

from ansible_collections.gpufleet.sglang.plugins.plugin_utils.later import later


class FilterModule:
    def filters(self) -> dict[str, Callable[..., str]]:
        return {"report_page": later("fleet_report.page", "fleet_page")}
