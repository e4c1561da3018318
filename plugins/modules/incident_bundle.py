#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: incident_bundle
version_added: 0.1.0
short_description: Write down all that is known of a node that failed
description:
  - Reads the node once (M(gpufleet.sglang.node_report_info) with its details) and writes one archive on the controller,
    with an index that says what happened, when, why and what to do next; the journal of the start, the unit, the
    configuration, the environment, the plan, the ledger, the survey of GPUs and host, and a page of the node.
  - A node that cannot be reached or read gets an archive as well, which says so.
  - Keys, tokens and passwords are never in it. What files of keys hold, and values of variables that may be secret, are
    replaced on the node, wherever they stand.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    platforms: linux
options:
  folder:
    description:
      - Folder on the controller. It is made if it is not there, for its owner alone.
      - The archive is named after the node and the time, C(NODE-20261130T220451Z.tar.gz).
    type: path
    required: true
  instance:
    description: The instance that failed; all of the node if not given.
    type: str
  invocation_id:
    description: The start whose journal is wanted. The present or last one if not given.
    type: str
  failure:
    description: What the task that failed returned, C(ansible_failed_result) in a rescue.
    type: dict
  task:
    description: Name of that task, C(ansible_failed_task.name) in a rescue.
    type: str
  plan:
    description: The plan that was put into force. That of the last proven start if not given.
    type: dict
  redact:
    description:
      - Whether names, addresses and serial numbers are replaced, see P(gpufleet.sglang.report_redacted#filter).
    type: bool
    default: false
  only_failing:
    description: Writes nothing where everything on the node serves without errors, and no O(failure) is given.
    type: bool
    default: false
  journal_lines:
    description: The most lines of the journal. A quarter is of its beginning; what was left out is said.
    type: int
    default: 4000
  journal_bytes:
    description: The most bytes of the journal.
    type: int
    default: 1000000
  config_root:
    description: Folder of the configuration files of the instances.
    type: path
    default: /etc/sglang
notes:
  - Runs on the controller and has M(gpufleet.sglang.node_report_info) run on the node.
seealso:
  - module: gpufleet.sglang.node_report_info
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Provision, and write down what is known where that fails
  block:
    - name: Have the server
      ansible.builtin.include_role:
        name: gpufleet.sglang.sglang
  rescue:
    - name: Write the incident
      gpufleet.sglang.incident_bundle:
        folder: /var/tmp/incidents
        failure: "{{ ansible_failed_result }}"
        task: "{{ ansible_failed_task.name }}"
        plan: "{{ sglang_plan | default(omit) }}"
"""

RETURN = r"""
path:
  description: The archive; null where none was to be written. In check mode what it would have been called.
  returned: always
  type: str
  sample: /var/tmp/incidents/gpu-004-20261130T220451Z.tar.gz
size_bytes:
  description: Its size; null where it was not written.
  returned: always
  type: int
  sample: 13482
files:
  description: What is in it, below a folder of its own name.
  returned: always
  type: list
  elements: str
  sample: [INDEX.txt, index.json, main/journal.txt, main/unit.txt, report.html, stack.json, topology.json]
index:
  description: What C(index.json) says, but for the list of files.
  returned: always
  type: dict
  sample:
    node: gpu-004
    read_at: 2026-11-30 22:04:51 UTC
    states: [{instance: main, state: failed}]
    task: Follow the start until the server is ready
    reasons:
      - code: scheduler_died
        message: Rank TP0 was killed by SIGKILL while pinning.
        remedy: SIGKILL comes from the kernel when memory runs out, or from a person.
    next: SIGKILL comes from the kernel when memory runs out, or from a person.
msg:
  description: Where it lies and what to do next.
  returned: always
  type: str
"""
