# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""In which order and how many at a time a fleet is changed, and what it serves meanwhile. No I/O.

Who is out of service already comes first, as that takes nothing away; then the canaries; then batches, each no larger
than what every router can do without. Members of a replica are never parted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.rolling.problem_codes import CODES


@dataclass(frozen=True)
class Node:
    """C(workers): the URLs by which routers know it. C(tokens): of its KV cache, device and host, 0 if not known.

    C(start_seconds): what its last start took, or is planned to take.
    """

    name: str
    routers: tuple[str, ...] = ()
    workers: frozenset[str] = frozenset()
    replica: str | None = None
    tokens: int = 0
    start_seconds: float = 0.0


@dataclass(frozen=True)
class Router:
    """C(in_service) and C(minimum): workers that take requests now, and that have to stay.

    C(held): workers that somebody else holds out, who do not come back by being changed.
    """

    name: str
    in_service: frozenset[str]
    minimum: int
    held: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Batch:
    """C(serving): nodes that serve while this one is changed. C(tokens_left): share of the fleet's KV cache, 0 to 1."""

    kind: str
    nodes: tuple[str, ...]
    serving: int
    tokens_left: float | None
    seconds: float


@dataclass(frozen=True)
class Limits:
    """Sizes are numbers of nodes (C("2")) or shares of the fleet (C("25%"))."""

    canary: str = "1"
    batch: str = "25%"


def size_of(text: str, count: int) -> int:
    """At least 1. Raises Refusal."""
    number = text.strip().removesuffix("%")
    if not number.isdigit() or int(number) < 1 or (text.strip().endswith("%") and int(number) > 100):
        raise Refusal("batch_malformed", f"'{text}' is no size of a batch.", CODES["batch_malformed"].remedy)
    if text.strip().endswith("%"):
        return max(1, math.floor(count * int(number) / 100))
    return int(number)


def order(nodes: Sequence[Node], routers: Sequence[Router], limits: Limits) -> tuple[Batch, ...]:
    """The batches, first to last. Raises Refusal where a router could not let anybody go."""
    serving = {url for router in routers for url in router.in_service}
    units = _units(nodes)
    out = [unit for unit in units if _is_out(unit, serving)]
    rest = [unit for unit in units if unit not in out]
    coming = [node for unit in out for node in unit]
    most = min((_free(router, nodes, coming) for router in routers), default=len(nodes))
    if rest and most < 1:
        _refuse_nobody([router for router in routers if _free(router, nodes, coming) < 1])
    canary, size = size_of(limits.canary, len(nodes)), size_of(limits.batch, len(nodes))
    groups = [("out of service", group) for group in _packed(out, max(size, 1))]
    canaries = _packed(rest, min(canary, most))[:1]
    groups += [("canary", group) for group in canaries]
    left = [unit for unit in rest if not any(node in group for group in canaries for node in unit)]
    groups += [("batch", group) for group in _packed(left, min(size, most))]
    for _kind, group in groups:
        if len(group) > most and not _is_out(group, serving):
            replica = next((node.replica for node in group if node.replica), None)
            raise Refusal(
                "replica_too_large",
                f"Replica {replica} has {len(group)} nodes; at most {most} can leave the routers at a time.",
                CODES["replica_too_large"].remedy,
                {"replica": replica, "nodes": len(group), "may_leave": most},
            )
    return _told(groups, nodes, serving, bool(routers))


def _units(nodes: Sequence[Node]) -> list[tuple[Node, ...]]:
    """Nodes that change together, in the order of the first of each."""
    by_replica: dict[tuple[str, str], list[Node]] = {}
    for node in nodes:
        key = ("replica", node.replica) if node.replica else ("node", node.name)
        by_replica.setdefault(key, []).append(node)
    return [tuple(unit) for unit in by_replica.values()]


def _is_out(unit: Sequence[Node], serving: set[str]) -> bool:
    """By what its routers say. Without routers nobody is out."""
    return any(node.routers for node in unit) and not any(node.workers & serving for node in unit)


def _free(router: Router, nodes: Sequence[Node], coming: Sequence[Node]) -> int:
    """How many nodes it can do without once those that are out are back, which come first.

    Each is taken to have as many workers as any has. A node that fails to come back is one less than this says; the
    router refuses then.
    """
    behind = [len(node.workers) for node in nodes if router.name in node.routers]
    back = router.in_service.union(*(node.workers - router.held for node in coming if router.name in node.routers))
    return max(0, len(back) - router.minimum) // max([1, *behind])


def _refuse_nobody(tight: Sequence[Router]) -> None:
    told = "; ".join(
        f"{router.name} has {len(router.in_service)} in service, and {router.minimum} have to stay" for router in tight
    )
    raise Refusal(
        "nobody_may_leave",
        f"No node can leave: {told}.",
        CODES["nobody_may_leave"].remedy,
        {router.name: {"in_service": len(router.in_service), "minimum": router.minimum} for router in tight},
    )


def _packed(units: Sequence[tuple[Node, ...]], size: int) -> list[tuple[Node, ...]]:
    """Whole units, one after the other; a unit that is larger than the size stands alone."""
    groups: list[tuple[Node, ...]] = []
    for unit in units:
        if groups and len(groups[-1]) + len(unit) <= size:
            groups[-1] += unit
        else:
            groups.append(unit)
    return groups


def _told(
    groups: Sequence[tuple[str, tuple[Node, ...]]], nodes: Sequence[Node], serving: set[str], routed: bool
) -> tuple[Batch, ...]:
    """Each batch with what serves meanwhile, all before it having come back."""
    back = {node.name for node in nodes if not routed or node.workers & serving or not node.routers}
    tokens = {node.name: node.tokens for node in nodes}
    whole = sum(tokens.values()) if all(tokens.values()) else 0
    batches = []
    for kind, group in groups:
        names = tuple(node.name for node in group)
        left = back - set(names)
        batches.append(
            Batch(
                kind,
                names,
                len(left),
                sum(tokens[name] for name in left) / whole if whole else None,
                max(node.start_seconds for node in group),
            )
        )
        back |= set(names)
    return tuple(batches)
