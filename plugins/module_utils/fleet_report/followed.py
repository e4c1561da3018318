# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a start went that was looked at once, long after: its stages, and why it failed if it did. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.diagnosis import diagnose
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.unit import has_ended
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.result import report_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.startup_view import doing
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.expectation import (
    expectation_from_plan,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import (
    observation_from_result,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.startup import advance
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import initial

# What a dying server may still say has been said long before this look.
_AFTERWARDS = 60.0


@dataclass(frozen=True)
class Followed:
    """C(verdict): ready, failed, or None where it is under way; C(doing) in words. C(report): as a wait returns it."""

    verdict: str | None
    doing: str
    report: Mapping[str, Any]
    cause: Problem | None


def followed(look: Mapping[str, Any], plan: Mapping[str, Any], sglang_version: str | None) -> Followed:
    try:
        expected = expectation_from_plan(plan, None, 120.0, sglang_version=sglang_version)
    except Refusal:
        expected = expectation_from_plan(plan, None, 120.0)
    seen = observation_from_result(look, 0.0)
    state = advance(initial(expected, 0.0, look["unit"].get("invocation_id")), seen)
    ended = has_ended(seen.unit)
    if state.verdict is None and (ended or not all(rank.alive for rank in seen.ranks)):
        silent = {**look, "events": [], "earlier": [], "lines": 0, "samples": [], "more": False}
        state = advance(state, observation_from_result(silent, _AFTERWARDS))
    verdict = "failed" if state.verdict == "stalled" else state.verdict
    cause = None
    if verdict == "failed":
        found = diagnose(state, plan)
        cause = Problem(found.code, "error", found.message, found.remedy)
    return Followed(verdict, doing(state), report_of(state, ()), cause)
