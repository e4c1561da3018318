# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each plan of a fleet in lines, those that are alike once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet.names import in_short
from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet.outcomes import PLANNED
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.summary import summary_lines
from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import one_line


def details(fleet: Mapping[str, Any]) -> list[dict[str, Any]]:
    """C(fleet) is the document of fleet_plans. Title and lines of each kind of plan."""
    kinds: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for node in fleet["nodes"]:
        if node["state"] == PLANNED:
            key = (one_line(node["instance"] or "main"), tuple(summary_lines(node["plan"])))
            kinds.setdefault(key, []).append(one_line(node["node"]))
    return [
        {"title": f"Plan of {instance} on {in_short(names)}", "lines": list(lines)}
        for (instance, lines), names in kinds.items()
    ]
