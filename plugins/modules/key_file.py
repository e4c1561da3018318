#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: key_file
version_added: 0.1.0
short_description: Hand over a key as a file that only root reads
description:
  - Writes a key into a file of root's with mode C(0400), complete or not at all, and with no line end.
  - Unlike M(ansible.builtin.copy) it makes no temporary file on the controller and none in Ansible's folder on the
    node, where a play that is killed would leave the key behind. With pipelining, which is to be enabled for that, the
    key travels over the connection alone. What an interrupted run has left beside the file is removed.
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
    description: The file. Its folder has to be there.
    type: path
    required: true
  key:
    description: What it shall hold.
    type: str
    required: true
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - module: gpufleet.sglang.keys_info
"""

EXAMPLES = r"""
- name: Hand over the key
  gpufleet.sglang.key_file:
    path: /etc/sglang/keys/main/api_key
    key: "{{ vaulted_api_key }}"
"""

RETURN = r""" # """

import os
import stat
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

MODE = 0o400


def holds(path: Path, content: bytes) -> bool:
    """Whether the file is as it shall be, its owner and mode included."""
    try:
        found = path.lstat()
        return (
            stat.S_ISREG(found.st_mode)
            and (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (os.geteuid(), os.getegid(), MODE)
            and path.read_bytes() == content
        )
    except FileNotFoundError:
        return False


def write(path: Path, unfinished: Path, content: bytes) -> None:
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE)
    with os.fdopen(descriptor, "wb") as file:
        # Whatever the umask says.
        os.fchmod(file.fileno(), MODE)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "key": {"type": "str", "required": True, "no_log": True},
        },
        supports_check_mode=True,
    )
    path, content = Path(module.params["path"]), module.params["key"].encode()
    # Always of the same name: what a run that was killed has left is found by the next.
    unfinished = path.with_name(f".{path.name}.new")
    try:
        left, changed = unfinished.is_symlink() or unfinished.exists(), not holds(path, content)
        if left and not module.check_mode:
            unfinished.unlink()
        if changed and not module.check_mode:
            write(path, unfinished, content)
    except OSError as error:
        module.fail_json(
            msg=f"{error.filename or path}: {error.strerror}; expected a file of root's that can be written."
        )
    module.exit_json(changed=changed)


if __name__ == "__main__":
    main()
