#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_settings
version_added: 0.1.0
short_description: Tune a node's kernel settings for inference servers, and give back what was there
description:
  - Brings kernel settings, transparent and reserved huge pages, the frequency governor, swap, C(/dev/shm), PCIe ACS and
    the limits of single units to what is asked for, at once and for every boot, in one call.
  - Changes only what is not good enough as it is. A value that a person's file sets otherwise is left alone and told,
    or refused where it was asked for by name.
  - Before the first change it writes down what was in force, in O(record). O(state=absent) gives that back, also after
    an interruption at any point. What is not asked for any more goes back as well.
  - Refuses beforehand, with figures, what would not leave memory for the rest of the host.
  - Never reloads systemd, which takes GPUs from running containers where their runtime leaves devices to systemd.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: full
    details: Whether as many huge pages come as asked for is only known once they are reserved.
  diff_mode:
    support: full
  platform:
    platforms: linux
options:
  state:
    description: V(absent) gives back what was in force before the first change.
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
    description: File that holds what was in force before.
    type: path
    default: /var/lib/gpufleet/node_tuning.json
  sysctl_defaults:
    description: Whether the settings of the collection's table are wanted, where O(sysctl) does not say otherwise.
    type: bool
    default: true
  sysctl:
    description: Kernel settings by name, in place of the table's or beside them. Null leaves one alone.
    type: dict
    default: {}
  transparent_hugepage:
    description: Modes of transparent huge pages.
    type: dict
    default: {}
    suboptions:
      enabled:
        description: V(auto) puts V(madvise) in the place of V(never); V(keep) leaves it alone.
        type: str
        choices: [auto, keep, always, madvise, never]
        default: auto
      defrag:
        description: V(auto) puts V(madvise) in the place of V(never); V(keep) leaves it alone.
        type: str
        choices: [auto, keep, always, defer, defer+madvise, madvise, never]
        default: auto
      shmem_enabled:
        description: Of shared memory, which host pools lie in where they have one thread to populate them.
        type: str
        choices: [keep, always, within_size, advise, never, deny, force]
        default: keep
  hugepages:
    description: Huge pages to reserve, an entry for each size and NUMA node, with either pages or bytes.
    type: list
    elements: dict
    default: []
    suboptions:
      size:
        description: Size of a page.
        type: str
        choices: [2MB, 1GB]
        required: true
      numa_node:
        description: NUMA node.
        type: int
        required: true
      pages:
        description: Number of pages.
        type: int
      bytes:
        description: Bytes that the pages shall hold.
        type: int
  hugepage_sizes_at_start:
    description:
      - Sizes that a unit reserves early at each boot. Those that the kernel's command line asks for do not belong here.
    type: list
    elements: str
    choices: [2MB, 1GB]
    default: [2MB, 1GB]
  cpu_governor:
    description: Frequency governor of all processors. Left alone when null.
    type: str
  swap:
    description: V(off) switches swap off now and for every boot; V(keep) leaves it alone.
    type: str
    choices: [keep, 'off']
    default: keep
  shm_bytes:
    description: Size of C(/dev/shm) in bytes. Left alone when null.
    type: int
  clear_acs:
    description:
      - Whether the switch ports above GPUs shall pass peer traffic on instead of sending it up to the host. It ends the
        isolation of these devices from one another, so that it is refused where one is passed through.
    type: bool
    default: false
  unit_limits:
    description: Limits of single services, as drop-ins. They hold from the next start of the unit on.
    type: list
    elements: dict
    default: []
    suboptions:
      unit:
        description: Name of the service.
        type: str
        required: true
      memlock:
        description: Memory that it may lock, as C(LimitMEMLOCK) takes it.
        type: str
      nofile:
        description: Files that it may have open, as C(LimitNOFILE) takes it.
        type: str
  leave_bytes:
    description:
      - Memory to be left for the rest of the host. SGLang's own check wants 10 GiB beside its pools, and does not count
        reserved huge pages as available.
    type: int
    default: 10737418240
seealso:
  - module: gpufleet.sglang.kernel_arguments
  - module: gpufleet.sglang.host_stack_info
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Tune a node, with huge pages for two pools
  gpufleet.sglang.node_settings:
    cpu_governor: performance
    hugepages:
      - {size: 2MB, numa_node: 0, bytes: 200000000000}
      - {size: 2MB, numa_node: 1, bytes: 200000000000}

- name: Give back what was in force before
  gpufleet.sglang.node_settings:
    state: absent
"""

RETURN = r"""
changes:
  description: What was changed, or would be.
  returned: always
  type: list
  elements: dict
  contains:
    kind:
      description: V(value), V(file), V(link), V(folder), V(acs), V(swap) or V(shm).
      type: str
      sample: value
    target:
      description: Path, or address of a PCI port.
      type: str
      sample: /proc/sys/vm/swappiness
    before:
      description: What it was; of a file null where there was none.
      type: str
      sample: "60"
    after:
      description: What it becomes; of a file null where it is removed.
      type: str
      sample: "10"
short:
  description: Huge pages that did not come.
  returned: always
  type: list
  elements: str
  sample: []
