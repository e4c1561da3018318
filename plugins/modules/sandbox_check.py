#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sandbox_check
version_added: 0.1.0
short_description: Try what a server needs inside the sandbox of its unit
description:
  - Starts a program in a unit that is made of the server's own unit file and its drop-ins, with nothing changed but
    what it starts. So whatever the sandbox would deny the server is denied to that program, while the old server still
    runs.
  - It fails with what is denied and what to do about it.
  - The unit is a file below C(/run) and is removed again. It is tried as the files are, whether systemd has read them
    or not.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: none
  diff_mode:
    support: none
  platform:
    platforms: linux
options:
  unit:
    description: The systemd unit, with a file in C(/etc/systemd/system).
    type: str
    required: true
  probe:
    description: Program of Python on the node that tries it, C(try_sandbox.py) of the role.
    type: path
    required: true
  python:
    description: Interpreter to run it with.
    type: path
    default: /usr/bin/python3
  needs:
    description: What the server needs, as the program takes it.
    type: dict
    required: true
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Try the sandbox before anything is stopped
  gpufleet.sglang.sandbox_check:
    unit: sglang-main.service
    probe: /opt/sglang/try_sandbox.py
    needs:
      user: sglang
      readable: [/srv/models/Qwen3-32B/config.json]
      writable: [/var/lib/sglang/main]
      numa_nodes: [0, 1]
      lock_bytes: 67108864
      nvidia: true
      gpus: [0, 1]
      address: 127.0.0.1
"""

RETURN = r"""
attempts:
  description:
    - What was tried, each with C(what), C(subject), whether it was C(granted), and C(error) and C(text) if not.
  returned: when the program ran
  type: list
  elements: dict
  sample:
    - {what: lock, subject: 67108864 bytes, granted: true, error: "", text: ""}
denied:
  description: What would be denied to the server, a sentence each; behind the first of a kind, what to do.
  returned: when the program ran
  type: list
  elements: str
  sample: []
"""

import json
import shutil
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.sandbox import denials, trial_unit, without_server

UNITS = Path("/etc/systemd/system")
TRIALS = Path("/run/systemd/system")
PROPERTIES = "Result,ExecMainCode,ExecMainStatus"


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def write_trial(unit: str, trial: str, command: str, output: Path) -> None:
    TRIALS.mkdir(parents=True, exist_ok=True)
    (TRIALS / trial).write_text(trial_unit(_read(UNITS / unit), command, str(output)), encoding="utf-8")
    for place in (UNITS, TRIALS):
        for drop_in in sorted((place / f"{unit}.d").glob("*.conf")):
            folder = TRIALS / f"{trial}.d"
            folder.mkdir(exist_ok=True)
            (folder / drop_in.name).write_text(without_server(_read(drop_in)), encoding="utf-8")


def remove_trial(trial: str, files: list[Path]) -> None:
    shutil.rmtree(TRIALS / f"{trial}.d", ignore_errors=True)
    for path in (TRIALS / trial, *files):
        path.unlink(missing_ok=True)


def tried(module: AnsibleModule, unit: str, probe: str, python: str, needs: dict[str, Any]) -> tuple[str, str]:
    """(what the program printed, how the unit ended)."""
    trial = f"gpufleet-sandbox-{unit}"
    output, asked = Path(f"/run/{trial}.out"), Path(f"/run/{trial}.needs")
    try:
        asked.write_text(json.dumps(needs), encoding="utf-8")
        asked.chmod(0o644)
        write_trial(unit, trial, f"{python} -I {probe} {asked}", output)
        module.run_command(["systemctl", "daemon-reload"], check_rc=True)
        module.run_command(["systemctl", "start", trial])
        _status, shown, _err = module.run_command(["systemctl", "show", f"--property={PROPERTIES}", trial])
        printed = _read(output) if output.exists() else ""
    finally:
        remove_trial(trial, [output, asked])
        module.run_command(["systemctl", "reset-failed", trial])
        module.run_command(["systemctl", "daemon-reload"])
    return printed, ", ".join(shown.split())


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "unit": {"type": "str", "required": True},
            "probe": {"type": "path", "required": True},
            "python": {"type": "path", "default": "/usr/bin/python3"},
            "needs": {"type": "dict", "required": True},
        },
    )
    params = module.params
    try:
        printed, ended = tried(module, params["unit"], params["probe"], params["python"], params["needs"])
    except OSError as error:
        module.fail_json(msg=f"The unit to try the sandbox in cannot be made ({error}). Expected root on the node.")
    try:
        attempts = json.loads(printed)
    except ValueError:
        module.fail_json(
            msg=(
                f"Nothing runs in the sandbox of {params['unit']} ({ended}). Look at what systemd says of it: "
                f"journalctl -u gpufleet-sandbox-{params['unit']}; the running server was left as it is."
            )
        )
    denied = denials(attempts)
    result: dict[str, Any] = {"changed": False, "attempts": attempts, "denied": denied}
    if denied:
        module.fail_json(
            msg=f"{' '.join(denied)} This was tried in the sandbox of {params['unit']}; the running server was left as "
            "it is.",
            **result,
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
