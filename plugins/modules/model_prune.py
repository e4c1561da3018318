#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: model_prune
version_added: 0.1.0
short_description: Remove revisions of models that nobody on the node uses
description:
  - Removes revisions from a store of M(gpufleet.sglang.model_snapshot), and says of every one that stays why it does.
  - A revision stays when a unit, one of its drop-ins, or a file that they name has its path (C(ExecStart), C(--config),
    C(EnvironmentFile)), also when that unit does not run; when a configuration, a ledger or a kept generation of an
    instance below C(/etc/sglang) or C(/var/lib/sglang) has it; when a process has a file of it open or mapped, works in
    it, or has it mounted, in a container too; when the link C(current) leads to it; when it is among the O(keep)
    newest; and whenever something could not be looked at.
  - What is to go is moved aside first and looked for once more, so that a server that starts meanwhile keeps it.
  - Blocks that another revision shares are not counted as freed.
  - Only what lies on this node is looked at. A store that several nodes mount is not to be pruned by one of them.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: full
    details: Says what would go, in bytes, and why the rest stays.
  diff_mode:
    support: full
    details: One line for each revision that goes.
  platform:
    platforms: linux
options:
  root:
    description: Folder of the store.
    type: path
    default: /srv/models
  names:
    description: Models that may lose revisions. All if empty.
    type: list
    elements: str
    default: []
  keep:
    description: So many of the newest revisions of each model stay, used or not.
    type: int
    default: 2
  keep_paths:
    description: Folders of revisions that stay whoever uses them, such as those that a play has just asked for.
    type: list
    elements: path
    default: []
  partial_days:
    description:
      - Partial downloads that nothing was written to for so many days go as well, where no worker is at them. None do
        if not given.
    type: float
  reference_paths:
    description:
      - Further folders and files whose texts may name models, beside those of systemd, podman's quadlets and this
        collection.
    type: list
    elements: path
    default: []
seealso:
  - module: gpufleet.sglang.model_snapshot
  - module: gpufleet.sglang.model_store_info
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: See what could go
  gpufleet.sglang.model_prune:
  check_mode: true
  register: prune

- name: Keep the newest of each model, and what is used
  gpufleet.sglang.model_prune:
    keep: 1
    partial_days: 7
    reference_paths: [/etc/nomad.d]
"""

RETURN = r"""
removed:
  description: Revisions that went, or would, with C(name), C(revision) and C(size_bytes).
  returned: success
  type: list
  elements: dict
  sample:
    - name: Qwen3-32B
      revision: 30b8421510892303dc5ddd6cd0ac90ca2053478d
      size_bytes: 65540000000
      remove: true
      reasons: []
kept:
  description: Revisions that stay, each with the C(reasons).
  returned: success
  type: list
  elements: dict
  sample:
    - name: Qwen3-32B
      revision: 9216db5781bf21249d130ec9da846c4624c16137
      size_bytes: 65540000000
      remove: false
      reasons: [/etc/sglang/main.yaml uses it, the link current leads to it]
removed_partial:
  description: Partial downloads that went, or would.
  returned: success
  type: list
  elements: dict
  sample: []
freed_bytes:
  description: What that frees on the disk.
  returned: success
  type: int
  sample: 65540000000
not_looked_at:
  description: What could not be looked at, which keeps everything.
  returned: success
  type: list
  elements: str
  sample: []
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.layout import place_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.usage import Use
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.pruning import prune
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.using import (
    Finds,
    Scope,
    below_root,
    look,
    own_pids,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "default": "/srv/models"},
            "names": {"type": "list", "elements": "str", "default": []},
            "keep": {"type": "int", "default": 2},
            "keep_paths": {"type": "list", "elements": "path", "default": []},
            "partial_days": {"type": "float"},
            "reference_paths": {"type": "list", "elements": "path", "default": []},
        },
        supports_check_mode=True,
    )
    try:
        result = pruned(module.params, module.check_mode)
    except Refusal as refusal:
        module.fail_json(msg=str(refusal), failure=refusal.as_dict())
    except OSError as error:
        refused = Refusal(
            "store_disk_failed",
            f"{error.filename or module.params['root']} cannot be removed: {error.strerror or error}.",
            "Become root on the node, and look at its disks.",
        )
        module.fail_json(msg=str(refused), failure=refused.as_dict())
    module.exit_json(**result)


def pruned(options: dict[str, Any], dry: bool) -> dict[str, Any]:
    if options["keep"] < 0 or (options["partial_days"] or 0) < 0:
        raise Refusal(
            "out_of_range",
            f"keep is {options['keep']} and partial_days is {options['partial_days']}.",
            "Expected 0 or more.",
            {"keep": options["keep"], "partial_days": options["partial_days"]},
        )
    for name in options["names"]:
        place_of(options["root"], name)
    root = Path(options["root"])
    scope = Scope(root, tuple(options["reference_paths"]), own_pids=own_pids())
    wanted = [Use("this run", below) for below in (below_root(scope, path) for path in options["keep_paths"]) if below]

    def look_around() -> Finds:
        finds = look(scope)
        return Finds([*wanted, *finds.uses], finds.blind)

    result = prune(root, options["keep"], options["names"], options["partial_days"], look_around, dry)
    if result["changed"]:
        gone = [f"{one['name']}/{one['revision']} {format_gb(one['size_bytes'])}" for one in result["removed"]]
        gone += [f"{one['path']} {format_gb(one['size_bytes'])}" for one in result["removed_partial"]]
        result["diff"] = {"before": "\n".join([*gone, ""]), "after": ""}
    return result


if __name__ == "__main__":
    main()
