# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

DOCUMENTATION = r"""
name: hugepages_argument
version_added: 0.1.0
short_description: The kernel argument that reserves huge pages of one size
description:
  - Makes of huge pages for NUMA nodes the words for the kernel's command line, which reserve them before anything else
    takes memory. Kernels from 5.14 on take a number for each node.
options:
  _input:
    description: An entry for each size and NUMA node, as O(gpufleet.sglang.node_settings#module:hugepages) takes them.
    type: list
    elements: dict
    required: true
  size:
    description: Size of the pages that are meant.
    type: str
    choices: [2MB, 1GB]
    default: 1GB
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Show the argument
  ansible.builtin.debug:
    msg: "{{ [{'size': '1GB', 'numa_node': 0, 'pages': 4}] | gpufleet.sglang.hugepages_argument }}"
  # => hugepagesz=1G hugepages=0:4
"""

RETURN = r"""
_value:
  description: The words; an empty text where no page of this size is asked for.
  type: str
"""


def hugepages_argument(hugepages: Sequence[Mapping[str, Any]], size: str = "1GB") -> str:
    from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.hugepages import kernel_words
    from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.request import parse_hugepages

    try:
        return " ".join(kernel_words(parse_hugepages(hugepages), size))
    except Refusal as refusal:
        raise AnsibleFilterError(str(refusal)) from None
    except (KeyError, TypeError) as error:
        raise AnsibleFilterError(f"Expected entries with size, numa_node and pages or bytes: {error!r}.") from None


class FilterModule:
    def filters(self) -> dict[str, Callable[..., str]]:
        return {"hugepages_argument": hugepages_argument}
