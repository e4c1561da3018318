# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What became of each node's plan, in one JSON-safe document: what the fleet's table and its picture are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import one_line

SCHEMA = 1
# What Ansible puts before the sentence of a filter that refused; the collection's own begin with the code.
_OWN = "The filter plugin 'gpufleet.sglang."
_AROUND = re.compile(
    r"^(Task failed: |Action failed: |A '\w+' expression failed: |Finalization of task args for '[^']+' failed: "
    r"|Error while resolving value for '[^']+': |The filter plugin '[^']+' failed: )+"
)
_CODED = re.compile(r"^([a-z]+(?:_[a-z]+)+): (.+)$", re.DOTALL)
PLANNED, REFUSED, NOT_REACHED = "planned", "refused", "not_reached"


def fleet_plans(hosts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """C(hosts) are the variables of hosts after the play: C(inventory_hostname), and C(plan_failure),
    C(__sglang_planned) or C(sglang_plan).

    A host with none of these was not reached, or fell out before it was planned.
    """
    nodes = [_node(variables) for variables in hosts]
    return {
        "schema": SCHEMA,
        "summary": {
            "nodes": len(nodes),
            **{state: sum(node["state"] == state for node in nodes) for state in (PLANNED, REFUSED, NOT_REACHED)},
        },
        "nodes": nodes,
    }


def _node(variables: Mapping[str, Any]) -> dict[str, Any]:
    failure = variables.get("plan_failure")
    plan = (variables.get("__sglang_planned") or {}).get("plan") or variables.get("sglang_plan")
    node = {
        "node": str(variables["inventory_hostname"]),
        "instance": variables.get("sglang_instance"),
        "state": NOT_REACHED,
        "model": _declared_model(variables),
        "sglang_version": _text(variables.get("sglang_version")),
        "refusal": None,
        "plan": None,
    }
    if failure:
        return {**node, "state": REFUSED, "refusal": refusal_of(failure)}
    if plan:
        told = {"model": plan["model"]["name"], "sglang_version": plan["sglang_version"]}
        return {**node, **told, "state": PLANNED, "plan": plan}
    return node


def refusal_of(failure: Mapping[str, Any]) -> dict[str, Any]:
    """The refusal of memory_plan, or of a filter of the collection, with its code and evidence, or what another task
    said when it failed."""
    told = failure.get("failure")
    if isinstance(told, Mapping):
        return {
            "code": str(told.get("code")),
            "message": one_line(str(told.get("message") or "")),
            "remedy": one_line(str(told.get("remedy") or "")),
            "evidence": told.get("evidence") or {},
        }
    said = one_line(str(failure.get("msg") or "The task failed and did not say why."))
    sentence = _AROUND.sub("", said)
    coded = _CODED.match(sentence) if _OWN in said else None
    return {
        "code": coded.group(1) if coded else "task_failed",
        "message": coded.group(2) if coded else sentence,
        "remedy": "",
        "evidence": {},
    }


def _declared_model(variables: Mapping[str, Any]) -> str | None:
    paper = variables.get("sglang_paper_model")
    named = paper.get("name") if isinstance(paper, Mapping) else None
    return _text(named or variables.get("sglang_served_model_name") or variables.get("sglang_model_path"))


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
