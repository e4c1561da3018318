# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What was planned, what is in force and what it means, in a few lines for a person."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.measured.accuracy import (
    deviation_lines,
    deviations,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.summary import LABEL_WIDTH, summary_lines
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import (
    format_count,
    format_gb,
    format_seconds,
)

# Check of serving_check -> what a person calls it, and the words before the expected value (None: not shown).
_CHECKS = {
    "health": ("health endpoint answers", None),
    "served_model_name": ("served model", None),
    "generate": ("tokens generated", "asked"),
    "chat_completion": ("tokens of a chat completion", None),
    "max_total_num_tokens": ("device tokens", "planned"),
    "host_tokens": ("host tokens a rank", "planned"),
    "burn_in": ("requests of the burn-in answered", "asked"),
}


def node_report_lines(plan: Mapping[str, Any], ledger: Mapping[str, Any], change: Mapping[str, Any]) -> list[str]:
    """The report on one instance.

    C(ledger) is the record of the proven start, empty when there is none; C(change) what effective_change returned.
    """
    off = [one.as_dict() for one in deviations(ledger)]
    return [
        "Planned",
        *(f"  {line}" for line in summary_lines(plan)),
        "In force",
        *(f"  {line}" for line in _in_force(ledger, change)),
        *_titled("Started", _started(ledger.get("startup") or {}, ledger.get("plan") or plan)),
        # Of a start that the plan has read itself, the summary has said it.
        *_titled("The plan was off by", [] if off == plan["accuracy"] else deviation_lines(off)),
        *_titled("Proven", proof_lines(ledger.get("proof") or {})),
        *_titled("It means", _meaning(plan, ledger)),
    ]


def _titled(title: str, lines: Iterable[str]) -> list[str]:
    indented = [f"  {line}" for line in lines]
    return [title, *indented] if indented else []


def _in_force(ledger: Mapping[str, Any], change: Mapping[str, Any]) -> list[str]:
    fresh = bool(ledger) and ledger.get("invocation_id") != (change.get("ledger") or {}).get("invocation_id")
    lines = []
    if change.get("changed"):
        lines.append(f"{'restarted' if fresh else 'restart due'}: {'; '.join(change['reasons'])}")
    elif change.get("proven"):
        lines.append("unchanged: what runs is what is declared, and it has been proven")
    elif fresh:
        lines.append("what runs is what is declared; the start that an earlier run left behind was followed and proven")
    else:
        lines.append("what runs is what is declared, but its start has not been proven")
    if ledger:
        lines.append(
            f"SGLang {ledger['sglang_version']}, process {ledger['main_pid']}, invocation {ledger['invocation_id']}"
        )
    else:
        lines.append("no start has been proven yet")
    return lines


def _started(startup: Mapping[str, Any], plan: Mapping[str, Any]) -> list[str]:
    """C(plan) is the one that was started, not a later one that knows how long it took."""
    stages = startup.get("stages") or []
    lines = []
    for stage in stages:
        if stage.get("seconds") is None:
            continue
        size = stage.get("bytes")
        # A speed says something where bytes are what the stage waits for.
        pinning = stage["stage"] == "host_pool" and size and stage["seconds"]
        rate = f" pinned, {format_gb(size / stage['seconds'], 3)}/s" if pinning else ""
        detail = f"{format_gb(size)}{rate}" if size else ""
        label = stage["stage"].replace("_", " ")
        lines.append(f"{label:<{LABEL_WIDTH}}{format_seconds(stage['seconds']):>12}  {detail}".rstrip())
    # Stages of different ranks overlap, so their sum is only what is left where the whole was not measured.
    total = (startup.get("figures") or {}).get("start_seconds")
    if total is None:
        total = sum(stage["seconds"] for stage in stages if stage.get("seconds") is not None)
    if lines:
        expected = plan["timing"]["start_seconds"]
        lines.append(f"{'in all':<{LABEL_WIDTH}}{format_seconds(total):>12}  planned: about {format_seconds(expected)}")
    lines += [f"{problem['severity']:<{LABEL_WIDTH}}{problem['message']}" for problem in startup.get("problems") or []]
    return [*_given_back(startup.get("idle") or {}), *lines]


def _given_back(idle: Mapping[str, Any]) -> list[str]:
    """The wait between stop and start, where the old server had anything to give back."""
    seconds, size = idle.get("idle_seconds"), idle.get("given_back_bytes")
    if seconds is None or not size:
        return []
    detail = f"{format_gb(size)} of the old server given back, before the start"
    return [f"{'memory back':<{LABEL_WIDTH}}{format_seconds(seconds):>12}  {detail}"]


def _value(value: Any) -> str:
    return format_count(value) if isinstance(value, int) and not isinstance(value, bool) else str(value)


def proof_lines(proof: Mapping[str, Any]) -> list[str]:
    lines = []
    for check in proof.get("checks") or []:
        if check["name"] not in _CHECKS:
            continue  # the canary has a line of its own
        label, word = _CHECKS[check["name"]]
        mark = {True: "ok", False: "FAILED", None: "unknown"}[check["ok"]]
        expected = f", {word} {_value(check['expected'])}" if word else ""
        lines.append(f"{mark:<9}{label}: {_value(check['found'])}{expected}")
    canary = proof.get("canary") or {}
    hit = canary.get("hit") or {}
    if hit.get("host") is not None:
        same = canary.get("same_text")
        text = {True: "the same text", False: "ANOTHER TEXT", None: "texts of this server cannot be compared"}[same]
        lines.append(
            f"{'FAILED' if same is False else 'ok':<9}canary: {canary['cold']['cached_tokens']} tokens "
            f"cached when cold; driven out by {canary['churn']['requests']} other prompts; then "
            f"{format_count(hit['host'])} tokens came back from the host tier, {text}"
        )
    lines += [
        f"{problem['severity']:<9}{problem['message']} {problem['remedy']}" for problem in proof.get("problems") or []
    ]
    return lines


def _meaning(plan: Mapping[str, Any], ledger: Mapping[str, Any]) -> list[str]:
    device, host = plan["device"], plan["host"]
    if not ledger:
        return []
    if not host["enabled"]:
        return [f"{format_count(device['max_total_num_tokens'])} tokens stay cached, on the device alone"]
    factor = host["tokens"] / device["max_total_num_tokens"]
    return [
        f"{format_count(host['tokens'])} tokens of prompts stay cached in host memory, {factor:.1f} times what the "
        "device holds; they come back without being computed again",
        f"{format_gb(host['pinned_bytes_total'])} of host memory are pinned for it and belong to nobody else while it "
        "runs",
    ]
