# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Capacity of the device pool and of the host tier against the plan, by the server's own gauges. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.serving_versions import LOAD_BACK_COUNTER
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import Check, Client
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.identity import ServerFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.metrics import (
    Sample,
    counts,
    labels_of,
    parse_metrics,
    values,
)

# observability/metrics_collector.py; one sample for each data parallel rank.
HOST_TOTAL = "sglang:hicache_host_total_tokens"
HOST_USED = "sglang:hicache_host_used_tokens"
DEVICE_TOTAL = "sglang:max_total_num_tokens"
REPORTED = (DEVICE_TOTAL, HOST_TOTAL, HOST_USED, "sglang:cached_tokens_total", LOAD_BACK_COUNTER)

METRICS_SECONDS = 30.0
METRICS_PAUSE_SECONDS = 1.0
METRICS_PATIENCE_SECONDS = 15.0


@dataclass(frozen=True)
class Gauges:
    """What /metrics said. C(status) other than 200: it said nothing."""

    status: int
    samples: tuple[Sample, ...] = field(default=(), repr=False)

    @property
    def host_tokens(self) -> list[int]:
        return sorted(set(counts(self.samples, HOST_TOTAL)))

    @property
    def device_tokens(self) -> list[int]:
        return counts(self.samples, DEVICE_TOTAL)

    @property
    def ranks(self) -> int | None:
        """Data parallel ranks that tell of themselves."""
        return len(labels_of(self.samples, "dp_rank")) or None

    def reported(self) -> dict[str, list[float]]:
        return {name: found for name in REPORTED if (found := [*map(float, counts(self.samples, name))])}


def read_gauges(client: Client, needs_host: bool) -> Gauges:
    """The gauge of the host tier first appears with a batch, so there is patience where it is needed."""
    until = min(client.deadline, client.clock() + METRICS_PATIENCE_SECONDS)
    while True:
        answer = client.get("/metrics", METRICS_SECONDS)
        samples = parse_metrics(answer.body) if answer.status == 200 else []
        patient = needs_host and answer.status == 200 and not any(values(samples, HOST_TOTAL))
        if not patient or client.clock() >= until:
            return Gauges(answer.status, tuple(samples))
        client.sleep(METRICS_PAUSE_SECONDS)


def metrics_off(gauges: Gauges) -> list[Problem]:
    if gauges.status == 200:
        return []
    return [
        Problem(
            "metrics_off",
            "warning",
            f"/metrics answers {gauges.status or 'nothing'}, so the pools cannot be compared with the plan by gauge.",
            "Set enable_metrics.",
        )
    ]


def check_device(gauges: Gauges, facts: ServerFacts, expected: int) -> Check:
    name = "max_total_num_tokens"
    found = gauges.device_tokens or list(facts.device_tokens)
    if not found:
        return Check(name, None, None, expected)
    least = min(found)
    missing = expected - least
    return Check(
        name,
        least >= expected,
        least,
        expected,
        "device_capacity_below_plan",
        f"The device pool holds {format_count(least)} tokens where {format_count(expected)} were planned, "
        f"{format_count(missing)} or {missing / max(1, expected):.2%} fewer: something else held device memory when it "
        "was sized, or the plan is of another model.",
        "Free the GPUs of other processes and restart the instance, or plan anew with what this start has measured.",
        values={"found_tokens": least, "planned_tokens": expected, "missing_tokens": missing},
    )


def check_host(gauges: Gauges, expected: int, has_gauge: bool) -> Check:
    """C(has_gauge): whether this release tells the size of its host tier."""
    name = "host_tokens"
    found = gauges.host_tokens
    if not found:
        if not has_gauge or gauges.status != 200:
            return Check(name, None, None, expected)
        return Check(
            name,
            False,
            None,
            expected,
            "host_tier_missing",
            f"The server has no host tier: {HOST_TOTAL} is missing from /metrics, and {format_count(expected)} tokens "
            "a rank were planned.",
            "Start it with enable_hierarchical_cache; look in its log for what switched HiCache off.",
            values={"planned_tokens": expected},
        )
    return Check(
        name,
        found == [expected],
        found[0] if len(found) == 1 else found,
        expected,
        "host_tier_differs",
        f"The host tier holds {_all(found)} tokens a rank where {format_count(expected)} were planned: the server runs "
        "with another ratio or size than the plan.",
        "Compare hicache_ratio and hicache_size in the server_args line of the log with the plan, and restart it.",
        values={"found_tokens": found, "planned_tokens": expected},
    )


def _all(found: Iterable[int]) -> str:
    return ", ".join(format_count(one) for one in found)
