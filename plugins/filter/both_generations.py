# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

DOCUMENTATION = r"""
name: both_generations
version_added: 0.1.0
short_description: What two generations of an instance would take of one node at the same time
description:
  - Says in sentences, with host and GPU memory of both against what is there, why a second generation is not started
    beside the one that serves, and what to do instead.
options:
  _input:
    description: The plan of the generation that is to come, as M(gpufleet.sglang.memory_plan) returns it.
    type: dict
    required: true
  running:
    description: The plan of the one that serves; empty where none does.
    type: dict
    required: true
  topology:
    description: The node, as M(gpufleet.sglang.gpu_topology_info) returns it.
    type: dict
    required: true
  held_bytes:
    description: What the ranks of the one that serves hold of the host's memory. By its plan when left out.
    type: int
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Say what both would take
  ansible.builtin.debug:
    msg: "{{ sglang_plan | gpufleet.sglang.both_generations(ledger.plan, probe) }}"
"""

RETURN = r"""
_value:
  description: The sentences.
  type: str
"""


def both_generations(
    plan: Mapping[str, Any],
    running: Mapping[str, Any],
    topology: Mapping[str, Any],
    held_bytes: int | str | None = None,
) -> str:
    from ansible_collections.gpufleet.sglang.plugins.module_utils.instances.both import (
        both_generations as said_of_both,
    )

    held = None if held_bytes in (None, "") else int(held_bytes or 0)
    return said_of_both(plan, running, topology, held)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., str]]:
        return {"both_generations": both_generations}
