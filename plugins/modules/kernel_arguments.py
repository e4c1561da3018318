#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_arguments
version_added: 0.1.0
short_description: Give the kernel arguments through whatever boots the node
description:
  - Finds out what boots the node, and edits the files that it takes the kernel's command line from. GRUB of Debian and
    Ubuntu gets a drop-in in C(/etc/default/grub.d) and a new menu; GRUB of RHEL and its kin gets the entries of the
    Boot Loader Specification, C(/etc/kernel/cmdline) and C(/etc/default/grub) edited; systemd-boot the entries and
    C(/etc/kernel/cmdline).
  - Adds only what is lacking, and refuses what contradicts an argument that somebody else set, by name and file.
  - Entries for rescue stay as they are, as they are the way back.
  - Records what the files were. O(state=absent) gives that back; of a file that somebody changed since, only the words
    of this module are taken out.
  - Tells whether a reboot is due, by C(/proc/cmdline). It does not reboot.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  platform:
    platforms: linux
options:
  state:
    description: V(absent) takes out what this module put in.
    type: str
    choices: [present, absent]
    default: present
  root:
    description:
      - Folder that all files are read and written below, as an absolute path. Another than V(/) stands in for a
        machine, and no command is run then.
    type: path
    default: /
  record:
    description: File that holds what the files were before.
    type: path
    default: /var/lib/gpufleet/node_tuning.json
  arguments:
    description: The arguments. What is not listed any more is taken out again.
    type: list
    elements: dict
    default: []
    suboptions:
      argument:
        description: One word, or several that belong together, such as C(hugepagesz=1G hugepages=0:4).
        type: str
        required: true
      reason:
        description: Why it is wanted. It is written beside the argument where the loader's files have comments.
        type: str
        default: ""
seealso:
  - module: gpufleet.sglang.node_settings
  - module: gpufleet.sglang.host_stack_info
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Let devices reach memory without translation
  gpufleet.sglang.kernel_arguments:
    arguments:
      - argument: iommu=pt
        reason: peer traffic between GPUs is slow as long as it is translated
  register: kernel

- name: Reboot when that is due
  ansible.builtin.reboot:
  when: kernel.reboot_required
"""

RETURN = r"""
loader:
  description: >-
    What boots the node: V(grub_drop_in), V(grub_bls), V(grub_default) or V(systemd_boot); null where nothing was asked
    for and nothing is recorded.
  returned: always
  type: str
  sample: grub_drop_in
changes:
  description: Files that were changed, or would be.
  returned: always
  type: list
  elements: dict
  contains:
    kind:
      description: V(file) or V(folder).
      type: str
      sample: file
    target:
      description: The path.
      type: str
      sample: /etc/default/grub.d/99-gpufleet-node-tuning.cfg
    before:
      description: Null where there was none.
      type: str
      sample: null
    after:
      description: Null where it is removed.
      type: str
      sample: file
menu_command:
  description: Command that wrote, or would write, the loader's menu anew; empty where none was due.
  returned: always
  type: list
  elements: str
  sample: [update-grub]
lacking:
  description: Arguments that the running kernel was not given.
  returned: always
  type: list
  elements: str
  sample: [iommu=pt]
leaving:
  description: Words that are not wanted any more, and that the running kernel still has.
  returned: always
  type: list
  elements: str
  sample: []
reboot_required:
  description: Whether the command line that is wanted takes a reboot.
  returned: always
  type: bool
  sample: true
