#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: wait_for_drain
version_added: 0.1.0
short_description: Wait until a server has no request left
description:
  - Waits on the node until a server that gets no new requests has finished those that it has, by what its schedulers
    say, or by its gauges where the release does not let them be asked (they may be half a minute old).
  - It does not fail at the deadline, and says how many are left. Whoever stops the server then lets SGLang finish them,
    which it does on SIGTERM, as long as the unit's time to stop allows.
  - A server that does not answer has nothing left to finish, and is not waited for.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: full
    details: Looks once and does not wait.
  diff_mode:
    support: none
  platform:
    platforms: linux
options:
  url:
    description: Where the server answers on the node.
    type: str
    default: http://127.0.0.1:30000
  sglang_version:
    description: Release of the server, which says how it is asked.
    type: str
    required: true
  api_key_file:
    description:
      - File on the node with the server's key, such as the unit's credential. One that is not there is no key, as that
        of a server which was started without.
    type: path
  timeout_seconds:
    description: How long it is waited.
    type: float
    default: 300
  quiet_seconds:
    description:
      - How long it has to be without a request to count as drained, since a router may have passed one on just before
        it let the worker go.
    type: float
    default: 1
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - module: gpufleet.sglang.router_members
  - module: gpufleet.sglang.wait_for_idle
"""

EXAMPLES = r"""
- name: Wait until its requests are done
  gpufleet.sglang.wait_for_drain:
    url: http://127.0.0.1:30000
    sglang_version: 0.5.23
    timeout_seconds: 600
  register: drain
"""

RETURN = r"""
drained:
  description: Whether no request is left; null if the server does not tell.
  returned: success
  type: bool
  sample: true
answers:
  description: Whether the server answers at all.
  returned: success
  type: bool
  sample: true
running:
  description: Requests that it computes, null if it does not tell.
  returned: success
  type: int
  sample: 0
waiting:
  description: Requests that wait for it, null if it does not tell.
  returned: success
  type: int
  sample: 0
most_requests:
  description: The most that it had while it was waited for.
  returned: success
  type: int
  sample: 3
waited_seconds:
  description: How long it was waited.
  returned: success
  type: float
  sample: 4.2
source:
  description: Who told, a path of the server.
  returned: success
  type: str
  sample: /v1/loads
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.access import client_for, read_key
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.draining import drain
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.serving_versions import serving_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import parse_version


def _key_of_what_runs(path: str | None) -> str | None:
    """A server that was started before there was a key was handed none."""
    return read_key(path) if path is not None and Path(path).exists() else None


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "default": "http://127.0.0.1:30000"},
            "sglang_version": {"type": "str", "required": True},
            "api_key_file": {"type": "path", "no_log": False},
            "timeout_seconds": {"type": "float", "default": 300},
            "quiet_seconds": {"type": "float", "default": 1},
        },
        supports_check_mode=True,
    )
    params: dict[str, Any] = module.params
    try:
        facts = serving_facts(parse_version(params["sglang_version"]))
        seconds = 0.0 if module.check_mode else params["timeout_seconds"]
        # An answer of its own takes time beyond that of the wait.
        client = client_for(params["url"], _key_of_what_runs(params["api_key_file"]), None, seconds + 60)
        drained = drain(client, facts, seconds, params["quiet_seconds"])
    except Refusal as refusal:
        module.fail_json(msg=str(refusal), failure=refusal.as_dict())
    module.exit_json(changed=False, **drained.as_dict())


if __name__ == "__main__":
    main()
