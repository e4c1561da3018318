# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who is in service behind a router, in lines for a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import one_line

# So many are named; of more the rest is counted.
NAMED = 20


def summary_lines(state: Mapping[str, Any]) -> list[str]:
    """C(state): what router_info returns."""
    members, serving = state["members"], set(state["in_service"])
    minimum = state["minimum_in_service"]
    lines = [
        f"{len(serving)} of {len(members)} worker{'' if len(members) == 1 else 's'} in service; "
        f"{minimum} {'has' if minimum == 1 else 'have'} to stay"
    ]
    if not state["running"]:
        lines.append(f"the router does not answer: {one_line(str(state['problem']), 300)}")
    absent = [one for one in members if one["url"] not in serving]
    known = {one["url"]: one for one in state["workers"]}
    lines += [f"{one['url']}: {_why(one, known.get(one['url']))}" for one in absent[:NAMED]]
    if len(absent) > NAMED:
        lines.append(f"and {len(absent) - NAMED} more")
    return lines


def _why(member: Mapping[str, Any], worker: Mapping[str, Any] | None) -> str:
    if member["held_by"] is not None:
        return f"held out by {one_line(member['held_by'], 60)}: {one_line(member['reason'] or 'no reason given', 200)}"
    return "not healthy" if worker else "not registered; it is asked for again every 30 s"
