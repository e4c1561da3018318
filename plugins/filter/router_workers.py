# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable
from typing import Any

DOCUMENTATION = r"""
name: router_workers
version_added: 0.1.0
short_description: The workers that an inventory describes
description:
  - Gives every instance of every host as a worker, at C(sglang_worker_url) or else at C(ansible_host) and
    C(sglang_port). An instance that runs one half of a disaggregated server (C(disaggregation-mode) in
    C(sglang_extra_arguments)) is of that kind.
options:
  _input:
    description: Variables of the hosts, or of one.
    type: raw
    required: true
  only:
    description: Name of the one instance that is meant, where hosts have several.
    type: str
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Name the workers
  ansible.builtin.debug:
    msg: "{{ groups['sglang'] | map('extract', hostvars) | gpufleet.sglang.router_workers | map(attribute='url') }}"
"""

RETURN = r"""
_value:
  description: Rows as O(gpufleet.sglang.router_members#module:workers) takes them.
  type: list
  elements: dict
  sample: [{url: "http://10.213.77.182:30000", kind: regular, bootstrap_port: null}]
"""

from ansible_collections.gpufleet.sglang.plugins.plugin_utils.later import later


class FilterModule:
    def filters(self) -> dict[str, Callable[..., list[dict[str, Any]]]]:
        return {"router_workers": later("router.inventory", "workers_of_hosts")}
