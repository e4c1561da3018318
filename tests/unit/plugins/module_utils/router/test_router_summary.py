# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.router.summary import summary_lines

ONE, TWO, THREE = (f"http://10.0.0.{number}:30000" for number in (1, 2, 3))


def state(**values: Any) -> dict[str, Any]:
    members = [
        {"url": ONE, "held_by": None, "reason": None},
        {"url": TWO, "held_by": "operator", "reason": "a fan\nis replaced"},
        {"url": THREE, "held_by": None, "reason": None},
    ]
    return {
        "running": True,
        "problem": None,
        "minimum_in_service": 1,
        "members": members,
        "workers": [{"url": ONE, "healthy": True}],
        "in_service": [ONE],
        **values,
    }


def test_each_that_does_not_serve_is_named_with_the_reason() -> None:
    assert summary_lines(state()) == [
        "1 of 3 workers in service; 1 has to stay",
        f"{TWO}: held out by operator: a fan is replaced",
        f"{THREE}: not registered; it is asked for again every 30 s",
    ]


def test_a_sick_worker_and_a_silent_router_are_told() -> None:
    lines = summary_lines(
        state(running=False, problem="no answer", workers=[{"url": THREE, "healthy": False}], in_service=[])
    )
    assert "the router does not answer: no answer" in lines
    assert f"{THREE}: not healthy" in lines


def test_of_very_many_the_rest_is_counted() -> None:
    members = [{"url": f"http://10.0.{n // 250}.{n % 250}:1", "held_by": None, "reason": None} for n in range(1000)]
    lines = summary_lines(state(members=members, in_service=[]))
    assert len(lines) == 22
    assert lines[-1] == "and 980 more"
