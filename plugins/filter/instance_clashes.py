# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

DOCUMENTATION = r"""
name: instance_clashes
version_added: 0.1.0
short_description: Say what two instances of a node would both take
description:
  - Compares the GPUs and the ports of instances with one another.
options:
  _input:
    description: What each instance takes, by its name, as P(gpufleet.sglang.instance_claim#filter) gives it.
    type: dict
    required: true
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Refuse what two instances would both take
  ansible.builtin.assert:
    that: claims | gpufleet.sglang.instance_clashes | length == 0
"""

RETURN = r"""
_value:
  description: What they would both take, a sentence each, empty where they leave each other alone.
  type: list
  elements: str
"""


def instance_clashes(claims: Mapping[str, Mapping[str, Any]]) -> list[str]:
    from ansible_collections.gpufleet.sglang.plugins.module_utils.instances.arrange import claim_of, clashes

    return clashes([claim_of(name, said) for name, said in claims.items()])


class FilterModule:
    def filters(self) -> dict[str, Callable[..., list[str]]]:
        return {"instance_clashes": instance_clashes}
