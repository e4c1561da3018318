# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A port and GPUs for each instance that leaves them open; what two of one node would both take. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import MachineFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.instances import Instance
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.place import place
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.ports import (
    DEFAULT_PORT,
    HIGHEST,
    Ports,
    ports_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.port_versions import port_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import (
    VersionFacts,
    parse_version,
)

# From one candidate to the next, so that people can tell instances by their ports.
STEP = 10
_EVERYWHERE = ("0.0.0.0", "::")


@dataclass(frozen=True)
class Wish:
    """What one instance asks for. C(port) is None where any will do."""

    name: str
    sglang_version: str
    port: int | None = None
    host: str | None = None
    attention_dp: int = 1
    extra_arguments: Mapping[str, Any] = field(default_factory=dict)

    def ports(self, port: int) -> tuple[Ports, ...]:
        """Those of its ports that are all taken, with this one for HTTP."""
        facts = port_facts(parse_version(self.sglang_version))
        found = ports_of(facts, port, self.host, self.attention_dp, self.extra_arguments)
        return tuple(one for one in found if one.fixed)


@dataclass(frozen=True)
class Claim:
    """What an instance takes, or is kept for it."""

    name: str
    gpus: tuple[int, ...] = ()
    ports: tuple[Ports, ...] = ()
    port: int | None = None


def seated(
    wishes: Sequence[Instance], kept: Sequence[Claim], machine: MachineFacts, facts: VersionFacts | None = None
) -> dict[str, list[int]]:
    """The GPUs of each instance by its name, in rank order: those that it names, else those that are kept for it, else
    the best of those that are left.

    What is kept for an instance gives way where another one names it, or where it is no longer as many as it has ranks.
    """
    names = {wish.name for wish in wishes}
    others = [Instance(claim.name, len(claim.gpus), claim.gpus) for claim in kept if claim.name not in names]
    strangers = [other for other in others if other.gpus]
    earlier = {claim.name: claim.gpus for claim in kept}
    usable = {gpu.index for gpu in machine.gpus if gpu.trouble is None}
    taken = {gpu for wish in (*wishes, *strangers) for gpu in wish.gpus}
    asked = []
    for wish in wishes:
        before = earlier.get(wish.name, ())
        stays = len(before) == wish.ranks and usable.issuperset(before) and taken.isdisjoint(before)
        if not wish.gpus and stays:
            taken.update(before)
            asked.append(replace(wish, gpus=before))
        else:
            asked.append(wish)
    placed = place(machine, [*asked, *strangers], facts)
    return {one.name: [gpu.index for gpu in one.gpus] for one in placed.instances if one.name in names}


def claim_of(name: str, said: Mapping[str, Any]) -> Claim:
    """Out of plain data: C(gpus), and C(ports) as a plan has them (unit.ports)."""
    ports = said.get("ports") or {}
    return Claim(
        name=name,
        gpus=tuple(gpu for gpu in said.get("gpus") or () if isinstance(gpu, int)),
        ports=tuple(Ports(key, one["first"], one["last"], one["address"]) for key, one in ports.items()),
        port=ports["http"]["first"] if "http" in ports else None,
    )


def meet(one: Ports, other: Ports) -> bool:
    same = one.address == other.address or one.address in _EVERYWHERE or other.address in _EVERYWHERE
    return same and one.first <= other.last and other.first <= one.last


def arrange_ports(wishes: Sequence[Wish], kept: Sequence[Claim], listening: Collection[int] = ()) -> dict[str, int]:
    """The port of each instance by its name: the one that is stated, else the one that is kept for it, else the next
    that is free. C(listening): ports that others than these instances hold.
    """
    found = {wish.name: wish.port for wish in wishes if wish.port is not None}
    names = {wish.name for wish in wishes}
    taken = [ports for claim in kept if claim.name not in names for ports in claim.ports]
    taken += [ports for wish in wishes if wish.port is not None for ports in wish.ports(wish.port)]
    before = {claim.name: claim.port for claim in kept}
    # Those that have one keep it, before any is given away.
    open_wishes = sorted((wish for wish in wishes if wish.port is None), key=lambda wish: before.get(wish.name) is None)
    for wish in open_wishes:
        earlier = before.get(wish.name)
        port = earlier if earlier is not None and _fits(wish, earlier, taken) else _next(wish, taken, listening)
        found[wish.name] = port
        taken += wish.ports(port)
    return {wish.name: found[wish.name] for wish in wishes}


def _fits(wish: Wish, port: int, taken: Sequence[Ports], listening: Collection[int] = ()) -> bool:
    try:
        wanted = wish.ports(port)
    except Refusal:
        return False
    held = any(one.first <= other <= one.last for one in wanted for other in listening)
    return not held and not any(meet(one, other) for one in wanted for other in taken)


def _next(wish: Wish, taken: Sequence[Ports], listening: Collection[int]) -> int:
    for port in range(DEFAULT_PORT, HIGHEST + 1, STEP):
        if _fits(wish, port, taken, listening):
            return port
    # Says what is wrong with it where no port would be right.
    wish.ports(DEFAULT_PORT)
    raise Refusal(
        "ports_exhausted",
        f"No port from {DEFAULT_PORT} on in steps of {STEP} is free for instance {wish.name}.",
        "Set sglang_port for it.",
        {"instance": wish.name},
    )


def clashes(claims: Sequence[Claim]) -> list[str]:
    """What two of them would both take, a sentence each."""
    said = []
    for one, other in combinations(claims, 2):
        shared = sorted(set(one.gpus) & set(other.gpus))
        if shared:
            which = ", ".join(str(gpu) for gpu in shared)
            said.append(
                f"Instances {one.name} and {other.name} both take GPU {which}; expected each GPU with one of them. "
                "State gpus for both, or for neither, so that they are seated beside each other."
            )
        for mine in one.ports:
            for theirs in other.ports:
                if meet(mine, theirs):
                    said.append(
                        f"Instances {one.name} ({mine.name}, {mine.words}) and {other.name} ({theirs.name}, "
                        f"{theirs.words}) take the same ports; expected ports of their own. Set port for one of them, "
                        "or null to have it chosen."
                    )
    return said
