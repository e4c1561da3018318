# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Iterable

from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.sglang.plugins.filter.with_closest import with_closest

DOCUMENTATION = r"""
name: all_known
version_added: 0.1.0
short_description: Refuses names that are not known
description:
  - Gives V(true), or fails with the names that are not known and the closest known ones, as a condition of a task does
    not cost a task of its own.
options:
  _input:
    description: The names.
    type: list
    elements: str
    required: true
  known:
    description: The names that are known.
    type: list
    elements: str
    required: true
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - plugin: gpufleet.sglang.with_closest
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Greet, unless a variable is misspelt
  ansible.builtin.debug:
    msg: Hello
  when: query('ansible.builtin.varnames', '^sglang_') | gpufleet.sglang.all_known(['sglang_port', 'sglang_version'])
"""

RETURN = r"""
_value:
  description: Always V(true); what is not known is an error.
  type: bool
"""


def all_known(names: Iterable[str], known: Iterable[str]) -> bool:
    there = list(known)
    unknown = sorted(set(names) - set(there))
    if unknown:
        told = "; ".join(with_closest(name, there) for name in unknown)
        raise AnsibleFilterError(f"variable_unknown: Unknown: {told}. Expected variables of the role, or other names.")
    return True


class FilterModule:
    def filters(self) -> dict[str, Callable[..., bool]]:
        return {"all_known": all_known}
