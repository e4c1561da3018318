# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host is made of and how it is, in a few words that hosts can be grouped by. No I/O."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet.table import short_board
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import SEVERITIES
from ansible_collections.gpufleet.sglang.plugins.module_utils.surveys.survey import Survey

GIB = 1 << 30
NONE, MIXED, UNKNOWN = "none", "mixed", "unknown"
FRESH, STALE = "fresh", "stale"


def traits_of(survey: Survey) -> dict[str, Any]:
    """As plain data, so that it can be cached; how old the survey is, is for whoever asks."""
    topology, stack = survey.topology, survey.stack
    gpus = topology["gpus"]
    version = _driver(topology, stack)
    graves = {
        str(one.get("code")): one.get("severity")
        for one in (*topology["problems"], *stack.get("problems", ()))
        if one.get("severity") in SEVERITIES[1:]
    }
    return {
        "gpu_model": _alike(short_board(_text(gpu.get("name"))) if gpu.get("name") else None for gpu in gpus),
        "gpu_count": len(gpus),
        "gpu_memory_bytes": min((gpu.get("memory_total_bytes") or 0 for gpu in gpus), default=0) or None,
        "gpu_memory": _alike(_gib(gpu.get("memory_total_bytes")) for gpu in gpus),
        "architecture": _alike(_text(gpu.get("architecture")) for gpu in gpus),
        "numa": _shape(topology),
        "driver": version.split(".")[0] if version else NONE,
        "driver_version": version,
        "health": _worst(graves.values()),
        "problems": sorted(graves),
        "host_memory_bytes": topology["host"].get("memory_total_bytes"),
        "surveyed_at": survey.taken_at,
    }


def age_of(traits: Mapping[str, Any], now: float, max_age_seconds: int) -> str:
    """V(fresh), V(stale), or V(unknown) where nothing says when the survey was taken. One from the future is as old as
    the clocks differ, and that is fresh."""
    taken = traits.get("surveyed_at")
    if taken is None:
        return UNKNOWN
    return STALE if now - taken > max_age_seconds else FRESH


def group_names(traits: Mapping[str, Any], facts: str, chosen: Iterable[str], prefix: str = "") -> list[str]:
    """The same for the same host whatever others there are: letters, digits and underscores alone."""
    values = {**traits, "facts": facts}
    return [f"{prefix}{what}_{slug(str(values[what]))}" for what in chosen]


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_") or UNKNOWN


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _alike(values: Iterable[str | None]) -> str:
    found = Counter(value or UNKNOWN for value in values)
    if not found:
        return NONE
    return next(iter(found)) if len(found) == 1 else MIXED


def _gib(size_bytes: Any) -> str | None:
    return f"{round(size_bytes / GIB)}gib" if isinstance(size_bytes, int) and size_bytes > 0 else None


def _shape(topology: Mapping[str, Any]) -> str:
    """C(2x4): two nodes with four GPUs each; C(5+3) where they differ. Nodes that hold neither CPUs nor memory for a
    server are none."""
    homes = [
        node.get("id")
        for node in topology["numa_nodes"]
        if node.get("has_cpus", True) and node.get("kind", "general") in (None, "general")
    ]
    gpus = [gpu.get("numa_node") for gpu in topology["gpus"]]
    if any(node is None or node not in homes for node in gpus):
        return f"{len(homes)}_and_gpus_elsewhere" if homes else UNKNOWN
    counts = [gpus.count(node) for node in homes]
    if not counts:
        return UNKNOWN
    return f"{len(counts)}x{counts[0]}" if len(set(counts)) == 1 else "+".join(map(str, counts))


def _driver(topology: Mapping[str, Any], stack: Mapping[str, Any]) -> str | None:
    """The release that is in force: what is only installed serves nobody."""
    told = topology.get("driver")
    version = told.get("version") if isinstance(told, Mapping) else None
    if version is None:
        driver = stack.get("driver")
        loaded = driver.get("loaded") if isinstance(driver, Mapping) else None
        version = loaded.get("version") if isinstance(loaded, Mapping) else None
    return _text(version)


def _worst(severities: Iterable[Any]) -> str:
    found = set(severities)
    return next((severity for severity in reversed(SEVERITIES) if severity in found), "ok")
