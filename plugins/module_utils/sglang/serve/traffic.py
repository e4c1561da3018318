# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How busy others keep a server, so that what is sent to prove it does not displace what it is there for. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.serving_versions import ServingFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.answers import Answer, count, rows
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import Client
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.metrics import (
    Sample,
    counts,
    labels_of,
    parse_metrics,
)

LOADS_SECONDS = 30.0
RUNNING = "sglang:num_running_reqs"
WAITING = "sglang:num_queue_reqs"


@dataclass(frozen=True)
class Traffic:
    """Requests of everybody. C(source): who said so; the gauges of /metrics may be half a minute old."""

    running: int
    waiting: int
    source: str

    @property
    def requests(self) -> int:
        return self.running + self.waiting

    def as_dict(self) -> dict[str, object]:
        return {"running": self.running, "waiting": self.waiting, "source": self.source}


def read_traffic(client: Client, facts: ServingFacts) -> Traffic | None:
    """By the schedulers themselves where the release lets them be asked, else by gauge; None if neither tells."""
    if facts.loads is not None:
        found = _of_loads(client.get(facts.loads, LOADS_SECONDS), facts.loads)
        if found is not None:
            return found
    answer = client.get("/metrics", LOADS_SECONDS)
    samples = parse_metrics(answer.body) if answer.status == 200 else []
    if not any(one.name == RUNNING for one in samples):
        return None
    return Traffic(_over_ranks(samples, RUNNING), _over_ranks(samples, WAITING), "/metrics")


def _over_ranks(samples: Sequence[Sample], name: str) -> int:
    """The ranks of one data parallel rank have the same requests and may each tell of them."""
    ranks = sorted(labels_of(samples, "dp_rank"))
    found = [counts(samples, name, dp_rank=rank) for rank in ranks] if ranks else [counts(samples, name)]
    return sum(max(one, default=0) for one in found)


def _of_loads(answer: Answer, path: str) -> Traffic | None:
    """/v1/loads: an object with a list; /get_load: the list alone, whose num_reqs are all requests."""
    data = answer.data() if answer.status == 200 else None
    running = waiting = 0
    listed = rows(data.get("loads") if isinstance(data, dict) else data)
    for row in listed:
        in_queue = count(row.get("num_waiting_reqs"))
        in_all = count(row.get("num_reqs"))
        in_batch = count(row.get("num_running_reqs"))
        if in_queue is None or (in_batch is None and in_all is None):
            return None
        waiting += in_queue
        running += in_batch if in_batch is not None else max(0, (in_all or 0) - in_queue)
    return Traffic(running, waiting, path) if listed else None


def busy(traffic: Traffic | None, bound: int, what: str) -> Problem | None:
    """C(traffic) was read while nothing of ours was under way."""
    if traffic is None or traffic.requests <= bound:
        return None
    return Problem(
        "server_busy",
        "warning",
        f"The {what} was skipped, as the server is busy: {traffic.running} requests of others run and "
        f"{traffic.waiting} wait ({traffic.source}), where {bound} are allowed.",
        "Run the check again when there is less traffic, or raise busy_requests.",
    )
