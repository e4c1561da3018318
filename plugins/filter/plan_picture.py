# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable

DOCUMENTATION = r"""
name: plan_picture
version_added: 0.1.0
short_description: The memory of planned nodes as a picture
description:
  - Draws device and host memory of each node as stacked bars, one for each GPU, each NUMA node and the host, in an SVG
    image without scripts or anything from outside, for light and dark backgrounds. Lengths are in proportion to bytes,
    with one scale for all GPUs, one for all NUMA nodes and one for all hosts of the picture.
  - Nodes whose plans are alike are drawn once. Nodes that were refused are named with the reason.
options:
  _input:
    description: What P(gpufleet.sglang.fleet_plans#filter) gives.
    type: dict
    required: true
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Draw the fleet
  ansible.builtin.copy:
    content: "{{ hosts | gpufleet.sglang.fleet_plans | gpufleet.sglang.plan_picture }}"
    dest: /tmp/fleet.svg
    mode: "0644"
  run_once: true
  delegate_to: localhost
  vars:
    hosts: "{{ ansible_play_hosts_all | map('extract', hostvars) }}"
"""

RETURN = r"""
_value:
  description: The SVG image.
  type: str
"""

from ansible_collections.gpufleet.sglang.plugins.plugin_utils.later import later


class FilterModule:
    def filters(self) -> dict[str, Callable[..., str]]:
        return {"plan_picture": later("picture.plan_picture", "plan_picture")}
