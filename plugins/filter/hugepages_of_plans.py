# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

DOCUMENTATION = r"""
name: hugepages_of_plans
version_added: 0.1.0
short_description: The huge pages that the host pools of plans take, on each NUMA node
description:
  - Makes of memory plans what the role C(node_tuning) and M(gpufleet.sglang.node_settings) reserve. Plans of several
    instances on one host are added up.
  - A plan of ordinary memory will do, so that pages can be reserved before a plan asks for them; it gets a page more
    for each pool of a rank, as each begins a page of its own.
options:
  _input:
    description: A plan, or a list of them, as RV(gpufleet.sglang.memory_plan#module:plan) gives them.
    type: raw
    required: true
  size:
    description: Size of a page.
    type: str
    choices: [2MB, 1GB]
    default: 2MB
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Reserve huge pages for a plan
  gpufleet.sglang.node_settings:
    hugepages: "{{ planned.plan | gpufleet.sglang.hugepages_of_plans('2MB') }}"
"""

RETURN = r"""
_value:
  description: An entry for each NUMA node, with C(size), C(numa_node) and C(pages).
  type: list
  elements: dict
"""


def hugepages_of_plans(plans: Any, size: str = "2MB") -> list[dict[str, Any]]:
    from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import HUGEPAGE_SIZES
    from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.hugepages import of_plans

    given = [plans] if isinstance(plans, Mapping) else list(plans)
    if size not in HUGEPAGE_SIZES:
        raise AnsibleFilterError(f"The size is '{size}'; expected one of {', '.join(HUGEPAGE_SIZES)}.")
    try:
        return of_plans(given, size)
    except Refusal as refusal:
        raise AnsibleFilterError(str(refusal)) from None
    except (KeyError, TypeError) as error:
        raise AnsibleFilterError(f"That is no plan of memory_plan: {error!r} is missing or of another kind.") from None


class FilterModule:
    def filters(self) -> dict[str, Callable[..., list[dict[str, Any]]]]:
        return {"hugepages_of_plans": hugepages_of_plans}
