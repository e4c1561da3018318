# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

DOCUMENTATION = r"""
name: unguarded
version_added: 0.1.0
short_description: Say where a server would not ask for its keys
description:
  - Knows which keys a release of SGLang asks for, and with which arguments and variables requests get past them.
options:
  _input:
    description: Names of the keys that the server has, V(api_key) and V(admin_api_key).
    type: list
    elements: str
    required: true
  sglang_version:
    description: The release that will run, quoted.
    type: str
    required: true
  extra_arguments:
    description: Further flags of the server, without the leading dashes.
    type: dict
    default: {}
  environment:
    description: Variables of the server's environment. Their values are not shown.
    type: dict
    default: {}
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Refuse a key that the release does not know
  ansible.builtin.assert:
    that: "['admin_api_key'] | gpufleet.sglang.unguarded('0.5.9') | length == 0"
"""

RETURN = r"""
_value:
  description: What is wrong, a sentence each with what to do; empty where the server asks for its keys.
  type: list
  elements: str
"""


def unguarded(
    keys: Iterable[str],
    sglang_version: str,
    extra_arguments: Mapping[str, Any] | None = None,
    environment: Mapping[str, Any] | None = None,
) -> list[str]:
    from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.guarded import unguarded_by

    try:
        return unguarded_by(sglang_version, list(keys), extra_arguments or {}, environment or {})
    except Refusal as refusal:
        raise AnsibleFilterError(str(refusal)) from None


class FilterModule:
    def filters(self) -> dict[str, Callable[..., list[str]]]:
        return {"unguarded": unguarded}
