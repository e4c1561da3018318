# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

DOCUMENTATION = r"""
name: instance_ports
version_added: 0.1.0
short_description: Give each instance of a node a port
description:
  - Those that state a port have it. Of the others each keeps the one that is reserved for it, where that is still free,
    or gets the next one from 30000 on, in steps of 10, with which none of its ports is taken.
  - The further ports that a release takes beside the one for HTTP are counted.
options:
  _input:
    description:
      - What each instance asks for, by its name. C(sglang_version), and C(port), C(host), C(attention_dp) and
        C(extra_arguments) where they are said.
    type: dict
    required: true
  kept:
    description:
      - What is reserved on the node, by the name of the instance, as RV(gpufleet.sglang.instances_info#module:reserved)
        gives it.
    type: dict
    default: {}
  listening:
    description: Ports that programs of others listen on.
    type: list
    elements: int
    default: []
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Have ports chosen
  ansible.builtin.debug:
    msg: "{{ wishes | gpufleet.sglang.instance_ports }}"
  vars:
    wishes:
      chat: {sglang_version: 0.5.23, port: 30000}
      code: {sglang_version: 0.5.23}
  # => {"chat": 30000, "code": 30010}
"""

RETURN = r"""
_value:
  description: The port of each instance by its name.
  type: dict
"""


def instance_ports(
    wishes: Mapping[str, Mapping[str, Any]],
    kept: Mapping[str, Mapping[str, Any]] | None = None,
    listening: Sequence[int] = (),
) -> dict[str, int]:
    from ansible_collections.gpufleet.sglang.plugins.module_utils.instances.arrange import (
        Wish,
        arrange_ports,
        claim_of,
    )

    try:
        return arrange_ports(
            [Wish(name=name, **said) for name, said in wishes.items()],
            [claim_of(name, said) for name, said in (kept or {}).items()],
            listening,
        )
    except Refusal as refusal:
        raise AnsibleFilterError(str(refusal)) from None


class FilterModule:
    def filters(self) -> dict[str, Callable[..., dict[str, int]]]:
        return {"instance_ports": instance_ports}
