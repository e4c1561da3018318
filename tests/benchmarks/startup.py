#!/usr/bin/env python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a minute of waiting for a start costs: CPU seconds of the controller and of the nodes, beside uri with retries.

Nodes are real ones of the rehearsal, each with a scripted server that pins for a while. The controller's part is the
whole of ansible-playbook with its connections, less that of a play that only starts the units; a node's part is all
that runs on it, less the server itself. Printed, never judged.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from ansible_collections.gpufleet.sglang.rehearsal.scripted_server import installing
from ansible_collections.gpufleet.sglang.tests.benchmarks import costs
from ansible_collections.gpufleet.sglang.tests.integration.scripted import ScriptedNode, ScriptedPlay, Start, install

PREFIX = "gpufleet-bench"
FIRST = 100
UNIT = "bench"
RANK_BYTES = 12_288_000


class Cost(NamedTuple):
    """CPU seconds of one play over all nodes, and how long it took."""

    seconds: float
    controller: float
    nodes: float


def bring_up(count: int) -> list[ScriptedNode]:
    """The nodes, with the program on them."""
    costs.bring_up(PREFIX, f"10.213.77.{FIRST}", count)
    nodes = [ScriptedNode(f"{PREFIX}-{number + 1}", f"10.213.77.{FIRST + number}") for number in range(count)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda node: installing.copy_program(node.run), nodes))
    return nodes


def cost(nodes: list[ScriptedNode], way: str, pin_seconds: float, folder: Path) -> Cost:
    """One play over all nodes; way C(none) only starts the units."""
    starts = {}
    for node in nodes:
        scenario = {
            "release": "0.5.23",
            "ranks": 2,
            "host_pools": [
                {"bytes": RANK_BYTES, "tokens": 4096, "gb_per_second": RANK_BYTES / 1e9 / max(pin_seconds, 0.1)}
            ],
        }
        starts[node.name] = Start(node, scenario, {"scripted_way": way}, unit=UNIT)
    for node in nodes:
        installing.stop(node.run, [UNIT])
    one = next(iter(starts.values()))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda node: install({UNIT: Start(node, one.scenario)}), nodes))
    groups = costs.groups_of([node.name for node in nodes])
    service, connections = f"sglang-{UNIT}.service", f"/{PREFIX}-"
    on_nodes, connected = costs.cpu_of_groups(groups, service), costs.cpu_of_connections(connections)
    used = costs.cpu_of_children()
    began = time.monotonic()
    play = ScriptedPlay(folder, starts)
    status = play.process.wait()
    seconds = time.monotonic() - began
    controller = costs.cpu_of_children() - used
    if status != 0:
        raise SystemExit(f"The play failed:\n{play.output}")
    controller += max(0.0, costs.cpu_of_connections(connections) - connected)
    return Cost(seconds, controller, costs.cpu_of_groups(groups, service) - on_nodes)


def row(name: str, count: int, found: Cost, nothing: Cost) -> tuple[str, float, float]:
    """The line of the table, and CPU seconds a minute of the controller and of one node."""
    minutes = (found.seconds - nothing.seconds) / 60
    controller = max(0.0, found.controller - nothing.controller) / minutes
    node = max(0.0, found.nodes - nothing.nodes) / count / minutes
    line = f"{name:<20}{count:>6}{found.seconds:>10.0f}{controller:>14.2f}{controller / count:>12.2f}{node:>12.2f}"
    return line, controller, node


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 6], help="how many nodes are waited for at a time")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long each server pins")
    parser.add_argument("--keep", action="store_true", help="leave the nodes for the next time")
    options = parser.parse_args()
    most = max(options.nodes)
    nodes = bring_up(most)
    print(f"CPU seconds a minute of waiting; {options.seconds:.0f} s of pinning on {os.cpu_count()} CPUs.")
    print(f"{'':<20}{'nodes':>6}{'seconds':>10}{'controller':>14}{'a node':>12}{'on a node':>12}")
    try:
        with tempfile.TemporaryDirectory() as folder:
            for count in options.nodes:
                some = nodes[:count]
                nothing = cost(some, "none", options.seconds, Path(folder) / f"none-{count}")
                figures = {}
                for name, way in (("wait_for_startup", "wait"), ("uri, delay 10", "uri")):
                    found = cost(some, way, options.seconds, Path(folder) / f"{way}-{count}")
                    line, *figures[way] = row(name, count, found, nothing)
                    print(line, flush=True)
                ratios = [
                    f"{mine / other:.1f}x" if other else "-" for mine, other in zip(figures["wait"], figures["uri"])
                ]
                print(f"  wait_for_startup costs {ratios[0]} of uri on the controller, {ratios[1]} on a node")
    finally:
        if not options.keep:
            costs.take_down([node.name for node in nodes])
    return 0


if __name__ == "__main__":
    sys.exit(main())
