# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable

DOCUMENTATION = r"""
name: report_facts
version_added: 0.1.0
short_description: What was read of each node of a fleet, in one document
description:
  - Puts together what M(gpufleet.sglang.node_report_info) returned on each host. A host that could not be reached or
    read is in it as well, with what was said of that.
  - The document can be saved as JSON, and the page be drawn from it without any node.
options:
  _input:
    description:
      - Variables of hosts after the play, C(inventory_hostname), and C(report_answer), the registered result of
        M(gpufleet.sglang.node_report_info). C(sglang_plan) counts where the same run has planned, and C(ansible_host)
        where the document is redacted.
    type: list
    elements: dict
    required: true
seealso:
  - plugin: gpufleet.sglang.report_page
    plugin_type: filter
  - plugin: gpufleet.sglang.report_redacted
    plugin_type: filter
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Save what was read
  ansible.builtin.copy:
    content: "{{ ansible_play_hosts_all | map('extract', hostvars) | gpufleet.sglang.report_facts | to_json }}"
    dest: /tmp/fleet.json
    mode: "0600"
  run_once: true
  delegate_to: localhost
"""

RETURN = r"""
_value:
  description: The document.
  type: dict
  contains:
    schema:
      description: Form of the document.
      type: int
      sample: 1
    kind:
      description: What it is.
      type: str
      sample: gpufleet.sglang.report
    nodes:
      description:
        - Each host with its C(node) name, C(address), C(state) (V(read), V(unreachable) or V(unread)), C(failure) in
          words, C(facts) as M(gpufleet.sglang.node_report_info) returned them, and C(plans) by instance.
      type: list
      elements: dict
"""

from ansible_collections.gpufleet.sglang.plugins.plugin_utils.later import later


class FilterModule:
    def filters(self) -> dict[str, Callable[..., dict[str, object]]]:
        return {"report_facts": later("fleet_report.facts", "fleet_facts")}
