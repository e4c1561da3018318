# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Values that the kernel did not take as they were written: huge pages that did not come, and all others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import KIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.hugepages import COMPACT, shortfall
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.items import VALUE, matches
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.node import Node
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.reconcile import Step, told

_PAGES = re.compile(r"/node(\d+)/hugepages/hugepages-(\d+)kB/nr_hugepages$")


def retried(node: Node, missed: Sequence[Step]) -> list[Step]:
    """Compacts the memory once where huge pages are short, and asks for them again."""
    pages = [step for step in missed if _PAGES.search(step.target)]
    if pages and node.exists(COMPACT):
        node.write(VALUE, COMPACT, "1")
        for step in pages:
            node.write(step.kind, step.target, step.goal)
    left = []
    for step in missed:
        got = node.read(step.kind, step.target)
        if not matches(step.kind, got, step.goal):
            left.append(Step(step.kind, step.target, got, step.goal, step.back))
    return left


def refuse_missed(missed: Iterable[Step]) -> list[Problem]:
    """What is to be said of huge pages that are short; anything else is refused."""
    found: list[Problem] = []
    for step in missed:
        match = _PAGES.search(step.target)
        if match is None or not str(step.current).isdecimal() or not str(step.goal).isdecimal():
            raise Refusal(
                "tuning_value_not_taken",
                f"{step.target} was to become {told(step.goal)}, and is {told(step.current)} after that was written.",
                "See what else sets it (TuneD, a service, the firmware), or leave it alone. What it was before is "
                "recorded.",
                {"target": step.target},
            )
        node, kib = int(match.group(1)), int(match.group(2))
        found.append(
            Problem(
                "hugepages_short_now",
                "error",
                shortfall(kib * KIB, node, int(step.goal), int(str(step.current))),
                "Reboot the node: the pages are reserved early then, while memory is in one piece.",
            )
        )
    return found
