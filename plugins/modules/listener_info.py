#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: listener_info
version_added: 0.1.0
short_description: Tell which process listens on a TCP port
description:
  - Reads C(/proc/net/tcp) and C(/proc/net/tcp6) and names the process and the systemd unit behind each socket
    that listens on the port.
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
    description: The TCP port, 1 to 65535.
    type: int
    required: true
  address:
    description: Only sockets that would keep a server from binding this address are returned.
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
"""

RETURN = r"""
listeners:
  description: The listening sockets, empty when the port is free.
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

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.sockets import (
    Listener,
    listening,
    overlapping,
    socket_inode,
    unit_of,
)

PROC = Path("/proc")


def _sockets_held(process: Path) -> Iterator[int]:
    try:
        links = list((process / "fd").iterdir())
    except OSError:
        return
    for link in links:
        try:
            inode = socket_inode(str(link.readlink()))
        except OSError:
            continue
        if inode is not None:
            yield inode


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _with_owners(listeners: list[Listener]) -> list[Listener]:
    wanted = {one.inode for one in listeners}
    owners: dict[int, Path] = {}
    processes = sorted((path for path in PROC.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    for process in processes if wanted else []:
        for inode in _sockets_held(process):
            if inode in wanted:
                owners.setdefault(inode, process)
    return [
        replace(
            one,
            pid=int(owners[one.inode].name),
            command=_text(owners[one.inode] / "comm").strip() or None,
            unit=unit_of(_text(owners[one.inode] / "cgroup")),
        )
        if one.inode in owners
        else one
        for one in listeners
    ]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "port": {"type": "int", "required": True},
            "address": {"type": "str", "default": "0.0.0.0"},
        },
        supports_check_mode=True,
    )
    port = module.params["port"]
    if not 1 <= port <= 65535:
        module.fail_json(msg=f"port is {port}; expected 1 to 65535.")
    found = [one for table in ("tcp", "tcp6") for one in listening(_text(PROC / "net" / table), port)]
    held = _with_owners(overlapping(found, module.params["address"]))
    module.exit_json(changed=False, listeners=[one.as_dict() for one in held])


if __name__ == "__main__":
    main()
