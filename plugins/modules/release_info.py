#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: release_info
version_added: 0.1.0
short_description: Tell which environment of SGLang a request means on this node, and whether it is there
description:
  - Computes the name of the environment from the pins, the node's Python and its platform, looks whether it is there
    and whole, and states what would keep it from being installed, before anything is touched. It changes nothing.
  - An environment has a folder of its own below C(releases), named by the release of SGLang and a digest of all that
    makes it. The same request always means the same folder.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
  - gpufleet.sglang.release
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    platforms: linux
options:
  instance:
    description: The instance whose link is looked at.
    type: str
    required: true
  system_packages:
    description:
      - Packages of the distribution that come before the installation; an interpreter may be among them. If not given,
        those that SGLang needs at run time, by their names in Debian, Ubuntu, RHEL and what is like them.
    type: list
    elements: str
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - module: gpufleet.sglang.release_install
  - module: gpufleet.sglang.release_cleanup
"""

EXAMPLES = r"""
- name: See which environment is meant
  gpufleet.sglang.release_info:
    install_root: /opt/sglang
    instance: main
    version: 0.5.23
    wheelhouse: /srv/wheelhouse
    requirements: "{{ lookup('ansible.builtin.file', 'constraints.txt') }}"
  register: release
"""

RETURN = r"""
name:
  description: Name of the environment, null where it cannot be told yet.
  returned: always
  type: str
  sample: 0.5.23-4f1f5a3c7f6e
digest:
  description: Digest of everything that makes it, null where it cannot be told yet.
  returned: always
  type: str
  sample: 4f1f5a3c7f6e1b6e0c6c3a5d0f5c8e2d7f3b1a9c0e4d6f8a2b4c6e8f0a1b2c3d
path:
  description: Folder of the environment.
  returned: always
  type: str
  sample: /opt/sglang/releases/0.5.23-4f1f5a3c7f6e
installed:
  description: Whether it is there and whole.
  returned: always
  type: bool
  sample: true
checks:
  description: Keys of the checks that it has passed, see M(gpufleet.sglang.release_check).
  returned: always
  type: list
  elements: str
  sample: [cpu]
link:
  description: Where the link of the instance leads, null where there is none.
  returned: always
  type: str
  sample: /opt/sglang/releases/0.5.23-4f1f5a3c7f6e
others:
  description: Names of the other environments, whole or not.
  returned: always
  type: list
  elements: str
  sample: []
python:
  description: Version of the interpreter, null where it does not run.
  returned: always
  type: str
  sample: 3.11.2
installer:
  description: What would install it.
  returned: always
  type: str
  sample: pip
interpreter:
  description: The interpreter that the environment is made from, there or not.
  returned: always
  type: str
  sample: /usr/bin/python3
system_packages:
  description: Packages of the distribution that come before the installation.
  returned: always
  type: list
  elements: str
  sample: [python3-venv, python3-dev, g++, numactl]
needed_bytes:
  description: Room that the installation needs, null where it is installed or cannot be told.
  returned: always
  type: int
  sample: 3875000000
free_bytes:
  description: Room that there is.
  returned: always
  type: int
  sample: 68000000000
refusals:
  description: What keeps it from being installed, empty when nothing does.
  returned: always
  type: list
  elements: dict
  contains:
    code:
      description: Stable name.
      type: str
    message:
      description: What was found.
      type: str
    remedy:
      description: What to do.
      type: str
    evidence:
      description: Computed values behind it.
      type: dict
  sample: []
"""

import shutil
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.installers import chosen_installer
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.node import (
    environments_below,
    installed_at,
    read_place,
    read_python,
    read_wheelhouse,
    unpacked_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.options import (
    RELEASE_OPTIONS,
    asked_from,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.release import (
    checked_place,
    checked_python,
    checked_version,
    comes_with_packages,
    needed_bytes,
    planned_release,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.system import read_system


def look(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    asked = asked_from(params, read_system(Tree(Path("/"))))
    releases = Path(params["install_root"], "releases")
    link = Path(params["install_root"], params["instance"])
    there = environments_below(releases)
    found: dict[str, Any] = {
        "name": None,
        "digest": None,
        "path": f"{releases}/none",
        "installed": False,
        "checks": [],
        "link": str(link.readlink()) if link.is_symlink() else None,
        "others": [one.name for one in there],
        "python": None,
        "interpreter": asked.python,
        "system_packages": list(asked.system_packages),
        "installer": "uv" if asked.installer == "uv" else "pip",
        "needed_bytes": None,
        "free_bytes": read_place(params["install_root"]).free_bytes,
        "refusals": [],
    }
    try:
        if params["instance"] == releases.name:
            raise Refusal(
                "instance_named_as_folder",
                f"sglang_instance is {params['instance']}, which is the folder of the environments.",
                "Expected another name.",
            )
        checked_version(asked.version)
        python = read_python(module.run_command, asked.python)
        if python is None and comes_with_packages(asked):
            return found
        found["python"] = python.version if python else None
        python = checked_python(asked, python)
        wheelhouse = read_wheelhouse(asked.wheelhouse) if asked.wheelhouse else None
        if asked.wheelhouse and wheelhouse is None:
            raise Refusal(
                "wheelhouse_missing",
                f"There is no folder {asked.wheelhouse} on this node.",
                "Mount it or carry it over, or unset sglang_wheelhouse to install from an index.",
                {"wheelhouse": asked.wheelhouse},
            )
        release = planned_release(asked, python, wheelhouse)
        path = releases / release.name
        record = installed_at(path, release.digest)
        found.update(
            name=release.name,
            digest=release.digest,
            path=str(path),
            installed=record is not None,
            checks=sorted((record or {}).get("checks") or {}),
            others=[one.name for one in there if one.name != release.name],
            installer=chosen_installer(
                asked.installer,
                shutil.which("uv"),
                [one.file for one in wheelhouse.wheels] if wheelhouse else [],
                asked.uv_version,
            ),
        )
        if record is None:
            unpacked = unpacked_bytes(asked.wheelhouse, release.wheels) if asked.wheelhouse else None
            found["needed_bytes"] = needed_bytes(asked.device, unpacked)
            checked_place(read_place(str(releases)), found["needed_bytes"])
    except Refusal as refusal:
        found["refusals"].append(refusal.as_dict())
    return found


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **RELEASE_OPTIONS,
            "instance": {"type": "str", "required": True},
            "system_packages": {"type": "list", "elements": "str"},
        },
        supports_check_mode=True,
    )
    module.exit_json(changed=False, **look(module))


if __name__ == "__main__":
    main()
