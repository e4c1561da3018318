#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: router_info
version_added: 0.1.0
short_description: See who is in service behind a router
description:
  - Asks the router of this host for its workers, and reads who is meant to be in service and who is held out, which is
    nobody before the first run of the role. Changes nothing. A router that does not answer is told as such and is no
    failure.
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
  timeout_seconds:
    description: How long an answer is waited for.
    type: float
    default: 10
  access:
    description: The file that says how the router is reached, as the role P(gpufleet.sglang.router#role) writes it.
    type: path
    default: /etc/sglang-router/access.json
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - module: gpufleet.sglang.router_members
"""

EXAMPLES = r"""
- name: See who serves
  gpufleet.sglang.router_info:
  register: router

- name: Say how many
  ansible.builtin.debug:
    msg: "{{ router.in_service | length }} of {{ router.members | length }} workers are in service"
"""

RETURN = r"""
running:
  description: Whether the router answers.
  returned: success
  type: bool
  sample: true
problem:
  description: Why it is not known what the router has, null if it answers.
  returned: success
  type: str
  sample: null
minimum_in_service:
  description: Number of workers that have to stay in service.
  returned: success
  type: int
  sample: 1
members:
  description: Who is meant to be in service, and who is held out.
  returned: success
  type: list
  elements: dict
  sample:
    - {url: "http://10.213.77.182:30000", kind: regular, bootstrap_port: null, held_by: null, reason: null}
workers:
  description: What the router says of its workers. How much load it counts depends on its policy.
  returned: success
  type: list
  elements: dict
  sample:
    - {url: "http://10.213.77.182:30000", kind: regular, healthy: true, load: 0, model: /srv/models/rehearsal-llama}
in_service:
  description: The workers that take requests, which are wanted, registered and healthy.
  returned: success
  type: list
  elements: str
  sample: ["http://10.213.77.182:30000"]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.access import (
    DEFAULT_PATH,
    client_of,
    members_at,
    read_access,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.registry import in_service
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.settling import workers_of


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "timeout_seconds": {"type": "float", "default": 10},
            "access": {"type": "path", "default": DEFAULT_PATH},
        },
        supports_check_mode=True,
    )
    try:
        access = read_access(module.params["access"])
        members = members_at(access.members) or ()
        client = client_of(access, module.params["timeout_seconds"])
    except Refusal as refusal:
        module.fail_json(msg=str(refusal), failure=refusal.as_dict())
    problem = None
    try:
        workers = workers_of(client)
    except Refusal as refusal:
        workers, problem = (), str(refusal)
    module.exit_json(
        changed=False,
        running=problem is None,
        problem=problem,
        minimum_in_service=access.minimum,
        members=[one.as_dict() for one in members],
        workers=[one.as_dict() for one in workers],
        in_service=sorted(in_service(members, workers)),
    )


if __name__ == "__main__":
    main()
