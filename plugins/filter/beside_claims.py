# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

DOCUMENTATION = r"""
name: beside_claims
version_added: 0.1.0
short_description: A machine as it is left beside other instances
description:
  - Takes the host memory that others are going to take off what is available, of the host and of each NUMA node.
options:
  _input:
    description: A topology, as M(gpufleet.sglang.gpu_topology_info) returns it.
    type: dict
    required: true
  claims:
    description: What each of the others takes, as P(gpufleet.sglang.instance_claim#filter) gives it.
    type: list
    elements: dict
    required: true
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Plan beside another instance
  gpufleet.sglang.memory_plan:
    sglang_version: 0.5.23
    model: "{{ read.model }}"
    topology: "{{ probe | gpufleet.sglang.beside_claims([other]) }}"
"""

RETURN = r"""
_value:
  description: The topology, with less that is available.
  type: dict
"""


def beside_claims(topology: Mapping[str, Any], claims: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    from ansible_collections.gpufleet.sglang.plugins.module_utils.instances.beside import without_claims

    return without_claims(topology, claims)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., dict[str, Any]]]:
        return {"beside_claims": beside_claims}
