# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

from ansible_collections.gpufleet.sglang.plugins.module_utils.openpgp import fingerprints

DOCUMENTATION = r"""
name: openpgp_fingerprints
version_added: 0.1.0
short_description: Fingerprints of the keys in a file that signs a repository
description:
  - Tells what C(gpg --show-keys) would, on the controller, so that a key is compared with the one that is expected
    before a host gets to see it. Hosts need no gpg.
  - Tells every primary key in the file, as whoever checks has to refuse a file that holds a second one.
options:
  _input:
    description: The file as C(ansible.builtin.slurp) returns it, in base64; armoured or binary inside.
    type: str
    required: true
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Read the key
  ansible.builtin.slurp:
    src: /etc/apt/keyrings/nvidia-cuda.asc
  register: key

- name: Refuse any other than NVIDIA's
  ansible.builtin.assert:
    that: (key.content | gpufleet.sglang.openpgp_fingerprints) == ['EB693B3035CD5710E231E123A4B469963BF863CC']
"""

RETURN = r"""
_value:
  description: Fingerprints in capital hexadecimal digits, in the order of the file; empty where it is no key.
  type: list
  elements: str
"""


def openpgp_fingerprints(content: str) -> list[str]:
    try:
        return list(fingerprints(base64.b64decode(content, validate=True)))
    except (binascii.Error, ValueError):
        return []


class FilterModule:
    def filters(self) -> dict[str, Callable[..., list[str]]]:
        return {"openpgp_fingerprints": openpgp_fingerprints}
