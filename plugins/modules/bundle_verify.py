#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bundle_verify
version_added: 0.1.0
short_description: Hold a bundle against its manifest, to the last byte
description:
  - Reads every file of the bundle and refuses it where one is missing, differs, or came to it after it was sealed, by
    name.
  - With O(keyring) the manifest has to be signed with one of its keys. It changes nothing.
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
    description: Folder of the bundle.
    type: path
    required: true
  keyring:
    description: >-
      File with the public keys that are trusted, as C(gpg --export) writes it. Signatures are not looked at without.
    type: path
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - module: gpufleet.sglang.bundle_seal
"""

EXAMPLES = r"""
- name: Use nothing of a bundle that has changed on its way
  gpufleet.sglang.bundle_verify:
    path: /srv/bundle
    keyring: /usr/share/keyrings/bundles.gpg
"""

RETURN = r"""
lines:
  description: What is in it, for a person.
  returned: success
  type: list
  elements: str
  sample:
    - "wheels/cu130    209 files      4.345 GB"
signed:
  description: Whether a signature was verified.
  returned: success
  type: bool
  sample: true
"""

import shutil
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.bundle.contents import (
    MANIFEST,
    SIGNATURE,
    manifest_files,
    parts,
    summary_lines,
    verify,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.bundle.hashing import files_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.node import text_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal


def _verify_signature(module: AnsibleModule, folder: Path) -> None:
    program = shutil.which("gpgv") or shutil.which("sqv")
    if program is None:
        raise Refusal("bundle_tool_missing", "Neither gpgv nor sqv is on this machine.", "Install gpgv.")
    signature = folder / SIGNATURE
    if not signature.is_file():
        raise Refusal(
            "bundle_signature",
            f"The manifest of {folder} is not signed.",
            f"Expected {SIGNATURE} beside it, made with one of the keys of {module.params['keyring']}.",
        )
    keyring = ["--keyring", module.params["keyring"]]
    files = [str(signature), str(folder / MANIFEST)]
    status, output, errors = module.run_command([program, *keyring, *files])
    if status != 0:
        last = (errors or output).strip().splitlines()[-1:] or [f"status {status}"]
        raise Refusal(
            "bundle_signature",
            f"The signature of the manifest of {folder} is not good: {last[0].rstrip('.')}.",
            f"Use no bundle that is not signed with one of the keys of {module.params['keyring']}.",
        )


def check(module: AnsibleModule) -> dict[str, Any]:
    folder = Path(module.params["path"])
    text = text_of(folder / MANIFEST, 256 << 20)
    expected = manifest_files(text, str(folder))
    if module.params["keyring"]:
        _verify_signature(module, folder)
    verify(expected, files_of(folder), str(folder))
    return {"changed": False, "lines": summary_lines(parts(expected)), "signed": module.params["keyring"] is not None}


def main() -> None:
    module = AnsibleModule(
        argument_spec={"path": {"type": "path", "required": True}, "keyring": {"type": "path"}},
        supports_check_mode=True,
    )
    try:
        module.exit_json(**check(module))
    except Refusal as refusal:
        module.fail_json(**refusal.as_result())


if __name__ == "__main__":
    main()
