#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_info
version_added: 0.1.0
short_description: Read all that an instance needs to know of its node, in one call
description:
  - Reads what M(gpufleet.sglang.release_info), M(gpufleet.sglang.startup_status_info),
    M(gpufleet.sglang.gpu_topology_info), M(gpufleet.sglang.model_info) and M(gpufleet.sglang.listener_info) read, each
    where it is asked for, and what else is asked for. It changes nothing.
  - A call over ssh costs a node about a quarter of a CPU second before its module has done anything; where nothing has
    changed, this one and M(gpufleet.sglang.small_files) are all that it takes.
  - The module runs again in another interpreter where only that one has nvidia-ml-py, as
    M(gpufleet.sglang.gpu_topology_info) does.
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
  release:
    description: Options of M(gpufleet.sglang.release_info).
    type: dict
  status:
    description:
      - Options of M(gpufleet.sglang.startup_status_info), of which it takes C(unit), C(sglang_version) and
        C(ledger_path).
    type: dict
  topology:
    description: Options of M(gpufleet.sglang.gpu_topology_info).
    type: dict
  release_asks_driver:
    description: Whether the interpreter of the environment that O(release) means is the first of those asked for
      nvidia-ml-py.
    type: bool
    default: true
  models:
    description: Folders of models.
    type: list
    elements: path
    default: []
  user:
    description: The user that serves. It has to be able to read O(models), as far as it is there.
    type: str
  listeners:
    description: Whether to look for every socket that listens.
    type: bool
    default: false
  services:
    description: Names of units of which it is told which ones the node has, running or not.
    type: list
    elements: str
    default: []
  paths:
    description: Paths of which it is told which ones are there.
    type: list
    elements: path
    default: []
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - module: gpufleet.sglang.small_files
"""

EXAMPLES = r"""
- name: Read all that the node has to tell
  gpufleet.sglang.node_info:
    release:
      install_root: /opt/sglang
      instance: main
      version: 0.5.23
      wheelhouse: /srv/wheelhouse
    status:
      unit: sglang-main.service
      sglang_version: 0.5.23
      ledger_path: /var/lib/sglang/main/ledger.json
    topology: {}
    models: [/srv/models/Qwen3-32B]
    user: sglang
    listeners: true
  register: node
"""

RETURN = r"""
release:
  description: As M(gpufleet.sglang.release_info) returns it, null where it was not asked for.
  returned: always
  type: dict
  sample:
    name: 0.5.23-4f1f5a3c7f6e
    installed: true
status:
  description: As M(gpufleet.sglang.startup_status_info) returns it, null where it was not asked for.
  returned: always
  type: dict
  sample:
    unit: {active_state: active, main_pid: 4711, unit_file_state: enabled}
topology:
  description: As M(gpufleet.sglang.gpu_topology_info) returns it, null where it was not asked for.
  returned: always
  type: dict
  sample:
    gpus: []
