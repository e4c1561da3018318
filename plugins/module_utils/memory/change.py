# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the step from one plan to the next means: in tokens, in bytes per NUMA node and in seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.summary import sizing_text
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import (
    format_count,
    format_gb,
    format_gib,
    format_seconds,
)


def change_lines(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> list[str]:
    """Lines of a change from plan C(before) (None for a first start) to plan C(after); empty if nothing differs."""
    old_host = (before or {}).get("host") or {}
    old_device = (before or {}).get("device") or {}
    host, device = after["host"], after["device"]
    lines = [
        *_step("SGLang", (before or {}).get("sglang_version"), after["sglang_version"], str),
        *_step("device tokens", old_device.get("max_total_num_tokens"), device["max_total_num_tokens"], format_count),
        *_step("device KV cache a rank", old_device.get("kv_pool_bytes"), device["kv_pool_bytes"], format_gib),
        *_step("HiCache", _sizing(old_host), _sizing(host), str),
        *_step("host tokens a rank", old_host.get("tokens"), host["tokens"], format_count),
        *_step("host memory pinned", _pinned(old_host), _pinned(host), format_gb),
    ]
    old_nodes = {node["node"]: node["pinned_bytes"] for node in old_host.get("numa") or []}
    for node in host["numa"]:
        # A node without ranks before and after has nothing to say.
        if node["pinned_bytes"] or old_nodes.get(node["node"]):
            lines += _step(
                f"pinned on NUMA node {node['node']}", old_nodes.get(node["node"]), node["pinned_bytes"], format_gb
            )
    old_pin = ((before or {}).get("timing") or {}).get("pin_seconds")
    lines += _step("pinning takes", old_pin, after["timing"]["pin_seconds"], format_seconds)
    if before is not None:
        lines += _argument_lines(before.get("arguments") or {}, after["arguments"])
    if lines:
        lines.append(f"until it serves again: about {format_seconds(after['timing']['start_seconds'])}")
    return lines


def _pinned(host: Mapping[str, Any]) -> Any:
    """A plan that an earlier release of this collection made knows only what the pools take."""
    return host.get("pinned_bytes_total", host.get("bytes_total"))


def _sizing(host: Mapping[str, Any]) -> str | None:
    if not host:
        return None
    return sizing_text(host) if host["enabled"] else "off"


def _step(label: str, old: Any, new: Any, text: Callable[[Any], str]) -> list[str]:
    if old == new:
        return []
    if old is None:
        return [f"{label}: {text(new)}"]
    if isinstance(old, str) or isinstance(new, str):
        return [f"{label}: {text(old)} -> {text(new)}"]
    # The sign stands before the unit, whatever the unit is.
    return [f"{label}: {text(old)} -> {text(new)} ({'+' if new > old else '-'}{text(abs(new - old))})"]


def _argument_lines(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    lines = []
    for flag in sorted({*old, *new}):
        if old.get(flag) == new.get(flag):
            continue
        if flag not in old:
            lines.append(f"--{flag}: {new[flag]} (new)")
        elif flag not in new:
            lines.append(f"--{flag}: {old[flag]} (dropped)")
        else:
            lines.append(f"--{flag}: {old[flag]} -> {new[flag]}")
    return lines
