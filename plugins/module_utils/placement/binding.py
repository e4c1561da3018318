# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the ranks of an instance are bound to their NUMA nodes: what the release does, and what it has to be told.

strict: threads and memory stay on the node, so that its memory is the limit; preferred: threads stay, memory spills
over to other nodes when the node is full; none: neither is bound, and memory lies where it is first touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.binding_modes import (
    INTERLEAVE,
    NONE,
    PREFERRED,
    STRICT,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import MachineFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.instances import Instance
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.problem_codes import problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.seats import Seat
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.flags import has_flag
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import VersionFacts


@dataclass(frozen=True)
class Binding:
    """C(mode) is what will hold; C(numa_nodes) is the value of --numa-node, empty where the flag is to be left out.

    C(possible) are the modes that can be had with this release on this machine.
    """

    mode: str
    reason: str
    numa_nodes: tuple[int, ...] = ()
    possible: tuple[str, ...] = (NONE,)


def binding_of(
    machine: MachineFacts, instance: Instance, seats: Sequence[Seat], facts: VersionFacts | None
) -> tuple[Binding, tuple[Problem, ...]]:
    """The binding of one instance, and what to know about it. C(facts) is None where no release is named."""
    nodes = [seat.numa_node for seat in seats if seat.numa_node is not None]
    if len(nodes) < len(seats) or all(seat.gpu is None for seat in seats):
        return Binding(NONE, _why_unknown(machine, seats)), ()
    stated = tuple(nodes) if instance.numa_nodes else ()
    if len(machine.nodes) == 1 and not stated:
        return Binding(NONE, "The machine has one NUMA node, so there is nothing to bind."), ()
    if facts is None:
        modes = (STRICT, PREFERRED, INTERLEAVE, NONE)
        reason = "Every rank's node is known; which binding the server can do depends on its release."
        return Binding(STRICT, reason, stated, modes), ()
    if stated:
        return _by_flag(instance, stated, facts)
    return _by_itself(machine, seats, tuple(nodes), facts), ()


def _why_unknown(machine: MachineFacts, seats: Sequence[Seat]) -> str:
    if not machine.nodes:
        return "The topology lists no NUMA nodes."
    if not machine.homes:
        return "No NUMA node has both CPUs and memory that a service may use."
    if all(seat.gpu is None for seat in seats):
        return "Ranks on CPUs are spread over the NUMA nodes by the server itself."
    return "The NUMA node of a GPU is not known, and the machine has several nodes that it could be."


def _by_flag(instance: Instance, nodes: tuple[int, ...], facts: VersionFacts) -> tuple[Binding, tuple[Problem, ...]]:
    version = facts.version
    if facts.numa_flag_binding == NONE:
        message = f"{instance.label}numa_nodes is stated, and SGLang {version} has no --numa-node."
        return Binding(NONE, f"SGLang {version} has no --numa-node.", (), _possible(facts)), (
            problem("numa_nodes_not_bound", message),
        )
    reason = f"The nodes are stated, and SGLang {version} is told them by --numa-node."
    return Binding(facts.numa_flag_binding, reason, nodes, _possible(facts)), ()


def _by_itself(machine: MachineFacts, seats: Sequence[Seat], nodes: tuple[int, ...], facts: VersionFacts) -> Binding:
    version, possible = facts.version, _possible(facts)
    if facts.numa_binding == NONE:
        hint = "" if facts.numa_flag_binding == NONE else " unless numa_nodes states the nodes"
        return Binding(NONE, f"SGLang {version} does not bind its ranks{hint}.", (), possible)
    if facts.numa_binding == PREFERRED:
        reason = f"SGLang {version} binds its ranks to the node of their GPU when HiCache is on, memory by preference."
        return Binding(PREFERRED, reason, (), possible)
    missed = _why_missed(machine, seats)
    if missed is None:
        reason = f"SGLang {version} binds its ranks to the node of their GPU by itself, where numactl is installed."
        return Binding(STRICT, reason, (), possible)
    return Binding(STRICT, f"{missed}, so it is told the nodes by --numa-node.", nodes, possible)


def _why_missed(machine: MachineFacts, seats: Sequence[Seat]) -> str | None:
    """Why the server would not find the nodes by itself, or would find others; None where it finds these.

    utils/numa_utils.py: it asks whether there is a node 1, asks the driver for the GPU's node, and looks at as many
    ids as there are nodes.
    """
    if not machine.nodes:
        return None
    if any(seat.gpu_numa_node is None for seat in seats):
        return "The server cannot find the NUMA node of its GPUs"
    if any(seat.gpu_numa_node != seat.numa_node for seat in seats):
        return "The server would bind ranks to a NUMA node that cannot take them"
    ids = [node.id for node in machine.nodes]
    if 1 not in ids or any((seat.numa_node or 0) >= len(ids) for seat in seats):
        return "The server does not find nodes whose ids have gaps"
    return None


def _possible(facts: VersionFacts) -> tuple[str, ...]:
    """Modes that the release can be brought to, by flag, environment or the unit around it."""
    modes = []
    if STRICT in (facts.numa_binding, facts.numa_flag_binding):
        modes.append(STRICT)
    if PREFERRED in (facts.numa_binding, facts.numa_flag_binding) or facts.numa_preferred_environment:
        modes.append(PREFERRED)
    if facts.numa_binding == NONE or _off(facts):
        modes += [INTERLEAVE, NONE]
    return tuple(modes)


def how_to(mode: str, facts: VersionFacts | None) -> str:
    """What has to be done for a binding other than the release's own, for a sentence."""
    off = _off(facts) if facts is not None else ""
    soft = _assignments(facts.numa_preferred_environment) if facts is not None else ""
    return {
        STRICT: "strict binding",
        PREFERRED: f"preferred instead of strict binding{f' ({soft})' if soft else ''}",
        INTERLEAVE: f"interleaved memory ({f'{off} and ' if off else ''}NUMAPolicy=interleave, NUMAMask in the unit)",
        NONE: f"no binding{f' ({off})' if off else ''}",
    }[mode]


def _off(facts: VersionFacts) -> str:
    """What keeps the release from binding by itself; empty where nothing does or there is nothing to keep off."""
    flag = "disable-hicache-numa-detect"
    if facts.numa_binding == PREFERRED and has_flag(flag, facts.version):
        return f"--{flag}"
    return _assignments(facts.numa_off_environment)


def _assignments(pairs: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name}={value}" for name, value in pairs)
