#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: router_members
version_added: 0.1.0
short_description: Say which workers a router sends requests to
description:
  - Changes who is in service behind the router of this host, and waits until the router has it so. Runs on the
    host of the router, which the role P(gpufleet.sglang.router#role) has set up.
  - What is wanted is kept in a file, as the router forgets its workers when it restarts. It is told them again from
    that file, so that a worker that was taken out stays out, whoever restarts.
  - A worker is not taken out where fewer than C(router_minimum_in_service) would stay in service. Two that ask at the
    same moment are told one after the other, so that not both are let go where only one may.
  - Requests that the router has passed to a worker go on when it is taken out; M(gpufleet.sglang.wait_for_drain) waits
    for them.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  platform:
    platforms: linux
options:
  state:
    description:
      - With V(declared), O(workers) are all that there are. Those that are held out stay so, and whoever is not named
        is removed. Those that answer are added by the unit C(sglang-router-members.service), within 30 s.
      - With V(out), O(workers) are taken out of service and held there by O(holder). A worker that somebody else holds
        is left to them.
      - With V(in), O(workers) that O(holder) has taken out come back, and it is waited until they are healthy.
    type: str
    choices: [declared, out, in]
    required: true
  workers:
    description: The workers.
    type: list
    elements: dict
    required: true
    suboptions:
      url:
        description: Where the router reaches it, C(http://HOST:PORT).
        type: str
        required: true
      kind:
        description: For V(declared); V(prefill) and V(decode) are the two halves of a disaggregated server.
        type: str
        choices: [regular, prefill, decode]
        default: regular
      bootstrap_port:
        description: Port of a V(prefill) worker for the handing over of the KV cache.
        type: int
  holder:
    description: Who takes a worker out or puts it back. Nobody else's workers come back by it.
    type: str
    default: gpufleet
  reason:
    description: Why it is taken out, for whoever looks.
    type: str
  timeout_seconds:
    description:
      - How long it is waited for the router to have it so, and with V(out) also for enough others to be in service.
    type: float
    default: 60
  access:
    description: The file that says how the router is reached, as the role writes it.
    type: path
    default: /etc/sglang-router/access.json
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - module: gpufleet.sglang.router_info
  - module: gpufleet.sglang.wait_for_drain
"""

EXAMPLES = r"""
- name: Take a node out for a visit of the vendor
  gpufleet.sglang.router_members:
    state: out
    workers:
      - url: http://10.0.0.17:30000
    holder: operator
    reason: a fan is replaced
  delegate_to: router-1

- name: Put it back
  gpufleet.sglang.router_members:
    state: in
    workers:
      - url: http://10.0.0.17:30000
    holder: operator
  delegate_to: router-1
"""

RETURN = r"""
members:
  description: Who is meant to be in service, and who is held out.
  returned: success
  type: list
  elements: dict
  sample:
    - {url: "http://10.213.77.182:30000", kind: regular, bootstrap_port: null, held_by: null, reason: null}
in_service:
  description: The workers that take requests now. Null in check mode, and where the router does not run.
  returned: success
  type: list
  elements: str
  sample: ["http://10.213.77.182:30000"]
held_by_others:
  description: Those of O(workers) that somebody else than O(holder) holds out.
  returned: success
  type: list
  elements: dict
  sample: []
failure:
  description: Code, message, remedy and evidence of what went wrong.
  returned: failure
  type: dict
  sample:
    code: too_few_in_service
    message: >-
      2 workers of this router are in service; without http://10.213.77.182:30000 there would be 1, where 2 have to stay
      in service.
    remedy: >-
      Wait for others to come back, take fewer at a time, or lower router_minimum_in_service. At most 0 can leave now.
    evidence: {in_service: 2, in_service_after: 1, minimum: 2, may_leave: 0}
"""

import fcntl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.access import (
    DEFAULT_PATH,
    Access,
    client_of,
    members_at,
    read_access,
    read_key,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.members import (
    KINDS,
    Member,
    declared,
    members_text,
    normal_url,
    put_back,
    taken_out,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.problem_codes import CODES
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.registry import (
    Worker,
    in_service,
    may_leave,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.settling import (
    LOOK_SECONDS,
    apply,
    await_members,
    workers_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import Client
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.disk import write_whole


@contextmanager
def _alone(members: Path) -> Iterator[None]:
    """One at a time on this host: the modules, and what brings the members to a router that has restarted."""
    with (members.parent / ".lock").open("a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _wished(rows: Sequence[Mapping[str, Any]]) -> tuple[Member, ...]:
    wished = tuple(Member(normal_url(row["url"]), row["kind"], row["bootstrap_port"]) for row in rows)
    return tuple({one.url: one for one in wished}.values())


def _after(params: Mapping[str, Any], before: tuple[Member, ...] | None) -> tuple[Member, ...]:
    wished = _wished(params["workers"])
    if params["state"] == "declared":
        return declared(before or (), wished)
    if before is None:
        raise Refusal("members_unreadable", "This router has no members yet.", CODES["members_unreadable"].remedy)
    urls = [one.url for one in wished]
    if params["state"] == "out":
        return taken_out(before, urls, params["holder"], params["reason"] or "no reason was given")
    return put_back(before, urls, params["holder"])


def _leave(params: Mapping[str, Any], access: Access, only_look: bool) -> tuple[tuple[Member, ...], tuple[Member, ...]]:
    """(before, after), written once nobody else's leave stands against it. The lock is let go while it waits.

    C(only_look): neither written nor waited for.
    """
    client = client_of(access, params["timeout_seconds"])
    urls = frozenset(one.url for one in _wished(params["workers"]))
    while True:
        with _alone(access.members):
            found = members_at(access.members)
            before, after = found or (), _after(params, found)
            leaving = urls - {one.url for one in after if one.wanted}
            refusal = _objection(client, before, leaving, access.minimum)
            if refusal is None:
                if before != after and not only_look:
                    write_whole(access.members, members_text(after))
                return before, after
        if only_look or client.left_seconds() <= LOOK_SECONDS:
            raise refusal
        time.sleep(LOOK_SECONDS)


def _objection(client: Client, members: Sequence[Member], leaving: frozenset[str], minimum: int) -> Refusal | None:
    """A router that restarts knows nobody for a moment, and nobody may leave in that moment."""
    try:
        return may_leave(leaving, in_service(members, workers_of(client)), minimum)
    except Refusal as refusal:
        return refusal


def _change(params: Mapping[str, Any], access: Access, only_look: bool) -> dict[str, Any]:
    written = False
    if params["state"] == "out":
        before, after = _leave(params, access, only_look)
    else:
        # In check mode the folder may not be there yet.
        with _alone(access.members) if access.members.parent.is_dir() else nullcontext():
            found = members_at(access.members)
            before, after = found or (), _after(params, found)
            written = found is None
            if not only_look and (written or before != after):
                write_whole(access.members, members_text(after))
    urls = frozenset(one.url for one in _wished(params["workers"]))
    result: dict[str, Any] = {
        "changed": written or before != after,
        "members": [one.as_dict() for one in after],
        "in_service": None,
        "held_by_others": [
            one.as_dict() for one in after if one.url in urls and not one.wanted and one.held_by != params["holder"]
        ],
        "diff": {"before": members_text(before) if before else "", "after": members_text(after)},
    }
    if not only_look:
        workers = _settle(params, access, after, urls)
        result["in_service"] = None if workers is None else sorted(in_service(after, workers))
    return result


def _settle(
    params: Mapping[str, Any], access: Access, members: Sequence[Member], urls: frozenset[str]
) -> tuple[Worker, ...] | None:
    """None where the router does not run, and nobody waits for it: it is told its members when it starts."""
    client = client_of(access, params["timeout_seconds"])
    key = read_key(access.worker_api_key_file)
    wanted = urls & {one.url for one in members if one.wanted}
    healthy = wanted if params["state"] == "in" else frozenset()
    gone = urls - wanted if params["state"] == "out" else frozenset()
    try:
        with _alone(access.members):
            # As they are now: somebody else may have changed them since.
            gone |= apply(client, members_at(access.members) or members, healthy, key)
    except Refusal as refusal:
        if refusal.code != "router_silent":
            raise
        if params["state"] == "declared":
            return None
    return await_members(client, gone, healthy)


def main() -> None:
    worker = {
        "url": {"type": "str", "required": True},
        "kind": {"type": "str", "choices": list(KINDS), "default": KINDS[0]},
        "bootstrap_port": {"type": "int"},
    }
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["declared", "out", "in"], "required": True},
            "workers": {"type": "list", "elements": "dict", "required": True, "options": worker},
            "holder": {"type": "str", "default": "gpufleet"},
            "reason": {"type": "str"},
            "timeout_seconds": {"type": "float", "default": 60},
            "access": {"type": "path", "default": DEFAULT_PATH},
        },
        supports_check_mode=True,
    )
    try:
        result = _change(module.params, read_access(module.params["access"]), module.check_mode)
    except Refusal as refusal:
        module.fail_json(msg=str(refusal), failure=refusal.as_dict())
    module.exit_json(**result)


if __name__ == "__main__":
    main()
