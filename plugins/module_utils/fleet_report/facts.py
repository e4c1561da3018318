# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What was read of each node, in one JSON-safe document: what the page is drawn from, now or later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import one_line
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.redaction.pseudonyms import pseudonyms_of, redacted
from ansible_collections.gpufleet.sglang.plugins.module_utils.redaction.secrets import concealed, concealed_in

SCHEMA = 1
KIND = "gpufleet.sglang.report"
_FACTS = ("schema", "taken_at", "hostname", "instances", "topology", "stack")


def fleet_facts(hosts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """C(hosts) are the variables of hosts after the play: C(inventory_hostname), C(report_answer), which is what
    node_report_info returned, and C(sglang_plan) where the same run has planned.

    A host without an answer is one that could not be reached or read.
    """
    return {"schema": SCHEMA, "kind": KIND, "nodes": [_node(variables) for variables in hosts]}


def _node(variables: Mapping[str, Any]) -> dict[str, Any]:
    answer = variables.get("report_answer") or {}
    facts = {name: answer[name] for name in _FACTS if name in answer}
    whole = len(facts) == len(_FACTS)
    address = variables.get("ansible_host")
    plan = variables.get("sglang_plan")
    instance = str(variables.get("sglang_instance") or "main")
    return {
        "node": str(variables["inventory_hostname"]),
        "address": None if address is None else str(address),
        "state": "read" if whole else "unreachable" if answer.get("unreachable") or not answer else "unread",
        # What the node itself returned holds no secret.
        "failure": None if whole else concealed(_said(answer)),
        "facts": facts if whole else None,
        "plans": {instance: concealed_in(plan)} if isinstance(plan, Mapping) and plan.get("device") else {},
    }


def _said(answer: Mapping[str, Any]) -> str:
    said = answer.get("msg") or answer.get("module_stderr") or answer.get("exception")
    # Ansible's own words before what was the matter.
    return one_line(str(said), 600).removeprefix("Task failed: ") if said else "The node gave no answer."


def checked(document: Any) -> Mapping[str, Any]:
    """A document that was saved earlier."""
    remedy = "Give what the report playbook has written with report_json, or what the filter report_facts returns."
    if not isinstance(document, Mapping) or document.get("kind") != KIND:
        found = sorted(map(str, document)) if isinstance(document, Mapping) else type(document).__name__
        raise Refusal("report_facts_malformed", f"These are no facts of a report: {found}.", remedy)
    if document.get("schema") != SCHEMA or not isinstance(document.get("nodes"), list):
        message = f"The facts are of schema {document.get('schema')!r}; this release reads {SCHEMA}."
        raise Refusal("report_facts_of_another_schema", message, remedy)
    return document


def redacted_facts(document: Any) -> dict[str, Any]:
    """The same document without names, addresses and serial numbers of nodes."""
    nodes = checked(document)["nodes"]
    known = pseudonyms_of((str(node["node"]), _other_names(node)) for node in nodes)
    found: dict[str, Any] = redacted(document, known)
    return {**found, "redacted": True}


def _other_names(node: Mapping[str, Any]) -> list[str]:
    facts = node.get("facts")
    told = (node.get("address"), facts.get("hostname") if isinstance(facts, Mapping) else None)
    return [str(name) for name in told if name]
