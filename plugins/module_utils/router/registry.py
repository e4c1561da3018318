# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a router says of its workers (GET /workers of sglang-router 0.3), and what of it differs from what is meant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.members import Member, normal_url
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.problem_codes import CODES
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.answers import Answer, count, rows


@dataclass(frozen=True)
class Worker:
    """A worker as the router has it. C(load): requests that it counts there, which not every policy has it do."""

    identity: str
    url: str
    kind: str
    healthy: bool
    load: int | None
    model: str | None

    def as_dict(self) -> dict[str, Any]:
        return {
            "url": self.url,
            "kind": self.kind,
            "healthy": self.healthy,
            "load": self.load,
            "model": self.model,
        }


@dataclass(frozen=True)
class Difference:
    """What has to be asked of the router so that it has the members that are wanted."""

    add: tuple[Member, ...] = ()
    remove: tuple[Worker, ...] = ()

    @property
    def none(self) -> bool:
        return not self.add and not self.remove


def read_workers(answer: Answer) -> tuple[Worker, ...]:
    """Raises Refusal for an answer that is none to the question."""
    data = answer.data() if answer.status == 200 else None
    listed = data.get("workers") if isinstance(data, dict) else None
    if not isinstance(listed, list):
        code = "router_key_refused" if answer.status in (401, 403) else "router_silent"
        raise Refusal(code, f"GET /workers: {answer.words()}.", CODES[code].remedy, {"status": answer.status})
    workers = []
    for row in rows(listed):
        identity, url = row.get("id"), row.get("url")
        if isinstance(identity, str) and isinstance(url, str):
            model = row.get("model_id")
            workers.append(
                Worker(
                    identity,
                    _as_told(url),
                    str(row.get("worker_type") or "regular"),
                    row.get("is_healthy") is True,
                    count(row.get("load")),
                    model if isinstance(model, str) else None,
                )
            )
    return tuple(sorted(workers, key=lambda one: one.url))


def _as_told(url: str) -> str:
    try:
        return normal_url(url)
    except Refusal:
        # grpc:// and what else a router may have that nobody here has given it.
        return url


def difference(members: Sequence[Member], workers: Sequence[Worker]) -> Difference:
    wanted = {one.url: one for one in members if one.wanted}
    there = {one.url for one in workers}
    return Difference(
        add=tuple(one for url, one in sorted(wanted.items()) if url not in there),
        remove=tuple(one for one in workers if one.url not in wanted),
    )


def in_service(members: Sequence[Member], workers: Sequence[Worker]) -> frozenset[str]:
    """Who takes requests: wanted, registered and healthy."""
    wanted = {one.url for one in members if one.wanted}
    return frozenset(one.url for one in workers if one.healthy and one.url in wanted)


def may_leave(urls: frozenset[str], serving: frozenset[str], minimum: int) -> Refusal | None:
    """Why these cannot be taken out now; None if they can. Who does not serve takes nothing away by leaving."""
    left = len(serving - urls)
    if left >= minimum or not urls & serving:
        return None
    now = len(serving)
    return Refusal(
        "too_few_in_service",
        f"{now} worker{'' if now == 1 else 's'} of this router {'is' if now == 1 else 'are'} in service; without "
        f"{', '.join(sorted(urls & serving))} there would be {left}, where {minimum} have to stay in service.",
        f"{CODES['too_few_in_service'].remedy} At most {max(0, now - minimum)} can leave now.",
        {"in_service": now, "in_service_after": left, "minimum": minimum, "may_leave": max(0, now - minimum)},
    )
