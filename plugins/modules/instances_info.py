#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: instances_info
version_added: 0.1.0
short_description: Tell which instances a node has, and what is reserved for them
description:
  - Reads what the role has reserved for each instance, and the states of their units.
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
    description: Folder of the configuration files.
    type: path
    default: /etc/sglang
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: See what else is on the node
  gpufleet.sglang.instances_info:
  register: there
"""

RETURN = r"""
reserved:
  description:
    - What is reserved for each instance, by its name, C(gpus) and C(ports) as its plan has them. What cannot be read is
      left out.
  returned: always
  type: dict
  sample:
    main:
      gpus: [0, 1]
      ports: {http: {first: 30000, last: 30000, address: 127.0.0.1}}
units:
  description: State of the unit of each instance, by the name of the instance.
  returned: always
  type: dict
  sample: {main: active}
"""

import json
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.instances.reserved import (
    ENDING,
    instance_of_unit,
    reservation_of,
    states_of,
)

UNITS = Path("/etc/systemd/system")


def read_reserved(folder: Path) -> dict[str, Any]:
    found = {}
    for path in sorted(folder.glob(f"*{ENDING}")) if folder.is_dir() else []:
        try:
            kept = reservation_of(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            continue
        if kept is not None:
            found[path.name[: -len(ENDING)]] = kept
    return found


def main() -> None:
    module = AnsibleModule(
        argument_spec={"config_root": {"type": "path", "default": "/etc/sglang"}}, supports_check_mode=True
    )
    names = sorted(filter(None, map(instance_of_unit, (path.name for path in UNITS.glob("sglang-*.service")))))
    states = {}
    if names:
        units = [f"sglang-{name}.service" for name in names]
        _status, out, _err = module.run_command(["systemctl", "show", "--property=Id,ActiveState", *units])
        states = states_of(out)
    module.exit_json(changed=False, reserved=read_reserved(Path(module.params["config_root"])), units=states)


if __name__ == "__main__":
    main()
