#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: inventory_check
version_added: 0.1.0
short_description: Check an inventory without touching a host
description:
  - Looks at the variables of all hosts at once, on the controller, and returns every finding; the playbook
    C(gpufleet.sglang.validate) shows them.
  - It names variables with a prefix of the collection's roles that no role knows, with the closest one that is known,
    and those of earlier releases with what replaces them. It holds values against the roles' argument specifications,
    finds what two hosts or two instances would both take (addresses, ports, GPUs), holds addresses against declared
    subnets, asks queries of the user's own, and plans what is on paper or surveyed.
  - Runs on the controller and needs no connection to any host.
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
  hosts:
    description: Names of the hosts to look at. Those that the inventory does not have are passed over.
    type: list
    elements: str
    required: true
  queries:
    description:
      - Assertions about the whole inventory, in JMESPath (U(https://jmespath.org)).
      - They are asked of a mapping with C(hosts), a list of C(name), C(groups) and C(variables) of each host, and
        C(groups), the names of the hosts of each group. Variables that may hold keys are left out.
      - Needs the Python library C(jmespath) on the controller.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: What is asserted, for whoever reads the finding.
        type: str
        required: true
      query:
        description: The query.
        type: str
        required: true
      expect:
        description: What it has to give. When left out, anything but null, false and what is empty.
        type: raw
      severity:
        description: How grave it is where it gives something else. An error when left out.
        type: str
        choices: [info, warning, error]
      remedy:
        description: What to do then.
        type: str
  plans:
    description: >-
      Whether the memory of hosts is planned whose machine and model are known, from paper (C(sglang_paper_machine),
      C(sglang_paper_model)), cached facts or O(surveys).
    type: bool
    default: true
  surveys:
    description: Folder on the controller with surveys that the role C(gpufleet.sglang.probe) has saved.
    type: path
  fail_at:
    description: The least severity of the findings that RV(grave) names.
    type: str
    choices: [never, info, warning, error]
    default: error
notes:
  - Addresses and subnets need the Python library C(netaddr) on the controller. Where it is missing, a finding says so.
seealso:
  - module: gpufleet.sglang.memory_plan
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Check the whole inventory
  gpufleet.sglang.inventory_check:
    hosts: "{{ groups.all }}"
    queries:
      - name: all nodes serve the same release
        query: "hosts[?contains(groups, 'sglang')].variables.sglang_version | length(@) == `0` || max(@) == min(@)"
  register: checked
  run_once: true
  delegate_to: localhost

- name: Show the findings
  gpufleet.sglang.summary:
    title: Inventory
    lines: "{{ checked.lines }}"
  run_once: true
"""

RETURN = r"""
report:
  description: All findings. Those that differ by nothing but the host are one; the gravest come first.
  returned: always
  type: dict
  contains:
    schema:
      description: Number of this form. It grows when a key changes its meaning or goes; new keys may come without.
      type: int
      sample: 1
    summary:
      description: How many hosts were looked at, on how many anything was found, and the findings by severity.
      type: dict
      sample: {hosts: 1000, hosts_with_findings: 20, error: 1, warning: 0, info: 0}
    findings:
      description: The findings.
      type: list
      elements: dict
      contains:
        code:
          description: Name of the problem, which does not change from release to release.
          type: str
          sample: plan_impossible
        severity:
          description: V(error), V(warning) or V(info).
          type: str
          sample: error
        problem:
          description: What the code means.
          type: str
          sample: What is declared does not fit on the machine.
        hosts:
          description: The hosts of which it is said; empty where the inventory as a whole is meant.
          type: list
          elements: str
          sample: [odd-0001, odd-0002]
        variable:
          description: The variable that is meant, null where no single one is.
          type: str
          sample: null
        found:
          description: What was found.
          type: str
          sample: "board_unknown: 'NVIDIA H300' is no board of the catalogue"
        expected:
          description: What was expected.
          type: str
          sample: a plan that fits
        remedy:
          description: What to do.
          type: str
          sample: >-
            The closest: NVIDIA H800, NVIDIA H200. State a board that is not there as topology.gpus with name,
            memory_total_bytes and compute_capability.
lines:
  description: The same for a person.
  returned: always
  type: list
  elements: str
grave:
  description: The codes of the findings of O(fail_at) and of graver ones.
  returned: always
  type: list
  elements: str
  sample: [plan_impossible]
seconds:
  description: How long the check took.
  returned: always
  type: float
  sample: 2.104
"""
