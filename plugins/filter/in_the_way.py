# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

DOCUMENTATION = r"""
name: in_the_way
version_added: 0.1.0
short_description: Which sockets would keep a server from binding its ports
description:
  - Of sockets that listen, those on one of the ports, by the same address or by a wildcard on either side.
options:
  _input:
    description: Sockets, as RV(gpufleet.sglang.listener_info#module:listeners) or
      RV(gpufleet.sglang.node_info#module:listeners) has them.
    type: list
    elements: dict
    required: true
  ranges:
    description: Ranges of ports, each with C(first), C(last) and the C(address) that is to be bound.
    type: list
    elements: dict
    required: true
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Show who holds the ports of a plan
  ansible.builtin.debug:
    msg: "{{ node.listeners | gpufleet.sglang.in_the_way(planned.plan.unit.ports.values() | list) }}"
"""

RETURN = r"""
_value:
  description: Those of the sockets, each once.
  type: list
  elements: dict
"""


def in_the_way(listeners: Sequence[Mapping[str, Any]], ranges: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    from ansible_collections.gpufleet.sglang.plugins.module_utils.sockets import in_the_way as found_in_the_way

    return found_in_the_way(listeners, ranges)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., list[Mapping[str, Any]]]]:
        return {"in_the_way": in_the_way}
