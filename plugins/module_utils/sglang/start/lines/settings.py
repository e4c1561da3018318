# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The arguments as the server resolved them, which its main process prints first (entrypoints/engine.py).

A dataclass' words to 0.5.18, a mapping since. The line holds keys and paths, so nothing but numbers and switches is
taken out of it.
"""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import LogEvent

SETTINGS = "server_args="
_NUMBERS = (
    "mem_fraction_static",
    "tp_size",
    "pp_size",
    "dp_size",
    "attn_dp_size",
    "nnodes",
    "node_rank",
    "page_size",
    "max_total_tokens",
    "hicache_ratio",
    "hicache_size",
    "hicache_host_memory_fraction",
)
_SWITCHES = ("enable_hierarchical_cache", "enable_dp_attention")
_SETTING = re.compile(
    rf"\b(?P<name>{'|'.join((*_NUMBERS, *_SWITCHES))})'?\s{{0,2}}[=:]\s{{0,2}}"
    r"(?:(?P<number>\d{1,15}(?:\.\d{1,17})?|\.\d{1,17})|(?P<switch>True|False))\b"
)


def settings_of(line: str) -> LogEvent | None:
    """What a line that begins with them says of memory and ranks, None for nothing."""
    values: dict[str, Any] = {}
    for found in _SETTING.finditer(line):
        name, number, switch = found.group("name", "number", "switch")
        if number is not None and name in _NUMBERS:
            values.setdefault(name, float(number) if "." in number else int(number))
        elif switch is not None and name in _SWITCHES:
            values.setdefault(name, switch == "True")
    if not values:
        return None
    told = ", ".join(f"{name}={value}" for name, value in values.items())
    return LogEvent(kind="settings", text=f"server_args: {told}", values=tuple(sorted(values.items())))
