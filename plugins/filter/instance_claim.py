# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

DOCUMENTATION = r"""
name: instance_claim
version_added: 0.1.0
short_description: What an instance is going to take of its node
description:
  - Host memory beside what it holds already, in all and, where its ranks are bound strictly, of each NUMA node; GPUs
    and ports.
options:
  _input:
    description: The plan of the instance, as RV(gpufleet.sglang.memory_plan#module:plan).
    type: dict
    required: true
  held_bytes:
    description: Host memory in bytes that it holds already.
    type: int
    default: 0
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: See what the instance is going to take
  ansible.builtin.debug:
    msg: "{{ planned.plan | gpufleet.sglang.instance_claim(held_bytes=1000000000) }}"
"""

RETURN = r"""
_value:
  description: C(host_bytes), C(node_bytes) by NUMA node, C(gpus), and C(ports) by their names.
  type: dict
"""


def instance_claim(plan: Mapping[str, Any], held_bytes: int | str | None = 0) -> dict[str, Any]:
    from ansible_collections.gpufleet.sglang.plugins.module_utils.instances.beside import claim

    return claim(plan, int(held_bytes or 0))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., dict[str, Any]]]:
        return {"instance_claim": instance_claim}
