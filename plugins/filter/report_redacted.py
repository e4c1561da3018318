# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable

DOCUMENTATION = r"""
name: report_redacted
version_added: 0.1.0
short_description: The facts of a report without names, addresses and serial numbers
description:
  - Replaces names of nodes by C(node-001) and so on, in the order of the names, wherever they stand; IPv4, IPv6 and MAC
    addresses, UUIDs, serial numbers and identities of boots and starts by numbered words. The same thing gets the same
    word throughout the document.
  - Loopback and wildcard addresses, addresses on the PCI bus, digests and releases stay. A name that is a common word,
    such as C(node) or C(main), is replaced where it names a node, and left in sentences.
  - Keys and tokens are in neither document.
options:
  _input:
    description: What P(gpufleet.sglang.report_facts#filter) gives, or what was saved of it.
    type: dict
    required: true
seealso:
  - plugin: gpufleet.sglang.report_page
    plugin_type: filter
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Draw a page that can be handed on
  ansible.builtin.copy:
    content: "{{ lookup('ansible.builtin.file', 'fleet.json') | from_json
                 | gpufleet.sglang.report_redacted | gpufleet.sglang.report_page }}"
    dest: fleet.html
    mode: "0644"
  delegate_to: localhost
"""

RETURN = r"""
_value:
  description: The document in the same form, with C(redacted) true.
  type: dict
"""

from ansible_collections.gpufleet.sglang.plugins.plugin_utils.later import later


class FilterModule:
    def filters(self) -> dict[str, Callable[..., dict[str, object]]]:
        return {"report_redacted": later("fleet_report.facts", "redacted_facts")}
