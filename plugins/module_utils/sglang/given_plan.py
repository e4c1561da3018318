# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether what a task was given as a plan is one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

# The parts that waiting reads, each a dictionary.
PARTS = ("host", "device", "unit", "timing")
EXPECTED = 'Expected the value `plan` of the result of gpufleet.sglang.memory_plan, such as "{{ result.plan }}".'


def check_plan(plan: Mapping[str, Any]) -> None:
    """Refuses what would be taken for a plan that says nothing, or would break what reads it."""
    if isinstance(plan.get("plan"), Mapping):
        raise Refusal("plan_malformed", "plan holds a plan, and is none itself.", EXPECTED, {"keys": sorted(plan)})
    for name in PARTS:
        part = plan.get(name)
        if part is not None and not isinstance(part, Mapping):
            raise _malformed(name, part, "a dictionary")
    host: Mapping[str, Any] = plan.get("host") or {}
    for name in ("stages", "numa"):
        rows = host.get(name)
        if rows is not None and not (isinstance(rows, list) and all(isinstance(row, Mapping) for row in rows)):
            raise _malformed(f"host.{name}", rows, "a list of dictionaries")
    ranks = host.get("ranks")
    if ranks is not None and not (isinstance(ranks, int) and ranks > 0):
        raise _malformed("host.ranks", ranks, "a number above 0")


def _malformed(name: str, found: Any, expected: str) -> Refusal:
    return Refusal("plan_malformed", f"{name} of plan is {found!r}, not {expected}.", EXPECTED, {"part": name})
