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

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.look import look_for_release
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.options import LOOK_OPTIONS


def main() -> None:
    module = AnsibleModule(argument_spec=LOOK_OPTIONS, supports_check_mode=True)
    module.exit_json(changed=False, **look_for_release(module.run_command, module.params))


if __name__ == "__main__":
    main()
