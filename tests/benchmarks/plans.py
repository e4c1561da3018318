#!/usr/bin/env python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many plans one process makes, over hosts that all differ, and how a plan's cost grows with what is planned.

The hosts are those of tests/campaign/plan_requests.py: machines, models of every family, releases, layouts and
settings, the same for the same seed. A plan is counted from the arguments as the module gets them to the plain data
that it returns, refusals included. Times are those of the processor, so that what else this machine does counts little.
Printed, never judged.
"""

from __future__ import annotations

import argparse
import copy
import cProfile
import json
import pstats
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan import plan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan_dict import plan_as_dict
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import plan_request
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.campaign.plan_requests import any_request

Request = dict[str, Any]
HOSTS = 10_000
# Made before the count begins, so that tables and caches of the first plans are not among it.
WARM_UP = 200
GIB = 1 << 30


def outcome(request: Request) -> str:
    """How a plan ended: 'planned', or the code of its refusal."""
    try:
        plan_as_dict(plan(plan_request(request)))
    except Refusal as refusal:
        return refusal.code
    return "planned"


def distinct(count: int, seed: int) -> list[Request]:
    """So many requests of which no two are alike."""
    dice = random.Random(seed)
    found: dict[str, Request] = {}
    while len(found) < count:
        request = any_request(dice)
        found.setdefault(json.dumps(request, sort_keys=True), request)
    return list(found.values())


def timed(requests: Iterable[Request]) -> tuple[list[float], Counter[str]]:
    """Seconds of each plan, and how the plans ended."""
    seconds: list[float] = []
    ends: Counter[str] = Counter()
    for request in requests:
        began = time.process_time()
        end = outcome(request)
        seconds.append(time.process_time() - began)
        ends[end] += 1
    return seconds, ends


def plain(gpus: int = 8, nodes: int = 2, layers: int = 64) -> Request:
    """A host of which one size at a time is varied; all GPUs serve one instance."""
    return {
        "sglang_version": "0.5.23",
        "model": {
            "architecture": "Qwen3ForCausalLM",
            "dtype": "bfloat16",
            "attention": {"num_layers": layers, "num_attention_heads": 64, "num_kv_heads": 8, "head_dim": 128},
            "weights": {"total_bytes": 64 * 10**9},
        },
        "topology": {
            "gpus": [
                {
                    "index": index,
                    "numa_node": index * nodes // gpus,
                    "memory_total_bytes": 141 * GIB,
                    "compute_capability": "9.0",
                }
                for index in range(gpus)
            ],
            "numa_nodes": [{"id": node, "memory_available_bytes": 4 * 10**12 // nodes} for node in range(nodes)],
            "host": {"memory_available_bytes": 4 * 10**12},
        },
        "server": {"tensor_parallel_size": gpus, "mem_fraction_static": 0.85},
        "hicache": {"ratio": 1.5},
    }


def hybrid(layers: int) -> Request:
    """The same with a window pool, whose layers are listed one by one."""
    request = copy.deepcopy(plain(layers=layers))
    request["model"]["architecture"] = "GptOssForCausalLM"
    request["model"]["attention"].update(
        family="swa",
        full_layers=list(range(0, layers, 2)),
        window={
            "layers": list(range(1, layers, 2)),
            "num_kv_heads": 8,
            "head_dim": 128,
            "v_head_dim": 128,
            "tokens": 128,
        },
    )
    return request


def growth(name: str, make: Callable[[int], Request], sizes: tuple[int, ...], runs: int) -> list[str]:
    """Median microseconds of a plan by size, and beside it how often the first one's."""
    lines = []
    first = 0.0
    for size in sizes:
        request = make(size)
        seconds, ends = timed([request] * runs)
        median = statistics.median(seconds)
        first = first or median
        end = ", ".join(ends)
        lines.append(f"{name:<22}{size:>6}{median * 1e6:>12.0f} us{median / first:>9.2f}x  {end}")
    return lines


def hot_spots(requests: Iterable[Request], shown: int) -> list[str]:
    """The functions that take most of the time by themselves."""
    profile = cProfile.Profile()
    profile.runcall(timed, requests)
    entries = pstats.Stats(profile).get_stats_profile()
    own = sorted(entries.func_profiles.items(), key=lambda entry: entry[1].tottime, reverse=True)
    return [
        f"{data.tottime / entries.total_tt:>6.1%}  {name} ({data.file_name.rsplit('/', 1)[-1]}:{data.line_number})"
        for name, data in own[:shown]
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=HOSTS, help="distinct hosts to plan (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="same seed, same hosts (default %(default)s)")
    parser.add_argument("--runs", type=int, default=200, help="plans for each size, of which the median is printed")
    parser.add_argument("--profile", type=int, default=0, metavar="N", help="print the N functions that take most")
    chosen = parser.parse_args()
    requests = distinct(chosen.hosts, chosen.seed)
    timed(requests[:WARM_UP])
    seconds, ends = timed(requests)
    ranked = sorted(seconds)
    whole = sum(seconds)
    print(f"{len(requests):,} distinct hosts planned in one process: {len(requests) / whole:,.0f} a second")
    print(
        f"a plan takes {whole / len(seconds) * 1e6:,.0f} us in the mean, {statistics.median(seconds) * 1e6:,.0f} us"
        f" in the median, {ranked[len(ranked) * 99 // 100] * 1e6:,.0f} us at the 99th percentile"
    )
    for end, count in ends.most_common():
        print(f"{count:>8,}  {count / len(requests):>6.1%}  {end}")
    print()
    print(f"{'one size varied':<22}{'size':>6}{'median':>15}{'of first':>10}")
    lines = [
        *growth("GPUs", lambda size: plain(gpus=size), (1, 2, 4, 8), chosen.runs),
        *growth("NUMA nodes", lambda size: plain(nodes=size), (1, 2, 4, 8), chosen.runs),
        *growth("layers", lambda size: plain(layers=size), (16, 32, 64, 128), chosen.runs),
        *growth("layers, with windows", hybrid, (16, 32, 64, 128), chosen.runs),
    ]
    print("\n".join(lines))
    if chosen.profile:
        print()
        print("\n".join(hot_spots(requests[: min(len(requests), 1000)], chosen.profile)))


if __name__ == "__main__":
    main()
