# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

DOCUMENTATION = r"""
name: driver_findings
version_added: 0.1.0
short_description: What of a driver plan does not hold on a host
description:
  - Holds a survey of a host against what M(gpufleet.sglang.driver_plan) expects. The loaded module, the modules of the
    kernels that run and boot next, the libraries, the fabric manager and the packages have to be of one release and
    flavour, the services have to run, nouveau must not be there, and what is held has to be held.
  - What cannot be told is no finding. Of a container only packages, libraries and the fabric manager are judged, since
    its host has the modules.
positional: plan, topology
options:
  _input:
    description: What M(gpufleet.sglang.host_stack_info) returned, after the plan was carried out.
    type: dict
    required: true
  plan:
    description: RV(gpufleet.sglang.driver_plan#module:plan).
    type: dict
    required: true
  topology:
    description:
      - What M(gpufleet.sglang.gpu_topology_info) returned then. It tells whether the driver lists every GPU and whether
        each has joined the NVLink fabric.
    type: dict
    default: {}
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - module: gpufleet.sglang.driver_plan
"""

EXAMPLES = r"""
- name: Survey the host again
  gpufleet.sglang.host_stack_info:
  register: stack

- name: Prove that the driver is in force
  ansible.builtin.assert:
    that: verified.ok
    fail_msg: "{{ verified.findings | map(attribute='message') | join(' ') }}"
  vars:
    verified: "{{ stack | gpufleet.sglang.driver_findings(driver.plan) }}"
"""

RETURN = r"""
_value:
  description: Whether the plan holds, and what does not.
  type: dict
  contains:
    ok:
      description: Whether there is no error among the findings.
      type: bool
      sample: true
    release:
      description: The release that everything has to be of; null where none is installed.
      type: str
      sample: 580.95.05
    findings:
      description: What does not hold, each with C(code), C(severity), C(message) and C(remedy).
      type: list
      elements: dict
      sample: []
"""


def driver_findings(stack: Any, plan: Any, topology: Any = None) -> dict[str, Any]:
    from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.verification import verification

    if not isinstance(stack, Mapping):
        raise AnsibleFilterError(f"The stack is {stack!r}. Expected what host_stack_info returns.")
    try:
        return verification(stack, plan, topology or {})
    except Refusal as refusal:
        raise AnsibleFilterError(str(refusal)) from None


class FilterModule:
    def filters(self) -> dict[str, Callable[..., dict[str, Any]]]:
        return {"driver_findings": driver_findings}
