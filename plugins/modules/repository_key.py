#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: repository_key
version_added: 0.1.0
short_description: Have the key of a package repository, if it is the one that is expected
description:
  - Whoever holds the key of a repository may install anything as root on every node. So the key is read, its
    fingerprint compared, and only then written to where the package manager takes it from.
  - A file that holds any other key beside the expected one is refused as well, since package managers trust all of
    them.
  - Fingerprints are those of OpenPGP version 4 and 6 keys (RFC 9580, section 5.5.4); neither gpg nor apt is needed.
  - Where the key is there already, nothing is fetched.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: full
    details: The key is fetched and compared all the same.
  diff_mode:
    support: full
  platform:
    platforms: linux
options:
  url:
    description: Where the key is, with C(http:), C(https:) or C(file:), or as a path on the node.
    type: str
    required: true
  path:
    description: The file that it is written to, whose folder is there. It gets mode 0644.
    type: path
    required: true
  fingerprint:
    description: Fingerprint of the one key, in hexadecimal digits, with or without blanks.
    type: str
    required: true
  timeout_seconds:
    description: How long the answer may take.
    type: int
    default: 30
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - module: ansible.builtin.deb822_repository
  - module: ansible.builtin.rpm_key
"""

EXAMPLES = r"""
- name: Have NVIDIA's key
  gpufleet.sglang.repository_key:
    url: https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/3bf863cc.pub
    path: /etc/apt/keyrings/nvidia.asc
    fingerprint: EB69 3B30 35CD 5710 E231 E123 A4B4 6996 3BF8 63CC

- name: Compare it before anything is touched
  gpufleet.sglang.repository_key:
    url: file:///srv/repositories/debian13/x86_64/key.pub
    path: /etc/apt/keyrings/nvidia.asc
    fingerprint: EB693B3035CD5710E231E123A4B469963BF863CC
  check_mode: true
"""

RETURN = r"""
fingerprint:
  description: That of the key, in capital hexadecimal digits.
  returned: success
  type: str
  sample: EB693B3035CD5710E231E123A4B469963BF863CC
"""

import os
import tempfile
from pathlib import Path
from urllib.error import URLError

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url

from ansible_collections.gpufleet.sglang.plugins.module_utils.openpgp import fingerprints

# A key with many signatures has some 100 kB.
LARGEST_KEY_BYTES = 4 << 20


def read_key(url: str, timeout_seconds: int) -> bytes:
    """Raises OSError."""
    if url.startswith(("http:", "https:")):
        return bytes(open_url(url, timeout=timeout_seconds).read(LARGEST_KEY_BYTES))
    with Path(url[len("file:") :] if url.startswith("file:") else url).open("rb") as file:
        return file.read(LARGEST_KEY_BYTES)


def fingerprints_of(key: bytes) -> list[str]:
    try:
        return list(fingerprints(key))
    except ValueError:
        return []


def fingerprints_at(path: Path) -> list[str]:
    try:
        return fingerprints_of(path.read_bytes())
    except OSError:
        return []


def write(module: AnsibleModule, path: Path, key: bytes) -> None:
    descriptor, name = tempfile.mkstemp(dir=module.tmpdir)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key)
    module.atomic_move(name, str(path))


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "path": {"type": "path", "required": True},
            "fingerprint": {"type": "str", "required": True},
            "timeout_seconds": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    url, path = module.params["url"], Path(module.params["path"])
    expected = "".join(module.params["fingerprint"].split()).upper()
    there = fingerprints_at(path)
    changed = there != [expected]
    if changed:
        try:
            key = read_key(url, module.params["timeout_seconds"])
        except (URLError, OSError) as error:
            module.fail_json(
                msg=f"The key of the repository cannot be read from {url}: {error}. Expected the key {expected} there; "
                "check address and network, or put the key into a file and name that. Nothing was changed."
            )
        found = fingerprints_of(key)
        if found != [expected]:
            module.fail_json(
                msg=f"The key at {url} has the fingerprint {' and '.join(found) or 'of no OpenPGP key'}; expected "
                f"{expected} and no other. Do not trust that repository before you know why: compare with what its "
                "owner publishes, and expect another fingerprint only if the key was changed. Nothing was changed."
            )
        if not module.check_mode:
            write(module, path, key)
    if path.exists():
        changed = module.set_mode_if_different(str(path), 0o644, changed)
    module.exit_json(
        changed=changed,
        fingerprint=expected,
        diff={"before": "".join(f"{one}\n" for one in there), "after": f"{expected}\n", "before_header": str(path)},
    )


if __name__ == "__main__":
    main()
