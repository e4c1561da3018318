# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

DOCUMENTATION = r"""
name: instance_problems
version_added: 0.1.0
short_description: Say what is wrong with a list of instances
description:
  - Looks at the entries of C(sglang_instances), whether each has a name of its own, holds nothing but variables of the
    role, and gives them values of their types.
options:
  _input:
    description: The list.
    type: list
    elements: dict
    required: true
  options:
    description: The options of the role's argument specification, by their names.
    type: dict
    required: true
  of_the_node:
    description: Those of them that no single instance can be asked for.
    type: list
    elements: str
    default: []
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Refuse what cannot be meant
  ansible.builtin.assert:
    that: sglang_instances | gpufleet.sglang.instance_problems(options) | length == 0
"""

RETURN = r"""
_value:
  description: What is wrong, a sentence each, empty where nothing is.
  type: list
  elements: str
"""


def instance_problems(
    entries: Any, options: Mapping[str, Mapping[str, Any]], of_the_node: Collection[str] = ()
) -> list[str]:
    from ansible_collections.gpufleet.sglang.plugins.module_utils.instances.entries import entry_problems

    return entry_problems(entries, options, "sglang_", of_the_node)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., list[str]]]:
        return {"instance_problems": instance_problems}
