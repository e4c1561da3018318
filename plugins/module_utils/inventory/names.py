# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of variables: unknown ones, removed ones, and those that are missing or out of place. No I/O."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.findings import Finding, finding
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.model import Host, Removal, Role

_ON_PAPER = ("sglang_paper_machine", "sglang_paper_topology", "sglang_paper_model")
_MODEL = "sglang_model_path"


def name_findings(host: Host, roles: Sequence[Role], removed: Mapping[str, Removal]) -> Iterator[Finding]:
    for name in sorted(host.stated):
        if name in removed:
            yield _gone(host, name, removed[name])
            continue
        role = next((role for role in roles if name.startswith(role.prefix)), None)
        if role is not None and name not in role.known:
            yield _strange(host, name, role)


def _gone(host: Host, name: str, removal: Removal) -> Finding:
    instead = f"Set {removal.replaced_by} instead" if removal.replaced_by else "Take it away; nothing replaces it"
    return finding(
        "variable_removed",
        [host.name],
        name,
        f"{name}, which the collection does not know since {removal.since}",
        removal.replaced_by or "a variable that is known",
        f"{instead}.{f' {removal.note}' if removal.note else ''}",
    )


def _strange(host: Host, name: str, role: Role) -> Finding:
    close = _closest(name, role.known)
    return finding(
        "variable_unknown",
        [host.name],
        name,
        name,
        f"a variable of {role.name}{f'; the closest is {close}' if close else ''}",
        f"Rename it to {close} if that is meant, or give a variable of your own another prefix." if close else None,
        None if role.strict else "warning",
    )


@lru_cache(maxsize=4096)
def _closest(name: str, known: frozenset[str]) -> str | None:
    close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return close[0] if close else None


def place_findings(host: Host, roles: Sequence[Role]) -> Iterator[Finding]:
    """What a host of these groups has to say, and what it must not."""
    for role in roles:
        if not host.groups.intersection(role.played_in):
            continue
        for name, spec in role.options.items():
            if spec.get("required") and name not in host.stated and not _said_by_instances(host, role, name):
                yield finding("variable_missing", [host.name], name, "nothing", f"a value, as {role.name} requires it")
        for name in sorted(role.not_played & host.stated) if host.is_node else ():
            yield finding("variable_not_played", [host.name], name, name, f"a variable that the role {role.name} takes")
    if host.is_node:
        yield from _node(host)


def _said_by_instances(host: Host, role: Role, name: str) -> bool:
    entries = host.variables.get(f"{role.prefix}instances")
    key = name.removeprefix(role.prefix)
    return (
        isinstance(entries, (list, tuple))
        and bool(entries)
        and all(isinstance(entry, Mapping) and entry.get(key) is not None for entry in entries)
    )


def _node(host: Host) -> Iterator[Finding]:
    for name in _ON_PAPER:
        if host.variables.get(name):
            yield finding(
                "variable_of_paper", [host.name], name, f"{name} on a host of the group sglang", "it on paper only"
            )
    role = Role("sglang", {})
    stated = host.variables.get(_MODEL) is not None or _MODEL in host.unresolved
    if not stated and not _said_by_instances(host, role, _MODEL):
        yield finding(
            "variable_missing",
            [host.name],
            _MODEL,
            "nothing",
            "the folder of the model on the node, such as /srv/models/Qwen3-32B",
        )
