#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: package_change
version_added: 0.1.0
short_description: Finish what a killed run has left half installed
description:
  - A run that is killed while dpkg is at work leaves packages half installed, and apt refuses to work from then on.
    What others have left in that state is for somebody to look at; what a run of ours has left can be finished.
  - So a run keeps a record on the node for as long as it changes packages, and the next one goes by it.
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
  state:
    description:
      - V(begun) writes the record, right before packages are changed, and V(done) removes it, right after.
      - V(mended) finishes what a run has begun and not done, with C(dpkg --configure -a) and
        C(apt-get --fix-broken install), and fails where packages are half installed still. Without a record it does
        nothing. Where there is no dpkg only the record is removed.
    type: str
    choices: [begun, done, mended]
    required: true
  lock_timeout_seconds:
    description: How long to wait for whoever else installs packages, such as the apt of the run that was killed.
    type: int
    default: 300
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - module: ansible.builtin.apt
"""

EXAMPLES = r"""
- name: Finish what an earlier run has begun
  gpufleet.sglang.package_change:
    state: mended

- name: Say that packages are about to change
  gpufleet.sglang.package_change:
    state: begun

- name: Install it
  ansible.builtin.apt:
    name: numactl

- name: Say that they have changed
  gpufleet.sglang.package_change:
    state: done
"""

RETURN = r"""
interrupted:
  description: Whether a run had begun to change packages and was not done.
  returned: always
  type: bool
  sample: false
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.packages import BEGUN as RECORD

TEXT = "A run of gpufleet.sglang is changing packages.\n"


def commands(dpkg: str, apt_get: str, lock_timeout_seconds: int) -> list[list[str]]:
    patient = [apt_get, "-o", f"DPkg::Lock::Timeout={lock_timeout_seconds}"]
    return [
        # Waits for apt, which goes on without the controller that was lost.
        [*patient, "check"],
        [dpkg, "--configure", "-a", "--force-confdef", "--force-confold"],
        [*patient, "--fix-broken", "--yes", "install"],
    ]


def half_installed(module: AnsibleModule, dpkg: str, apt_get: str) -> str:
    """What dpkg and apt say of it, empty where all is well."""
    _status, audited, _errors = module.run_command([dpkg, "--audit"])
    status, _checked, errors = module.run_command([apt_get, "check"])
    return " ".join(f"{audited} {errors if status else ''}".split())


def mend(module: AnsibleModule) -> None:
    dpkg, apt_get = module.get_bin_path("dpkg"), module.get_bin_path("apt-get")
    if dpkg and apt_get:
        module.run_command_environ_update = {"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
        for command in commands(dpkg, apt_get, module.params["lock_timeout_seconds"]):
            # One of them may fail for what the next one mends; the state in the end counts.
            module.run_command(command)
        left = half_installed(module, dpkg, apt_get)
        if left:
            module.fail_json(
                msg=f"An earlier run was killed while it changed packages, and they cannot be finished: {left} "
                "Expected none half installed. Run dpkg --configure -a and apt-get --fix-broken install on the node, "
                "see what keeps them from ending, and run the play again.",
                interrupted=True,
            )
    RECORD.unlink()


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["begun", "done", "mended"], "required": True},
            "lock_timeout_seconds": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    state, there = module.params["state"], RECORD.exists()
    changed = there if state in ("done", "mended") else not there
    try:
        if changed and not module.check_mode:
            if state == "mended":
                mend(module)
            elif state == "done":
                RECORD.unlink()
            else:
                RECORD.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                RECORD.write_text(TEXT, encoding="utf-8")
    except OSError as error:
        module.fail_json(
            msg=f"{error.filename or RECORD}: {error.strerror}; expected a folder in which root can write. No package "
            "was changed."
        )
    module.exit_json(changed=changed, interrupted=there)


if __name__ == "__main__":
    main()
