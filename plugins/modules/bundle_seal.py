#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bundle_seal
version_added: 0.1.0
short_description: Write the manifest of a bundle, with the hash of every file, and sign it
description:
  - Reads every file of the bundle, writes C(bundle.json) with its size and SHA-256, and signs it where a key is given.
  - Wheels, packages and models are held against their own lists first, so that nothing is sealed that changed here.
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
  facts:
    description: What else the manifest says, such as releases and targets.
    type: dict
    default: {}
  sign_with:
    description: Fingerprint of a secret key that gpg of this machine has. Not signed if not given.
    type: str
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - module: gpufleet.sglang.bundle_verify
"""

EXAMPLES = r"""
- name: Seal the bundle
  gpufleet.sglang.bundle_seal:
    path: /srv/bundle
    sign_with: 0123456789ABCDEF0123456789ABCDEF01234567
"""

RETURN = r"""
lines:
  description: What is in it, for a person.
  returned: always
  type: list
  elements: str
  sample:
    - "wheels/cu130    209 files      4.345 GB"
size_bytes:
  description: What it takes.
  returned: always
  type: int
  sample: 4345130510
files:
  description: Number of files.
  returned: always
  type: int
  sample: 209
"""

import shutil
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.bundle.contents import (
    MANIFEST,
    SIGNATURE,
    manifest_text,
    parts,
    summary_lines,
    verify_models,
    verify_sums,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.bundle.hashing import files_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.node import SUMS, text_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

# The name that role model_store has for it.
_MODEL_MANIFEST = ".manifest.json"


def _sign(module: AnsibleModule, folder: Path) -> None:
    if shutil.which("gpg") is None:
        raise Refusal("bundle_tool_missing", "gpg is not on this machine.", "Install gnupg, or do not sign.")
    key = module.params["sign_with"]
    signature = folder / SIGNATURE
    status, _output, errors = module.run_command(
        ["gpg", "--batch", "--yes", "--local-user", key, "--armor", "--detach-sign", "--output", str(signature)]
        + [str(folder / MANIFEST)]
    )
    if status != 0:
        last = errors.strip().splitlines()[-1] if errors.strip() else f"status {status}"
        raise Refusal(
            "bundle_signature",
            f"gpg cannot sign with {key}: {last.rstrip('.')}.",
            "Name a secret key that it has (gpg --list-secret-keys).",
            {"key": key},
        )


def seal(module: AnsibleModule) -> dict[str, Any]:
    folder = Path(module.params["path"])
    found = files_of(folder)
    models = {
        str(Path(name).parent): text_of(folder / name) or ""
        for name in found
        if name.startswith("models/") and Path(name).name == _MODEL_MANIFEST
    }
    verify_models(models, found)
    listed = [name for name in found if Path(name).name in (SUMS, "Packages") and "/" in name]
    verify_sums({name: text_of(folder / name, 64 << 20) or "" for name in listed}, found)
    text = manifest_text(found.values(), module.params["facts"])
    manifest, signature = folder / MANIFEST, folder / SIGNATURE
    signed = module.params["sign_with"] is not None
    changed = text_of(manifest, 256 << 20) != text or signed != signature.exists()
    if changed and not module.check_mode:
        signature.unlink(missing_ok=True)
        manifest.write_text(text, encoding="utf-8")
        if signed:
            _sign(module, folder)
    of_parts = parts(found.values())
    return {
        "changed": changed,
        "lines": summary_lines(of_parts),
        "files": sum(one["files"] for one in of_parts.values()),
        "size_bytes": sum(one["size_bytes"] for one in of_parts.values()),
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "facts": {"type": "dict", "default": {}},
            "sign_with": {"type": "str"},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**seal(module))
    except Refusal as refusal:
        module.fail_json(**refusal.as_result())


if __name__ == "__main__":
    main()
