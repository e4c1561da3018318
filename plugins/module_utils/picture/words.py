# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the picture says of a plan in words: the lines over its bars, and each bar for those who do not see it.

"Left" is what is available less what is pinned, as everywhere else. Of it the reserve is kept back; "free" is the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet.table import layout_of, short_board
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.summary import sizing_text
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import (
    GIB,
    format_count,
    format_gb,
    format_gib,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.picture.bars import FREE, NAMES, Bar
from ansible_collections.gpufleet.sglang.plugins.module_utils.picture.scale import Scale
from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import one_line

_RESERVE = {
    "activations": "activations",
    "graphs": "graphs",
    "constant": "attention backends",
    "parallel": "ranks",
    "attention_dp": "attention data parallelism",
    "speculative": "the draft",
    "experts_exchange": "exchange of experts",
    "vision": "vision",
    "by_card": "all purposes together",
    "floor": "the least reserve",
    "rest": "rounding",
}
# Less is 0.0 GiB.
_SAID_BYTES = 0.05 * GIB


def device_facts(plan: Mapping[str, Any]) -> list[str]:
    device = plan["device"]
    boards = ", ".join(f"{board['count']} x {short_board(board['name'])}" for board in plan["machine"]["gpus"])
    found = [
        f"{one_line(plan['model']['name'] or 'model without a name')} ({plan['model']['family'].upper()})",
        f"SGLang {plan['sglang_version']}",
        "on CPUs" if device["device"] == "cpu" else boards,
        layout_of(plan),
        _tokens(device),
    ]
    if device["mem_fraction_static"] is not None and device["device"] != "cpu":
        found.append(f"mem_fraction_static {device['mem_fraction_static']:g}")
    return found


def _tokens(device: Mapping[str, Any]) -> str:
    """A GPU holds whole tokens only where it has all the layers."""
    tokens, groups = format_count(device["max_total_num_tokens"]), device.get("token_groups") or 1
    stages = len(device.get("stages") or ())
    told = f"{tokens} tokens"
    if stages > 1:
        told += f" over {stages} pipeline stages, each with its layers of every token"
    elif groups == 1:
        told += f" a {'rank' if device['device'] == 'cpu' else 'GPU'}"
    return f"{told} in each of {groups} groups of attention data parallelism" if groups > 1 else told


def host_facts(host: Mapping[str, Any]) -> list[str]:
    if not host["enabled"]:
        return ["HiCache is off"]
    ranks = f"{host['ranks']} rank{'' if host['ranks'] == 1 else 's'}"
    found = [
        f"HiCache {sizing_text(host)}: {format_count(host['tokens'])} tokens a rank",
        f"{format_gb(host.get('pinned_bytes_total', host['bytes_total']))} pinned by {ranks}",
        f"{format_gb(host['unique_bytes'])} of it unique",
    ]
    left = host["left_bytes"]
    if left is not None:
        of = f"of {format_gb(host['available_bytes'], 1)} available"
        if left < 0:
            return [*found, f"{format_gb(-left, 1)} short {of}"]
        reserve = min(left, host["reserve_bytes"])
        split = f"{format_gb(reserve, 1)} of it reserve and {format_gb(left - reserve, 1)} free"
        found.append(f"{format_gb(left, 1)} left {of} ({split})")
    return found


def reserve_facts(device: Mapping[str, Any]) -> str | None:
    """What the release keeps of a GPU and for what; None where that is not known.

    It reckons with the whole card, and the fraction is then taken of what is free of it before loading.
    """
    reserve = device.get("reserve")
    if not reserve:
        return None
    sizes = {name: reserve.get(f"{key}_bytes") or 0 for key, name in _RESERVE.items()}
    parts = [f"{name} {format_gib(size, 1)}" for name, size in sizes.items() if size >= _SAID_BYTES]
    whole = f"{format_gib(reserve['total_bytes'], 1)} of a whole card"
    if device["mem_fraction_source"] == "default" and device["reserved_bytes"] is not None:
        return f"Reserve of {format_gib(device['reserved_bytes'], 1)} a GPU, reckoned as {', '.join(parts)} ({whole})"
    return f"SGLang itself would keep {whole}: {', '.join(parts)}"


def beside(strip: Bar, scale: Scale) -> tuple[str, str]:
    """What stands right of a bar, and its class: the same words and figures as within it."""
    limit = strip.limit_bytes
    if strip.short_bytes:
        return f"{scale.told(strip.short_bytes, 1)} short", "bad"
    if limit is None:
        return scale.told(strip.size_bytes, 1), "label"
    if scale.unit == "GiB":
        return f"of {scale.told(limit, 1)}", "label"
    free = sum(segment.size_bytes for segment in strip.segments if segment.kind == FREE)
    return f"{scale.told(free, 1)} free", "label"


def told_bar(strip: Bar, scale: Scale) -> str:
    """The bar in words, for those who do not see it."""
    sums: dict[str, int] = {}
    for segment in strip.segments:
        sums[segment.kind] = sums.get(segment.kind, 0) + segment.size_bytes
    parts = [f"{NAMES.get(kind, kind)} {scale.told(size, 2)}" for kind, size in sums.items()]
    limit = "" if strip.limit_bytes is None else f"; of {scale.told(strip.limit_bytes, 2)}"
    place = f" ({strip.place})" if strip.place else ""
    return f"{strip.label}{place}: {', '.join(parts)}{limit}"
