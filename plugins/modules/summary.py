#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: summary
version_added: 0.1.0
short_description: Print a titled block of lines for a person
description:
  - Prints lines in the play's output as they are, without the quoting and list markers of M(ansible.builtin.debug).
  - Runs on the controller and needs no connection to the host.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    platforms: all
options:
  title:
    description: Heading of the block.
    type: str
    required: true
  lines:
    description: The lines, each printed on a line of its own.
    type: list
    elements: str
    required: true
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Show the plan to whoever runs the play
  gpufleet.sglang.summary:
    title: "Plan of {{ inventory_hostname }}"
    lines: "{{ plan.explanation }}"
"""

RETURN = r"""
title:
  description: The heading that was printed.
  returned: always
  type: str
  sample: Plan of node
lines:
  description: The lines that were printed.
  returned: always
  type: list
  elements: str
  sample:
    - "KV cache: 70,272 bytes a token"
"""