models:
  description: RV(gpufleet.sglang.model_info#module:model) of each of O(models), in their order.
  returned: always
  type: list
  elements: dict
  sample: []
listeners:
  description: RV(gpufleet.sglang.listener_info#module:listeners), empty where it was not asked for.
  returned: always
  type: list
  elements: dict
  sample: [{address: 127.0.0.1, port: 30000, pid: 4711, command: python, unit: sglang-main.service}]
user_there:
  description: Whether there is such a user.
  returned: always
  type: bool
  sample: true
packages_installed:
  description: Those of RV(gpufleet.sglang.release_info#module:system_packages) that are surely installed.
  returned: always
  type: list
  elements: str
  sample: [python3-venv, python3-dev, g++, numactl]
packages_begun:
  description: Whether a run that was killed has left packages half installed, see M(gpufleet.sglang.package_change).
  returned: always
  type: bool
  sample: false
services:
  description: Those of O(services) that the node has.
  returned: always
  type: list
  elements: str
  sample: [nvidia-persistenced.service]
paths:
  description: Those of O(paths) that are there.
  returned: always
  type: list
  elements: str
  sample: []
failure:
  description: What is wrong, with C(code), C(message), C(remedy) and C(evidence).
  returned: failure
  type: dict
"""

import pwd
from functools import partial
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.gpufleet.sglang.plugins.module_utils.commands import answer_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.look import (
    look_for_release,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.options import LOOK_OPTIONS
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.packages import BEGUN, installed_packages
from ansible_collections.gpufleet.sglang.plugins.module_utils.listeners import find_listeners, with_owners
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.folder_facts import read_model, unreadable_folder
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.look import look
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.node import Node
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.probe import http_status
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.system import read_system
from ansible_collections.gpufleet.sglang.plugins.module_utils.streaming import Child
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.probe import TOPOLOGY_OPTIONS, probe_machine

EVERY_PORT = [{"first": 1, "last": 65535, "address": "0.0.0.0"}]
STATUS_OPTIONS: dict[str, dict[str, Any]] = {
    "unit": {"type": "str", "required": True},
    "sglang_version": {"type": "str", "required": True},
    "ledger_path": {"type": "path"},
}
# One look, of now: nothing is waited for.
ONE_LOOK = {"wait_seconds": 0, "max_lines": 0}


def user_is_there(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def read_status(module: AnsibleModule, options: dict[str, Any]) -> dict[str, Any]:
    run = module.run_command
    node = Node(run=partial(answer_of, run), stream=partial(Child, run), probe=http_status)
    return look(node, {**options, **ONE_LOOK})


def read_models(folders: list[str], user: str | None) -> list[dict[str, Any]]:
    found = []
    for folder in folders:
        try:
            found.append(read_model(Path(folder), user))
        except OSError as error:
            raise unreadable_folder(folder, error) from error
    return found


def services_there(module: AnsibleModule, names: list[str]) -> list[str]:
    if not names:
        return []
    # With none of them it says so by its status.
    asked = ["systemctl", "list-unit-files", "--plain", "--no-legend", "--", *names]
    _status, output, _errors = answer_of(module.run_command, asked)
    return [line.split()[0] for line in output.splitlines() if line.strip()]


def options_of(module: AnsibleModule, name: str, known: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
    """Those of another module, with its defaults; None where they were not given."""
    given = module.params[name]
    if given is None:
        return None
    checked = ArgumentSpecValidator(known).validate(given)
    if checked.error_messages:
        module.fail_json(msg=f"{name}: {' '.join(checked.error_messages)}")
    options: dict[str, Any] = checked.validated_parameters
    return options


def read_node(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    asked = options_of(module, "release", LOOK_OPTIONS)
    status = options_of(module, "status", STATUS_OPTIONS)
    topology = options_of(module, "topology", TOPOLOGY_OPTIONS)
    release = look_for_release(module.run_command, asked) if asked else None
    if topology is not None:
        if release is not None and params["release_asks_driver"]:
            own = f"{release['path']}/bin/python"
            topology = {**topology, "python_candidates": [own, *topology["python_candidates"]]}
        # Before all else that takes time: it may run the module again in another interpreter.
        topology = probe_machine(topology)
    packages = release["system_packages"] if release else []
    return {
        "release": release,
        "status": read_status(module, status) if status else None,
        "topology": topology,
        "models": read_models(params["models"], params["user"]),
        "listeners": [one.as_dict() for one in with_owners(find_listeners(EVERY_PORT))] if params["listeners"] else [],
        "user_there": user_is_there(params["user"]) if params["user"] else False,
        "packages_installed": installed_packages(
            module.run_command, read_system(Tree(Path("/"))).package_manager, packages
        ),
        "packages_begun": BEGUN.exists(),
        "services": services_there(module, params["services"]),
        "paths": [path for path in params["paths"] if Path(path).exists()],
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            # Described by the modules that they are of, and checked as there.
            "release": {"type": "dict"},
            "status": {"type": "dict"},
            "topology": {"type": "dict"},
            "release_asks_driver": {"type": "bool", "default": True},
            "models": {"type": "list", "elements": "path", "default": []},
            "user": {"type": "str"},
            "listeners": {"type": "bool", "default": False},
            "services": {"type": "list", "elements": "str", "default": []},
            "paths": {"type": "list", "elements": "path", "default": []},
        },
        supports_check_mode=True,
    )
    try:
        found = read_node(module)
    except Refusal as refusal:
        module.fail_json(msg=str(refusal), failure=refusal.as_dict())
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
