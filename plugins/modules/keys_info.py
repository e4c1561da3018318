#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: keys_info
version_added: 0.1.0
short_description: Tell whether a unit runs with the keys that its files hold
description:
  - Looks at files of keys on the node, whether only root reads them and whether each holds a key, and compares them
    with the credentials that systemd has handed to the running unit.
  - No key, nor any digest of one, is returned or gets into an argument, a log or a message.
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
  unit:
    description: The systemd unit. Its credentials have the names of O(files).
    type: str
    required: true
  files:
    description: Path of each key's file by the name of the key, for example C(api_key).
    type: dict
    required: true
  encrypted:
    description: Whether the files are encrypted with C(systemd-creds encrypt), each under the name of its key.
    type: bool
    default: false
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - module: gpufleet.sglang.effective_change
"""

EXAMPLES = r"""
- name: See whether the server runs with the key that is in the file
  gpufleet.sglang.keys_info:
    unit: sglang-main.service
    files:
      api_key: /etc/sglang/keys/main/api_key
  register: keys
"""

RETURN = r"""
differing:
  description: Names of the keys that the running unit was not started with, empty where no unit runs.
  returned: always
  type: list
  elements: str
  sample: [api_key]
problems:
  description: What is wrong with files or keys, in sentences that do not hold a key.
  returned: always
  type: list
  elements: str
  sample:
    - "/root/key (api_key) has mode 0644; expected owner root and mode 0600 or 0400."
"""

import stat
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.keys import (
    LARGEST_FILE_BYTES,
    KeyFile,
    differing,
    key_file_problems,
)

CREDENTIALS = Path("/run/credentials")


def _content(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST_FILE_BYTES)
    except OSError:
        return None


def _decrypted(module: AnsibleModule, name: str, path: str) -> bytes | None:
    # As bytes in and out, so that nothing of it becomes text that somebody logs.
    command = ["systemd-creds", "decrypt", f"--name={name}", path, "-"]
    status, out, _err = module.run_command(command, encoding=None)
    return out if status == 0 else None


def read_key_file(module: AnsibleModule, name: str, path: str, encrypted: bool) -> KeyFile | None:
    try:
        # Who a link belongs to says nothing; what it leads to does.
        found = Path(path).stat()
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    content = _decrypted(module, name, path) if encrypted else _content(Path(path))
    return KeyFile(path=path, owner=found.st_uid, mode=found.st_mode, content=content)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "unit": {"type": "str", "required": True},
            "files": {"type": "dict", "required": True, "no_log": False},
            "encrypted": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    unit, encrypted = module.params["unit"], module.params["encrypted"]
    files = {name: read_key_file(module, name, path, encrypted) for name, path in module.params["files"].items()}
    folder = CREDENTIALS / unit
    handed = {name: _content(folder / name) for name in files} if folder.is_dir() else None
    module.exit_json(
        changed=False,
        differing=[] if handed is None else differing(files, handed),
        problems=key_file_problems(files),
    )


if __name__ == "__main__":
    main()
