#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: release_check
version_added: 0.1.0
short_description: Import what a release of SGLang consists of, before it is started
description:
  - Imports torch, the kernels and SGLang itself with the interpreter of the environment, with the variables that the
    service will have, and states what is missing, in words about the library and what has it.
  - What has passed is recorded in the environment's own record under O(checked_for), so that it need not be done again.
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
  path:
    description: Folder of the environment.
    type: path
    required: true
  device:
    description: What the server computes on.
    type: str
    choices: [cuda, cpu]
    required: true
  checked_for:
    description: What the check holds for, such as the kinds of GPUs of the node. Done again for another.
    type: str
    required: true
  environment:
    description: Environment variables of the service that decide what is imported. No secrets.
    type: dict
    default: {}
  timeout_seconds:
    description: How long the imports may take.
    type: int
    default: 600
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - module: gpufleet.sglang.release_install
"""

EXAMPLES = r"""
- name: Import everything before the server that runs is stopped
  gpufleet.sglang.release_check:
    path: /opt/sglang/releases/0.5.23-4f1f5a3c7f6e
    device: cuda
    checked_for: NVIDIA H200
"""

RETURN = r"""
imported:
  description: Version of each module that was imported, null where it does not say one. Empty where nothing was done.
  returned: always
  type: dict
  sample:
    torch: 2.14.1+cu130
    sglang: 0.5.23
seconds:
  description: How long the imports took, null where nothing was done.
  returned: always
  type: float
  sample: 21.4
"""

import tempfile
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.imports import (
    PROGRAM,
    read_imports,
    wanted_modules,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.installer_words import last_words
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.node import installed_at
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.record import RECORD, as_text, with_check
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal


def check(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    path = Path(params["path"])
    record = installed_at(path)
    if record is None and not module.check_mode:
        raise Refusal(
            "release_not_installed",
            f"{path} is not an environment that was installed to its end: it has no {RECORD}.",
            "Have it made by release_install, or name the path that release_info returns.",
            {"path": str(path)},
        )
    if record is None or params["checked_for"] in record["checks"]:
        return {"changed": record is None, "imported": {}, "seconds": None}
    if module.check_mode:
        return {"changed": True, "imported": {}, "seconds": None}
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gpufleet-check-") as home:
        # Caches that an import writes are no part of the node.
        environment = {
            **{str(name): str(value) for name, value in params["environment"].items()},
            "HOME": home,
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        status, output, errors = module.run_command(
            [
                *("timeout", "--kill-after=10", str(params["timeout_seconds"])),
                *(f"{path}/bin/python", "-c", PROGRAM, *wanted_modules(params["device"])),
            ],
            environ_update=environment,
            cwd=home,
        )
    imported = read_imports(output, _signal(status), str(path), last_words(errors))
    seconds = round(time.monotonic() - began, 1)
    versions = {one.name: one.version for one in imported}
    temporary = path / f".{RECORD}.new"
    temporary.write_text(
        as_text(
            with_check(
                record, params["checked_for"], {"imported": versions, "seconds": seconds, "at": int(time.time())}
            )
        ),
        encoding="utf-8",
    )
    temporary.chmod(0o644)
    temporary.rename(path / RECORD)
    return {"changed": True, "imported": versions, "seconds": seconds}


def _signal(status: int) -> int:
    """C(139) -> C(-11): what timeout(1) makes of a signal, and what Python does."""
    return 128 - status if 128 < status <= 192 else status


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "device": {"type": "str", "choices": ["cuda", "cpu"], "required": True},
            "checked_for": {"type": "str", "required": True},
            "environment": {"type": "dict", "default": {}},
            "timeout_seconds": {"type": "int", "default": 600},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**check(module))
    except Refusal as refusal:
        module.fail_json(**refusal.as_result())


if __name__ == "__main__":
    main()