reboot_required:
  description: Whether only a reboot brings all of it, as memory is fragmented now.
  returned: always
  type: bool
  sample: false
recorded:
  description: Number of things whose former state is recorded.
  returned: always
  type: int
  sample: 7
problems:
  description: What is worth knowing.
  returned: always
  type: list
  elements: dict
  sample:
    - code: governor_not_here
      severity: info
      message: "No frequency governor is there to be set to performance: a virtual machine, whose host governs."
      remedy: Set the power profile in the firmware, or on the virtual machine's host.
"""

from dataclasses import replace
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.commands import answer_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.roots import checked_root
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.items import FILE, Item
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.node import Node
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.reading import read_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.reconcile import (
    Keeper,
    base_text,
    changes_of,
    differences,
    follow,
    plot,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.record import PATH, Section
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.request import (
    LEAVE_BYTES,
    THP_CHOICES,
    parse_request,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.shortage import refuse_missed, retried
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.wanted import (
    FSTAB,
    Tuned,
    decide,
    names_of_sysctls,
)

SECTION = "settings"
ARGUMENTS: dict[str, Any] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "root": {"type": "path", "default": "/"},
    "record": {"type": "path", "default": PATH},
    "sysctl_defaults": {"type": "bool", "default": True},
    "sysctl": {"type": "dict", "default": {}},
    "transparent_hugepage": {
        "type": "dict",
        "default": {},
        "options": {
            "enabled": {"type": "str", "choices": ["auto", "keep", *THP_CHOICES["enabled"]], "default": "auto"},
            "defrag": {"type": "str", "choices": ["auto", "keep", *THP_CHOICES["defrag"]], "default": "auto"},
            "shmem_enabled": {"type": "str", "choices": ["keep", *THP_CHOICES["shmem_enabled"]], "default": "keep"},
        },
    },
    "hugepages": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "size": {"type": "str", "choices": ["2MB", "1GB"], "required": True},
            "numa_node": {"type": "int", "required": True},
            "pages": {"type": "int"},
            "bytes": {"type": "int"},
        },
    },
    "hugepage_sizes_at_start": {
        "type": "list",
        "elements": "str",
        "choices": ["2MB", "1GB"],
        "default": ["2MB", "1GB"],
    },
    "cpu_governor": {"type": "str"},
    "swap": {"type": "str", "choices": ["keep", "off"], "default": "keep"},
    "shm_bytes": {"type": "int"},
    "clear_acs": {"type": "bool", "default": False},
    "unit_limits": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "unit": {"type": "str", "required": True},
            "memlock": {"type": "str"},
            "nofile": {"type": "str"},
        },
    },
    "leave_bytes": {"type": "int", "default": LEAVE_BYTES},
}


def swap_units(module: AnsibleModule, node: Node) -> list[str]:
    """Units of swap, those that systemd made for partitions by their type among them."""
    if not node.tree.live or module.params["swap"] != "off":
        return []
    command = ["systemctl", "--no-legend", "--plain", "--full", "list-units", "--type", "swap"]
    status, out, _error = answer_of(module.run_command, command)
    return [line.split()[0] for line in out.splitlines() if line.split()] if status == 0 else []


def wanted_of(module: AnsibleModule, node: Node, section: Section) -> Tuned:
    if module.params["state"] == "absent":
        return Tuned()
    request = parse_request(module.params)
    facts = read_facts(node.tree, names_of_sysctls(request), swap_units(module, node), request.clear_acs)
    facts = replace(facts, fstab=base_text(section, f"{FILE}:{FSTAB}", facts.fstab))
    return decide(request, facts, {key: entry.before for key, entry in section.entries.items()})


def tune(module: AnsibleModule, node: Node, keeper: Keeper) -> dict[str, Any]:
    tuned = wanted_of(module, node, keeper.section(SECTION))
    items: list[Item] = tuned.items
    course = plot(node, items, keeper.section(SECTION))
    short: list[Problem] = []
    if not module.check_mode:
        missed = retried(node, follow(node, course, keeper, SECTION, {}))
        short = refuse_missed(missed)
    steps = course.steps
    problems = [problem.as_dict() for problem in (*tuned.notes, *course.notes, *short)]
    left = course.entries if module.check_mode else keeper.section(SECTION).entries
    result: dict[str, Any] = {
        "changed": bool(steps),
        "changes": changes_of(steps),
        "short": [problem.message for problem in short],
        "reboot_required": bool(short),
        "recorded": len(left),
        "problems": problems,
    }
    if steps:
        result["diff"] = differences(steps)
    return result


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    result: dict[str, Any] = {}
    try:
        node = Node(checked_root(module.params["root"], "etc, proc and sys"), module.run_command)
        record = module.params["record"]
        if module.check_mode:
            result = tune(module, node, Keeper(node, record))
        else:
            with node.locked(record):
                keeper = Keeper(node, record)
                try:
                    result = tune(module, node, keeper)
                finally:
                    keeper.close()
    except Refusal as refusal:
        module.fail_json(msg=str(refusal), failure=refusal.as_dict())
    for problem in result["problems"]:
        if problem["severity"] != "info":
            module.warn(f"{problem['message']} {problem['remedy']}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
