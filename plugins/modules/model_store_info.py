#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: model_store_info
version_added: 0.1.0
short_description: Tell which revisions of which models a node has, and who uses them
description:
  - Lists the revisions in a store of M(gpufleet.sglang.model_snapshot) with their size, what is wrong with them by the
    sizes and times of their files, and, with O(uses), which units, configurations and processes of the node use them.
  - Lists partial downloads, and whether a worker is at them.
  - Reads no weights and changes nothing.
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
  root:
    description: Folder of the store.
    type: path
    default: /srv/models
  names:
    description: Models to tell of. All if empty.
    type: list
    elements: str
    default: []
  uses:
    description: Whether it is looked for who uses what, which takes a look at every process of the node.
    type: bool
    default: false
  reference_paths:
    description: See O(gpufleet.sglang.model_prune#module:reference_paths).
    type: list
    elements: path
    default: []
seealso:
  - module: gpufleet.sglang.model_snapshot
  - module: gpufleet.sglang.model_prune
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: See what the node has
  gpufleet.sglang.model_store_info:
    uses: true
  register: store
"""

RETURN = r"""
models:
  description: Revisions by model.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the model.
      type: str
      sample: Qwen3-32B
    revision:
      description: Name of the revision.
      type: str
      sample: 9216db5781bf21249d130ec9da846c4624c16137
    path:
      description: Its folder.
      type: str
      sample: /srv/models/Qwen3-32B/9216db5781bf21249d130ec9da846c4624c16137
    current:
      description: Whether the link C(current) leads to it.
      type: bool
      sample: true
    content_sha256:
      description: Digest over all files; null where there is no usable manifest.
      type: str
      sample: 3f1d5c0e4f6a8b2c9d7e1f3a5b7c9d1e3f5a7b9c1d3e5f7a9b1c3d5e7f9a1b3c
    size_bytes:
      description: Size of all files.
      type: int
      sample: 65540000000
    files:
      description: How many files it has.
      type: int
      sample: 29
    origin:
      description: Where it came from.
      type: dict
      sample: {kind: hub, location: https://huggingface.co/Qwen/Qwen3-32B}
    published_at:
      description: When it was published, in seconds since 1970.
      type: float
      sample: 1767225600.0
    bad:
      description: >-
        Files that are missing or have another size, or whose time is not that at which they were read (V(suspect)).
      type: list
      elements: dict
      sample: [{path: model-00004-of-00017.safetensors, state: missing}]
    used_by:
      description: Who uses it; null where that was not looked for.
      type: list
      elements: str
      sample: [/etc/sglang/main.yaml]
partial:
  description: Partial downloads, with C(path), C(size_bytes), C(age_days) and C(busy).
  returned: success
  type: list
  elements: dict
  sample: []
free_bytes:
  description: What is free on the disk of the store.
  returned: success
  type: int
  sample: 1800000000000
not_looked_at:
  description: What could not be looked at for who uses what.
  returned: success
  type: list
  elements: str
  sample: []
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.layout import place_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.usage import users_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.verifying import GOOD
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.disk import disk_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.pruning import leftovers, links
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.published import (
    Published,
    current_of,
    models,
    quick_check,
    revisions,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.using import Finds, Scope, look, own_pids


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "default": "/srv/models"},
            "names": {"type": "list", "elements": "str", "default": []},
            "uses": {"type": "bool", "default": False},
            "reference_paths": {"type": "list", "elements": "path", "default": []},
        },
        supports_check_mode=True,
    )
    try:
        result = read_store(module.params)
    except Refusal as refusal:
        module.fail_json(msg=str(refusal), failure=refusal.as_dict())
    module.exit_json(changed=False, **result)


def read_store(options: dict[str, Any]) -> dict[str, Any]:
    root = Path(options["root"])
    finds = Finds()
    if options["uses"] and root.is_dir():
        finds = look(Scope(root, tuple(options["reference_paths"]), own_pids=own_pids()))
    names = [name for name in models(root) if not options["names"] or name in options["names"]]
    told = []
    for name in names:
        place = place_of(str(root), name)
        current = current_of(place)
        for one in revisions(place):
            users = users_of(name, one.revision, finds.uses, links(root)) if options["uses"] else None
            told.append({"name": name, "current": one.revision == current, "used_by": users, **facts(one)})
    partial = [one for one in leftovers(root) if Path(one.path).parent.parent.name in names]
    return {
        "models": told,
        "partial": [one.as_dict() for one in partial],
        "free_bytes": disk_of(root).free_bytes,
        "not_looked_at": finds.blind,
    }


def facts(one: Published) -> dict[str, Any]:
    manifest = one.manifest
    findings = () if manifest is None else quick_check(one, manifest)
    return {
        "revision": one.revision,
        "path": str(one.folder),
        "content_sha256": None if manifest is None else manifest.content_sha256,
        "size_bytes": None if manifest is None else manifest.size_bytes,
        "files": None if manifest is None else len(manifest.files),
        "origin": None if manifest is None else dict(manifest.origin),
        "published_at": one.published_at,
        "bad": [{"path": finding.path, "state": finding.state} for finding in findings if finding.state != GOOD],
    }


if __name__ == "__main__":
    main()
