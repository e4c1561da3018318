# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Assertions of the user's own over a whole inventory, in JMESPath (https://jmespath.org). No I/O."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.findings import Finding, finding
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.model import Host
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.values import shown

try:
    import jmespath
    import jmespath.exceptions

    HAS_JMESPATH = True
except ImportError:
    HAS_JMESPATH = False

VARIABLE = "validate_queries"


def asked_document(hosts: Sequence[Host], secret: frozenset[str]) -> dict[str, Any]:
    """What queries are asked of: C(hosts), each with C(name), C(groups) and C(variables), and the C(groups) by name.

    A list, as JMESPath cannot tell the names of a mapping beside its values. Keys are left out (C(secret)), since what
    a query finds is shown.
    """
    groups: dict[str, list[str]] = {}
    listed = []
    for host in hosts:
        for group in sorted(host.groups):
            groups.setdefault(group, []).append(host.name)
        variables = {name: value for name, value in host.variables.items() if name not in secret}
        listed.append({"name": host.name, "groups": sorted(host.groups), "variables": variables})
    # As JSON has it: a filter of JMESPath tells a subclass of str from a string.
    plain: dict[str, Any] = json.loads(json.dumps({"hosts": listed, "groups": groups}, default=str))
    return plain


def query_findings(queries: Sequence[Mapping[str, Any]], asked: Mapping[str, Any]) -> Iterator[Finding]:
    if queries and not HAS_JMESPATH:
        yield finding(
            "python_library_missing",
            [],
            VARIABLE,
            "no jmespath, so that no query was asked",
            "the Python library jmespath on the controller",
            "pip install jmespath, into the environment that Ansible runs in.",
        )
        return
    for query in queries:
        yield from _asked(query, asked)


def _asked(query: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[Finding]:
    name = str(query["name"])
    try:
        found = jmespath.search(str(query["query"]), asked)
    except jmespath.exceptions.JMESPathError as error:
        first = str(error).splitlines()[0]
        yield finding("query_impossible", [], VARIABLE, f"{name}: {first}", "an expression of JMESPath")
        return
    met = found == query["expect"] if query.get("expect") is not None else bool(found)
    if not met:
        wanted = shown(query["expect"]) if query.get("expect") is not None else "anything but null, false or empty"
        yield finding(
            "query_not_met",
            [],
            VARIABLE,
            f"{name}: {shown(found)}",
            wanted,
            query.get("remedy") or f"See what the query is for: {query['query']}",
            query.get("severity"),
        )
