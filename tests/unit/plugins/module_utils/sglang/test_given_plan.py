# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What people give in place of a plan."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.given_plan import check_plan

STAGES = [{"pinned_bytes_per_rank": 1}]


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({"plan": {"host": {}}, "changed": False}, "holds a plan, and is none itself"),
        ({"host": "x"}, "host of plan is 'x'"),
        ({"unit": 7}, "unit of plan is 7"),
        ({"host": {"stages": 5}}, "host.stages of plan is 5"),
        ({"host": {"stages": [1]}}, "host.stages of plan"),
        ({"host": {"ranks": -3}}, "host.ranks of plan is -3"),
        ({"host": {"ranks": "8"}}, "host.ranks of plan is '8'"),
    ],
)
def test_what_is_no_plan_is_refused(plan: dict[str, Any], words: str) -> None:
    with pytest.raises(Refusal, match=words) as refused:
        check_plan(plan)
    assert refused.value.code == "plan_malformed"


@pytest.mark.parametrize("plan", [{}, {"host": None}, {"host": {"ranks": 2, "stages": STAGES, "numa": []}}])
def test_plan_with_what_it_has_is_taken(plan: dict[str, Any]) -> None:
    check_plan(plan)
