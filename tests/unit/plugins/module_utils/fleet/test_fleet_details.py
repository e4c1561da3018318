# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet.details import details
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.summary import summary_lines
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.fleet.fleets import (
    KIMI_PLAN,
    OFF_PLAN,
    fleet,
)


def test_plans_alike_are_told_once_under_all_names() -> None:
    found = details(fleet(**{"a-1": KIMI_PLAN, "b": OFF_PLAN, "a-2": KIMI_PLAN, "bad": None}))
    assert [one["title"] for one in found] == ["Plan of main on a-1, a-2", "Plan of main on b"]
    assert [one["lines"] for one in found] == [summary_lines(KIMI_PLAN), summary_lines(OFF_PLAN)]
