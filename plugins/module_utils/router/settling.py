# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Brings a router to have the members that are wanted, and waits until it does. Asks through the client alone."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.members import Member
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.problem_codes import CODES
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.registry import (
    Worker,
    difference,
    read_workers,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import Call, Client

LOOK_SECONDS = 0.25


def workers_of(client: Client) -> tuple[Worker, ...]:
    return read_workers(client.get("/workers"))


def apply(client: Client, members: Sequence[Member], awaited: frozenset[str], worker_key: str | None) -> frozenset[str]:
    """Asks the router once for what differs, and gives the URLs that it was asked to let go.

    It answers before it has done it: await_members sees to the rest. Only those C(awaited) are added: the router goes
    on asking one that does not answer, and would take it as soon as it does, proven or not. Whoever brings it its
    members (bring_members.py of the role) looks whether they answer first.
    """
    differing = difference(members, workers_of(client))
    for worker in differing.remove:
        client.send(Call("DELETE", f"/workers/{worker.identity}"))
    for member in differing.add:
        if member.url in awaited:
            client.send(Call("POST", "/workers", registration(member, worker_key)))
    return frozenset(one.url for one in differing.remove)


def registration(member: Member, worker_key: str | None) -> dict[str, object]:
    body: dict[str, object] = {"url": member.url, "worker_type": member.kind}
    if member.bootstrap_port is not None:
        body["bootstrap_port"] = member.bootstrap_port
    if worker_key is not None:
        body["api_key"] = worker_key
    return body


def await_members(client: Client, gone: frozenset[str], healthy: frozenset[str]) -> tuple[Worker, ...]:
    """Until the router has none of the one and all of the other in health. Raises Refusal at the client's deadline.

    Of nobody else: others come and go meanwhile, by other plays. A router that restarts meanwhile is told its members
    when it comes back.
    """
    while True:
        try:
            workers = workers_of(client)
            left = sorted(gone & {one.url for one in workers})
            missing = sorted(healthy - {one.url for one in workers if one.healthy})
            if not left and not missing:
                return workers
            unsettled = _unsettled(left, missing, workers)
        except Refusal as refusal:
            unsettled = refusal
        if client.left_seconds() <= LOOK_SECONDS:
            raise unsettled
        client.sleep(LOOK_SECONDS)


def _unsettled(left: Sequence[str], missing: Sequence[str], workers: Sequence[Worker]) -> Refusal:
    if left:
        code = "worker_not_removed"
        found = f"The router still has {', '.join(left)}; expected it gone."
    else:
        code = "worker_not_in_service"
        known = {one.url for one in workers}
        states = ", ".join(f"{url} ({'unhealthy' if url in known else 'not registered'})" for url in missing)
        found = f"The router does not have {states} in service; expected it registered and healthy."
    return Refusal(code, found, CODES[code].remedy, {"workers": list(missing or left)})
