#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_report_info
version_added: 0.1.0
short_description: Read all that a report needs of a node, in one call
description:
  - Reads the instances of a node with their units, ranks, ledgers and settings, its GPUs, NUMA nodes and memory, and
    the parts of its stack that have releases or problems.
  - It is what M(gpufleet.sglang.instances_info), M(gpufleet.sglang.startup_status_info),
    M(gpufleet.sglang.gpu_topology_info) and M(gpufleet.sglang.host_stack_info) read, in one process and trimmed, so
    that a fleet costs one call a node. The log of a start is read only where that start is not the proven one.
  - Nothing that it returns holds a key. What files of keys and credentials of running units hold is replaced wherever
    it stands, and so are values of variables that may be secret, and what looks like a key or a token.
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
  config_root:
    description: Folder of the configuration files of the instances.
    type: path
    default: /etc/sglang
  instances:
    description: Instances to read; all that the node has if not given.
    type: list
    elements: str
  details:
    description:
      - Also returns what an incident needs, which is the whole survey, unit files, configurations, environments, and
        the journal of a start.
    type: bool
    default: false
  invocation_id:
    description: The start whose log is read, with O(details). The present or last one of each instance if not given.
    type: str
  journal_lines:
    description: The most lines of the journal of a start, with O(details). A quarter is of its beginning.
    type: int
    default: 4000
  journal_bytes:
    description: The most bytes of the journal of a start, with O(details).
    type: int
    default: 1000000
  conceal:
    description:
      - What is to be returned in RV(concealed) without the secrets of this node, as JSON. Only the node knows them all.
    type: str
  nvml_timeout_seconds:
    description: How long asking the NVIDIA driver may take in all.
    type: float
    default: 60
notes:
  - Needs root for what only root may read.
seealso:
  - module: gpufleet.sglang.incident_bundle
  - plugin: gpufleet.sglang.report_facts
    plugin_type: filter
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Read the node
  gpufleet.sglang.node_report_info:
  register: answer

- name: Read what an incident needs of one instance
  gpufleet.sglang.node_report_info:
    instances: [main]
    details: true
    journal_lines: 1000
"""

RETURN = r"""
schema:
  description: Form of what follows.
  returned: always
  type: int
  sample: 1
taken_at:
  description: When it was read, in UNIX seconds.
  returned: always
  type: float
  sample: 1796075840.25
hostname:
  description: Name of the node as its kernel has it.
  returned: always
  type: str
  sample: gpu-001
instances:
  description: The instances, by their names.
  returned: always
  type: list
  elements: dict
  contains:
    instance:
      description: Name of the instance.
      type: str
      sample: main
    unit:
      description: Its unit.
      type: str
      sample: sglang-main.service
    sglang_version:
      description: The release that its unit starts; null where the unit does not name one.
      type: str
      sample: 0.5.23
    settings:
      description: The flat settings of its configuration, as texts.
      type: dict
      sample: {served-model-name: rehearsal-llama, tp-size: "2"}
    look:
      description: What M(gpufleet.sglang.startup_status_info) returns, but for what stands beside it here.
      type: dict
    ledger:
      description: The record of the last proven start, empty where there is none.
      type: dict
    ledger_in_force:
      description: Whether the start that RV(instances[].ledger) records is the one that runs.
      type: bool
      sample: true
    problems:
      description: What could not be read.
      type: list
      elements: dict
    files:
      description: With O(details) the unit file and its drop-ins, by their paths.
      type: dict
    config:
      description: With O(details) the text of the configuration.
      type: str
    environment:
      description: With O(details) the variables of the service. Values that may be secret are V(***).
      type: dict
      sample: {HF_TOKEN: "***", OMP_NUM_THREADS: "8"}
    journal:
      description:
        - With O(details) the C(lines) of one start, how much was C(left_out_lines) and C(left_out_bytes), how many
          lines were shortened, whether the log was read to its end (C(complete)), and what the C(kernel) warned of
          meanwhile.
        - Null where no start is known.
      type: dict
concealed:
  description: What O(conceal) holds, without secrets; null where nothing was given.
  returned: always
  type: dict
topology:
  description: >-
    What M(gpufleet.sglang.gpu_topology_info) returns; without O(details) only C(gpus), C(numa_nodes), C(host),
    C(driver) and C(problems).
  returned: always
  type: dict
stack:
  description: >-
    What M(gpufleet.sglang.host_stack_info) returns; without O(details) only C(os), C(running_kernel), C(next_boot),
    C(driver), C(reboot) and C(problems).
  returned: always
  type: dict
"""

import os
import time
from functools import partial
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.commands import answer_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.node_facts.reading import (
    instance_names,
    read_instance,
    without_secrets_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.redaction.secrets import concealed_in
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.node import Node
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.probe import http_status
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.reading import read_stack
from ansible_collections.gpufleet.sglang.plugins.module_utils.streaming import Child
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.interpreters import PYTHON_CANDIDATES
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.probe import probe_machine

SCHEMA = 1
TOPOLOGY = ("gpus", "numa_nodes", "host", "driver", "problems")
STACK = ("os", "running_kernel", "next_boot", "driver", "reboot", "problems")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "config_root": {"type": "path", "default": "/etc/sglang"},
            "instances": {"type": "list", "elements": "str"},
            "details": {"type": "bool", "default": False},
            "invocation_id": {"type": "str"},
            "journal_lines": {"type": "int", "default": 4000},
            "journal_bytes": {"type": "int", "default": 1000000},
            "conceal": {"type": "str"},
            "nvml_timeout_seconds": {"type": "float", "default": 60},
        },
        supports_check_mode=True,
    )
    params = module.params
    run = module.run_command
    asked = {"root": "/", "nvml": True, "nvml_library": None, "python_candidates": PYTHON_CANDIDATES}
    # Before all else, since it may run the module again under another interpreter.
    topology = probe_machine({**asked, "nvml_timeout_seconds": params["nvml_timeout_seconds"]})
    stack = read_stack(Path("/"), lambda command: answer_of(run, command)).as_dict()
    if not params["details"]:
        topology = {name: topology[name] for name in TOPOLOGY}
        stack = {name: stack[name] for name in STACK}
    node = Node(run=partial(answer_of, run), stream=partial(Child, run), probe=http_status)
    everything = instance_names(node, params["config_root"])
    names = params["instances"] if params["instances"] is not None else everything
    module.exit_json(
        changed=False,
        schema=SCHEMA,
        taken_at=time.time(),
        hostname=os.uname().nodename,
        instances=[read_instance(node, name, params) for name in names],
        concealed=without_secrets_of(node, everything, params),
        topology=concealed_in(topology),
        stack=concealed_in(stack),
    )


if __name__ == "__main__":
    main()
