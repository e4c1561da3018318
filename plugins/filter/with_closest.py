# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

DOCUMENTATION = r"""
name: with_closest
version_added: 0.1.0
short_description: A name with the closest known one beside it
description:
  - Helps to say what was probably meant when a name is not known.
options:
  _input:
    description: The name that is not known.
    type: str
    required: true
  known:
    description: The names that are known.
    type: list
    elements: str
    required: true
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Name the typing error
  ansible.builtin.debug:
    msg: "{{ 'sglang_hicache_rato' | gpufleet.sglang.with_closest(['sglang_hicache_ratio', 'sglang_port']) }}"
  # => sglang_hicache_rato (closest known: sglang_hicache_ratio)
"""

RETURN = r"""
_value:
  description: The name, followed by the closest known one in parentheses where one is close.
  type: str
"""


def with_closest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"{name} (closest known: {close[0]})" if close else name


class FilterModule:
    def filters(self) -> dict[str, Callable[..., str]]:
        return {"with_closest": with_closest}
