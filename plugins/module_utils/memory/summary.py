# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A plan in a few lines for a person; the arithmetic behind each number is in the plan's explanation."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.measured.accuracy import deviation_lines
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import (
    GB,
    format_count,
    format_gb,
    format_gib,
    format_seconds,
)

LABEL_WIDTH = 11
TEXT_WIDTH = 106

_VERDICTS = {
    "passes": "it will pass",
    "depends_on_arrival_order": "it may pass or refuse, by the order in which the ranks arrive",
    "refuses": "it will refuse",
    "unknown": "not judged, as the available memory is not known",
}


def summary_lines(plan: Mapping[str, Any]) -> list[str]:
    """What a plan dict means: model, device, host, NUMA nodes, guard, times, what could be better, assumptions."""
    model = plan["model"]
    return [
        *_entry("Model", [f"{model['name']} ({model['family'].upper()}), SGLang {plan['sglang_version']}"]),
        *_entry("Machine", _machine(plan["machine"])),
        *_entry("Device", _device(plan)),
        *_entry("Host", _host(plan)),
        *_entry("NUMA", _numa(plan)),
        *_entry("Start", _timing(plan)),
        *_entry("Idle", _raise(plan)),
        *_entry("Last start", _last_start(plan)),
        *_entry("Warning", _wrapped(f"{item['message']} {item['remedy']}" for item in plan["warnings"])),
        *_entry("Assumed", _wrapped(plan["assumptions"])),
    ]


def sizing_text(host: Mapping[str, Any]) -> str:
    """C(ratio 4.0), C(size 40 GB) or C(host memory fraction 0.8, ratio 1.732)."""
    if host["sizing"] == "ratio":
        return f"ratio {float(host['ratio'])}"
    if host["sizing"] == "size":
        return f"size {host['size_gb']} GB"
    return f"host memory fraction {host['host_memory_fraction']}, ratio {host['ratio']:.3f}"


def _entry(label: str, texts: list[str]) -> list[str]:
    return [f"{label if position == 0 else '':<{LABEL_WIDTH}}{text}" for position, text in enumerate(texts)]


def _wrapped(sentences: Iterable[str]) -> list[str]:
    return [line for sentence in sentences for line in textwrap.wrap(sentence, TEXT_WIDTH, subsequent_indent="  ")]


def _machine(machine: Mapping[str, Any]) -> list[str]:
    parts = []
    for board in machine["gpus"]:
        size = board["memory_total_bytes"]
        text = f"{board['count']} x {board['name'] or 'unnamed GPU'}"
        parts.append(f"{text} of {format_gib(size)}" if size else text)
    count = len(machine["numa_nodes"])
    text = f"{' and '.join(parts) or 'no GPU'}; {count} NUMA node{'' if count == 1 else 's'}"
    available = machine["memory_available_bytes"]
    return [f"{text}; {format_gb(available, 0)} of host memory available" if available is not None else text]


def _device(plan: Mapping[str, Any]) -> list[str]:
    device = plan["device"]
    tokens = format_count(device["max_total_num_tokens"])
    per = "rank" if device["device"] == "cpu" else "GPU"
    lines = [
        f"{format_count(device['bytes_per_token'])} bytes a token and {per}; "
        f"{tokens} tokens and {format_gib(device['kv_pool_bytes'])} of KV cache a {per}"
    ]
    fraction = device["mem_fraction_static"]
    if device["device"] != "cpu" and fraction is not None:
        kept = f", which keeps {format_gib(device['reserved_bytes'])} back" if device["reserved_bytes"] else ""
        lines.append(f"mem_fraction_static {fraction} ({device['mem_fraction_source']}){kept}")
    return lines


