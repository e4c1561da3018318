# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A survey of a host as the controller keeps it, out of a file of the role probe or of a cache of facts. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

KIND, SCHEMA = "gpufleet.sglang.survey", 1
# Facts of a host, where the role probe had them kept by Ansible's own cache of facts.
TOPOLOGY_FACT, STACK_FACT, TAKEN_FACT = "probe_topology", "probe_stack", "probe_taken_at"
_LISTS = ("gpus", "numa_nodes", "problems")


class NotASurvey(Exception):
    """Says in a sentence what was found in the place of a survey, what was expected and what to do."""


@dataclass(frozen=True)
class Survey:
    """C(topology) and C(stack) are what gpu_topology_info and host_stack_info return; C(taken_at) counts the seconds
    since 1970, and is None where nothing says when it was."""

    host: str | None
    taken_at: float | None
    topology: Mapping[str, Any]
    stack: Mapping[str, Any]


def survey_of(said: Any) -> Survey:
    """Out of a document of the role probe (probe_save), of a file of a cache of facts, or of the bare result of
    gpu_topology_info."""
    if not isinstance(said, Mapping):
        raise NotASurvey(f"It holds a {type(said).__name__}; expected a survey that the role probe has saved.")
    if said.get("kind") == KIND:
        if said.get("schema") != SCHEMA:
            raise NotASurvey(
                f"It is a survey of form {said.get('schema')!r}; expected form {SCHEMA}. Survey the host anew "
                "(playbook gpufleet.sglang.probe) with the release of the collection that reads it."
            )
        topology, stack = said.get("topology"), said.get("stack")
        host, taken = said.get("host"), said.get("taken_at")
    elif TOPOLOGY_FACT in said:
        topology, stack = said[TOPOLOGY_FACT], said.get(STACK_FACT)
        host, taken = None, said.get(TAKEN_FACT)
    elif "gpus" in said and "numa_nodes" in said:
        topology, stack, host, taken = said, None, None, None
    elif "__payload__" in said:
        raise NotASurvey(
            "It is a file of Ansible's cache of facts, whose form is Ansible's own; expected what the role probe saves "
            "(probe_save). Facts are taken out of the cache itself where fact_caching is set up."
        )
    else:
        raise NotASurvey(
            f"It holds {_keys(said)} and no survey; expected what the role probe saves (probe_save), or facts with "
            f"{TOPOLOGY_FACT}."
        )
    if isinstance(taken, bool) or not isinstance(taken, (int, float, type(None))):
        raise NotASurvey(f"Its time is {taken!r}; expected the seconds since 1970. Survey the host anew.")
    return Survey(host if isinstance(host, str) else None, taken, _topology(topology), _stack(stack))


def _topology(topology: Any) -> Mapping[str, Any]:
    whole = isinstance(topology, Mapping) and all(
        isinstance(topology.get(key), list) and all(isinstance(one, Mapping) for one in topology[key]) for key in _LISTS
    )
    if not whole or not isinstance(topology.get("host"), Mapping):
        raise NotASurvey(
            "Its topology lacks gpus, numa_nodes, host or problems, or has others in their place; expected what "
            "gpu_topology_info returns. Survey the host anew."
        )
    found: Mapping[str, Any] = topology
    return found


def _stack(stack: Any) -> Mapping[str, Any]:
    if stack is None:
        return {}
    problems = stack.get("problems") if isinstance(stack, Mapping) else None
    if not isinstance(problems, list) or not all(isinstance(one, Mapping) for one in problems):
        raise NotASurvey(
            "Its stack is not what host_stack_info returns; expected a mapping with problems. Survey the host anew."
        )
    found: Mapping[str, Any] = stack
    return found


def _keys(said: Mapping[str, Any]) -> str:
    names = sorted(str(name) for name in said)[:4]
    return ", ".join(names) if names else "nothing"
