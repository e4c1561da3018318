# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From what Ansible knows of hosts and routers to an order, and from how it went to words."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.effective import read_ledger
from ansible_collections.gpufleet.sglang.plugins.module_utils.instances.declared import declared_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count, format_seconds
from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import one_line
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.rolling.order import Batch, Limits, Node, Router, order
from ansible_collections.gpufleet.sglang.plugins.module_utils.rolling.problem_codes import CODES
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.inventory import workers_of_hosts

# As the role takes workers out (router_members, option holder).
HOLDER = "gpufleet"


def rolling_order(
    hosts: Sequence[Mapping[str, Any]], routers: Sequence[Mapping[str, Any]], canary: object, batch: object
) -> dict[str, Any]:
    """C(hosts): variables of each, with C(rolling_ledgers) as slurp has read them; C(routers): results of router_info.

    What cannot be done is told as C(refusal) and raises nothing, so that a play can show it.
    """
    try:
        told = [_router(router) for router in routers]
        batches = order([_node(host) for host in hosts], told, Limits(str(canary), str(batch)))
    except Refusal as refusal:
        return {"batches": [], "sizes": [], "order": [], "refusal": refusal.as_dict(), "lines": [str(refusal)]}
    return {
        "batches": [
            {
                "kind": one.kind,
                "nodes": list(one.nodes),
                "serving": one.serving,
                "tokens_left": None if one.tokens_left is None else round(one.tokens_left, 4),
                "seconds": one.seconds,
            }
            for one in batches
        ],
        "sizes": [len(one.nodes) for one in batches],
        "order": [name for one in batches for name in one.nodes],
        "refusal": None,
        "lines": order_lines(batches, told),
    }


def _router(result: Mapping[str, Any]) -> Router:
    name = str(result["item"])
    if not result.get("running"):
        why = one_line(str(result.get("problem") or result.get("msg") or "no answer"), 300).rstrip(".")
        raise Refusal("router_unknown", f"Router {name}: {why}.", CODES["router_unknown"].remedy)
    held = (one["url"] for one in result["members"] if one["held_by"] not in (None, HOLDER))
    return Router(name, frozenset(result["in_service"]), int(result["minimum_in_service"]), frozenset(held))


def _node(host: Mapping[str, Any]) -> Node:
    ledgers = [_ledger(one) for one in (host.get("rolling_ledgers") or {}).get("results", [])]
    routers = tuple(dict.fromkeys(_routers(host)))
    replica = host.get("sglang_replica")
    return Node(
        name=str(host["inventory_hostname"]),
        routers=routers,
        workers=frozenset(row["url"] for row in workers_of_hosts(host)) if routers else frozenset(),
        replica=str(replica) if replica else None,
        tokens=sum(_tokens(ledger) for ledger in ledgers),
        start_seconds=max((_seconds(ledger) for ledger in ledgers), default=0.0),
    )


def _routers(host: Mapping[str, Any]) -> list[str]:
    return [str(name) for one in declared_of(host) for name in one.get("routers") or []]


def _ledger(read: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return read_ledger(base64.b64decode(read.get("content") or "").decode())
    except ValueError:
        return {}


def _tokens(ledger: Mapping[str, Any]) -> int:
    plan = ledger.get("plan") or {}
    return int(plan.get("device", {}).get("max_total_num_tokens") or 0) + int(plan.get("host", {}).get("tokens") or 0)


def _seconds(ledger: Mapping[str, Any]) -> float:
    measured = (ledger.get("startup") or {}).get("elapsed_seconds")
    planned = ((ledger.get("plan") or {}).get("timing") or {}).get("start_seconds")
    return float(measured or planned or 0.0)


def order_lines(batches: Sequence[Batch], routers: Sequence[Router]) -> list[str]:
    """The order for a person: who, how many serve meanwhile, how long it takes."""
    count = sum(len(one.nodes) for one in batches)
    lines = []
    for number, one in enumerate(batches, 1):
        share = "" if one.tokens_left is None else f", {100 * one.tokens_left:.1f} % of the cached tokens"
        last = f"; starts take {format_seconds(one.seconds)}" if one.seconds else ""
        names = ", ".join(one.nodes[:6]) + (f" and {len(one.nodes) - 6} more" if len(one.nodes) > 6 else "")
        lines.append(f"{number}. {one.kind}: {names}; {one.serving} of {count} nodes serve meanwhile{share}{last}")
    for router in routers:
        lines.append(
            f"router {router.name}: {len(router.in_service)} in service, at least {router.minimum} at any moment"
        )
    known = all(one.seconds for one in batches)
    whole = sum(one.seconds for one in batches)
    lines.append(
        f"{format_count(count)} nodes in {len(batches)} batches"
        + (
            f"; the starts alone take {format_seconds(whole)}, requests that end and checks come to that"
            if known
            else ""
        )
    )
    return lines


def rolling_outcome(hosts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How it went, of every host in its order. C(hosts): variables of each, with what the roll has left in them."""
    done, failed, left = [], [], []
    for host in hosts:
        name, found = str(host["inventory_hostname"]), host.get("rolling_result")
        if found is None:
            left.append(name)
        elif found.get("failed"):
            failed.append((name, found))
        else:
            done.append(name)
    lines = [f"{len(done)} of {len(hosts)} nodes are as declared and in service"]
    lines += [f"failed, out of service: {name}: {_why(found)}" for name, found in failed]
    if left:
        lines.append(f"not begun, or lost on the way: {', '.join(left)}")
    return {"done": done, "failed": [name for name, _found in failed], "left": left, "lines": lines}


def _why(found: Mapping[str, Any]) -> str:
    return f"{found.get('task') or 'a task'}: {one_line(str(found.get('message') or 'no reason was given'), 600)}"