"""

from dataclasses import replace
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.commands import answer_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.roots import checked_root
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.kernel_facts import KernelFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.kernel_plan import (
    BOOT,
    LEAVING,
    MENU_PENDING,
    KernelPlan,
    menu_is_due,
    plan_kernel,
    refuse_not_taken,
    words_lacking,
    words_leaving,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.kernel_reading import read_kernel_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.kernel_words import Argument, arguments_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.node import Node
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.reconcile import (
    Keeper,
    changes_of,
    differences,
    follow,
    plot,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.record import PATH, Section

SECTION = "kernel"
NOTHING: dict[str, Any] = {
    "changed": False,
    "loader": None,
    "changes": [],
    "menu_command": [],
    "lacking": [],
    "leaving": [],
    "reboot_required": False,
}
ARGUMENTS: dict[str, Any] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "root": {"type": "path", "default": "/"},
    "record": {"type": "path", "default": PATH},
    "arguments": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "argument": {"type": "str", "required": True},
            "reason": {"type": "str", "default": ""},
        },
    },
}


def write_menu(module: AnsibleModule, node: Node, facts: KernelFacts, plan: KernelPlan) -> None:
    """Runs the command, and believes it only when the menu says so."""
    command = list(facts.menu or ())
    status, _out, error = answer_of(module.run_command, command)
    if status != 0:
        raise Refusal(
            "kernel_menu_failed",
            f"'{' '.join(command)}' ended with {status}: {(error.strip().splitlines() or ['it said nothing'])[-1]}.",
            "Correct what it says, then run the role again: the menu is written then.",
            {"command": command, "rc": status},
        )
    coming = read_kernel_facts(node.tree).next_words
    missing = [word for word in plan.words if coming is not None and word not in coming]
    if missing:
        raise Refusal(
            "kernel_arguments_not_in_menu",
            f"'{' '.join(command)}' has written the menu, and the entry that boots next does not have "
            f"{' '.join(missing)}.",
            "See whether another file sets GRUB_CMDLINE_LINUX_DEFAULT after /etc/default/grub.d, or whether the "
            "default entry is written by hand (/etc/grub.d/40_custom).",
            {"lacking": missing},
        )


def change(module: AnsibleModule, node: Node, keeper: Keeper, wanted: tuple[Argument, ...]) -> dict[str, Any]:
    section: Section = keeper.section(SECTION)
    if not wanted and section.empty:
        return dict(NOTHING)
    facts = read_kernel_facts(node.tree)
    if not node.tree.live:
        # No command writes the menu of a machine that is only a folder here.
        facts = replace(facts, next_words=None)
    plan = plan_kernel(wanted, facts, section)
    course = plot(node, plan.items, section)
    leaving = words_leaving(plan, facts, section)
    due = menu_is_due(plan, facts, section, bool(course.steps))
    lacking = words_lacking(wanted, facts)
    if not course.steps and not due:
        refuse_not_taken(lacking, facts, section.notes)
    notes: dict[str, Any] = plan.notes({}) if plan.words and plan.items else {}
    if leaving:
        notes[LEAVING] = list(leaving)
    if lacking or leaving:
        # A reboot after that ought to have brought it.
        notes[BOOT] = facts.boot_id if course.steps or due else section.notes.get(BOOT, facts.boot_id)
    if not module.check_mode:
        pending = {**plan.notes(section.notes), **({MENU_PENDING: True} if due else {})}
        follow(node, course, keeper, SECTION, pending)
        if due and node.tree.live and facts.menu:
            write_menu(module, node, facts, plan)
        keeper.save(SECTION, Section(keeper.section(SECTION).entries, notes))
    result = {
        "changed": bool(course.steps) or due,
        "loader": facts.loader,
        "changes": changes_of(course.steps),
        "menu_command": list(facts.menu or ()) if due else [],
        "lacking": list(lacking),
        "leaving": list(leaving),
        "reboot_required": bool(lacking or leaving),
    }
    if course.steps:
        result["diff"] = differences(course.steps)
    return result


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    asked = [] if module.params["state"] == "absent" else module.params["arguments"]
    result: dict[str, Any] = {}
    try:
        node = Node(checked_root(module.params["root"], "boot, etc and proc"), module.run_command)
        wanted = arguments_of((one["argument"], one["reason"]) for one in asked)
        record = module.params["record"]
        if module.check_mode:
            result = change(module, node, Keeper(node, record), wanted)
        else:
            with node.locked(record):
                keeper = Keeper(node, record)
                try:
                    result = change(module, node, keeper, wanted)
                finally:
                    keeper.close()
    except Refusal as refusal:
        module.fail_json(msg=str(refusal), failure=refusal.as_dict())
    module.exit_json(**result)


if __name__ == "__main__":
    main()