def _host(plan: Mapping[str, Any]) -> list[str]:
    host = plan["host"]
    if not host["enabled"]:
        return ["HiCache is off"]
    guard = host["guard"]
    lines = [
        f"{sizing_text(host)} = {format_count(host['tokens'])} tokens and {format_gb(host['bytes_per_rank'])} a rank, "
        f"{format_gb(host['bytes_total'])} in all, of which {format_gb(host['unique_bytes'])} unique",
        f"{format_gb(host['required_available_bytes'], 1)} must be available in truth; this version's own check "
        f"(guard {guard['variant']}) asks for {format_gb(guard['required_bytes'], 1)}: {_VERDICTS[guard['verdict']]}",
    ]
    if host["left_bytes"] is not None:
        lines.append(
            f"{_round_gb(host['left_bytes'])} of {_round_gb(host['available_bytes'])} left; largest ratio that fits: "
            f"{host['largest_ratio'] if host['largest_ratio'] is not None else 'none'}"
        )
    return lines


def _round_gb(size_bytes: int) -> str:
    """Whole GB where the size is large enough for that to say something."""
    return format_gb(size_bytes, 0 if abs(size_bytes) >= 20 * GB else 2)


def _numa(plan: Mapping[str, Any]) -> list[str]:
    host = plan["host"]
    if not host["enabled"]:
        return []
    lines = []
    for node in host["numa"]:
        if not node["ranks"]:
            continue
        ranks = ", ".join(str(rank) for rank in node["ranks"])
        text = f"node {node['node']}: {format_gb(node['pinned_bytes'])} pinned by ranks {ranks}"
        if node["available_bytes"] is not None:
            text += f", {_round_gb(node['left_bytes'])} of {_round_gb(node['available_bytes'])} left"
        lines.append(text)
    # On a machine with one node there is nothing to bind.
    told = host["numa_binding"] != "none" or len(host["numa"]) > 1
    if lines and told and plan["device"]["device"] != "cpu":
        binding = {
            "strict": "ranks are bound strictly to their node",
            "preferred": "ranks prefer their node and may spill over",
            "none": "ranks are not bound; this is where first touch would put them",
        }[host["numa_binding"]]
        lines.append(f"in this version {binding}")
    return lines


def _timing(plan: Mapping[str, Any]) -> list[str]:
    timing = plan["timing"]
    if not plan["host"]["enabled"]:
        return [f"about {format_seconds(timing['start_seconds'])}"]
    return [
        f"about {format_seconds(timing['start_seconds'])}, of it {format_seconds(timing['pin_seconds'])} pinning at "
        f"{format_gb(timing['pin_bytes_per_second'])}/s ({timing['source']})"
    ]


def _last_start(plan: Mapping[str, Any]) -> list[str]:
    """By how much the plan of the start before was off, and what of it this plan does not use."""
    last = plan["last_start"]
    if last is None:
        return []
    return [*deviation_lines(plan["accuracy"]), *_wrapped(last["notes"])]


def _raise(plan: Mapping[str, Any]) -> list[str]:
    device, host = plan["device"], plan["host"]
    raised = device["raise"]
    if raised is None:
        return []
    lines = [
        f"{format_gb(raised['idle_bytes_per_gpu'])} a GPU were seen idle: mem_fraction_static "
        f"{raised['mem_fraction_static']} instead of {device['mem_fraction_static']} gives "
        f"{format_gb(raised['gained_bytes'])} of it to the KV cache,",
        f"{format_count(raised['max_total_num_tokens'])} tokens (+{format_count(raised['gained_tokens'])}) and "
        f"{format_gib(raised['kv_pool_bytes'])} a GPU, with a margin of {format_gib(raised['margin_bytes'])} left idle",
    ]
    largest = raised["largest_ratio"]
    if host["enabled"] and host["sizing"] == "ratio" and (largest is None or host["ratio"] > largest):
        lines.append(
            f"the host pools grow with it: then ratio {largest} is the largest that fits, not {float(host['ratio'])}"
            if largest is not None
            else "the host pools grow with it, and then no ratio fits"
        )
    return lines
