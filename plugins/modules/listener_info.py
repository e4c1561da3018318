#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: listener_info
version_added: 0.1.0
short_description: Tell which processes listen on TCP ports
description:
  - Reads C(/proc/net/tcp) and C(/proc/net/tcp6) and names the process and the systemd unit behind each socket
    that listens on one of the ports.
  - Owners of other users' sockets are only seen by root; they are null otherwise.
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
  port:
    description: The TCP port, 1 to 65535. Either this or O(ranges).
    type: int
  address:
    description: Only sockets that would keep a server from binding this address to O(port) are returned.
    type: str
    default: 0.0.0.0
  ranges:
    description: Ranges of ports, each with an address of its own. Either this or O(port).
    type: list
    elements: dict
    suboptions:
      first:
        description: First port, 1 to 65535.
        type: int
        required: true
      last:
        description: Last port, O(ranges[].first) to 65535.
        type: int
        required: true
      address:
        description: As O(address), for this range.
        type: str
        default: 0.0.0.0
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: See who holds the port of the instance
  gpufleet.sglang.listener_info:
    port: 30000
  register: port

- name: See who holds any port of a planned instance
  gpufleet.sglang.listener_info:
    ranges: "{{ plan.unit.ports.values() | list }}"
  register: ports
"""

RETURN = r"""
listeners:
  description: The listening sockets, empty when all ports are free.
  returned: always
  type: list
  elements: dict
  contains:
    address:
      description: Address that the socket is bound to.
      type: str
    port:
      description: The port.
      type: int
    pid:
      description: Process that holds the socket, null if it cannot be seen.
      type: int
    command:
      description: Name of that process.
      type: str
    unit:
      description: systemd unit that the process belongs to, null outside any.
      type: str
  sample:
    - address: 127.0.0.1
      port: 30000
      pid: 2211
      command: sglang::http_se
      unit: sglang-main.service
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.listeners import find_listeners, with_owners


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "port": {"type": "int"},
            "address": {"type": "str", "default": "0.0.0.0"},
            "ranges": {
                "type": "list",
                "elements": "dict",
                "options": {
                    "first": {"type": "int", "required": True},
                    "last": {"type": "int", "required": True},
                    "address": {"type": "str", "default": "0.0.0.0"},
                },
            },
        },
        required_one_of=[("port", "ranges")],
        mutually_exclusive=[("port", "ranges")],
        supports_check_mode=True,
    )
    port = module.params["port"]
    ranges = module.params["ranges"] or []
    if port is not None:
        ranges = [{"first": port, "last": port, "address": module.params["address"]}]
    for one in ranges:
        if not 1 <= one["first"] <= one["last"] <= 65535:
            module.fail_json(msg=f"The ports are {one['first']} to {one['last']}; expected 1 to 65535, in order.")
    held = with_owners(find_listeners(ranges))
    module.exit_json(changed=False, listeners=[one.as_dict() for one in held])


if __name__ == "__main__":
    main()
