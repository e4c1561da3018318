# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a store has, and what a pruning did to it, in lines for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count, format_gb


def snapshot_lines(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each result of model_snapshot, and one for each problem of it."""
    lines = []
    for result in results:
        lines.append(f"{result['path'] or 'a revision that is known when it is fetched'}: {_what(result)}")
        lines += [f"  {one['severity']}: {one['message']} {one['remedy']}" for one in result["problems"]]
    return lines


def prune_lines(result: Mapping[str, Any]) -> list[str]:
    """What went, what stays and why."""
    lines = [f"removed {_name(one)} ({format_gb(one['size_bytes'])})" for one in result["removed"]]
    lines += [f"removed {one['path']} ({format_gb(one['size_bytes'])})" for one in result["removed_partial"]]
    lines += [f"kept {_name(one)} ({format_gb(one['size_bytes'])}): {_first(one['reasons'])}" for one in result["kept"]]
    return lines or ["the store is empty"]


def _what(result: Mapping[str, Any]) -> str:
    parts = [f"{format_count(result['files'])} files, {format_gb(result['size_bytes'])}"]
    if result.get("would_fetch_bytes"):
        parts.append(f"{format_gb(result['would_fetch_bytes'])} would be fetched")
    elif result.get("fetched_bytes"):
        parts.append(f"{format_gb(result['fetched_bytes'])} fetched")
    if result["repaired"]:
        parts.append(
            f"{', '.join(result['repaired'][:3])}{' and more' if len(result['repaired']) > 3 else ''} replaced"
        )
    return ", ".join(parts)


def _name(one: Mapping[str, Any]) -> str:
    return f"{one['name']}/{one['revision']}"


def _first(reasons: Sequence[str]) -> str:
    return f"{reasons[0]} (and {len(reasons) - 1} more reasons)" if len(reasons) > 2 else "; ".join(reasons)
