#!/usr/bin/env python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What it costs to run the site playbook again over nodes that have it all, beside a plain role on the same nodes.

Nodes are real ones of the rehearsal, provisioned with the stand-in release. The plain role (rerun_plain.yml) has a
task of ansible.builtin for each thing. Both run once to have what they manage, and once more to be measured. The
controller's part is the whole of ansible-playbook with its connections; a node's part is all that runs on it, less the
server. Printed, never judged.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.gpufleet.sglang.tests.benchmarks import costs
from ansible_collections.gpufleet.sglang.tests.integration.plays import ENVIRONMENT, ROOT, STATE

SITE, PLAIN = "gpufleet.sglang.site", "tests/benchmarks/rerun_plain.yml"
SERVICE = "sglang-main.service"
CALLBACKS = ROOT / "tests" / "integration" / "callbacks"
VARIABLES: dict[str, Any] = {
    "ansible_user": "root",
    "ansible_python_interpreter": "/usr/bin/python3",
    "ansible_ssh_private_key_file": str(STATE / "id_ed25519"),
    "ansible_ssh_common_args": f"-o UserKnownHostsFile={STATE / 'known_hosts'} -o IdentitiesOnly=yes -o BatchMode=yes",
    "sglang_version": "0.5.23",
    "sglang_device": "cpu",
    "sglang_model_path": "/srv/models/rehearsal-llama",
    "sglang_max_total_tokens": 4096,
    "sglang_wheelhouse": "/srv/wheelhouse",
    "sglang_tensor_parallel_size": 2,
    "sglang_hicache_ratio": 8,
    "sglang_hicache_io_backend": "direct",
    "sglang_hicache_mem_layout": "layer_first",
    "sglang_ambient_capabilities": ["CAP_IPC_LOCK"],
    # The nodes are containers: their kernel is this machine's.
    "site_node_tuning": False,
}


class Cost(NamedTuple):
    """Of one play over all its nodes; the connections' calls and bytes are those that the callback counted."""

    nodes: int
    seconds: float
    controller: float
    on_nodes: float
    tasks: int
    changed: int
    calls: int
    sent_bytes: int
    modules: Counter[str]


class Fleet(NamedTuple):
    names: list[str]
    inventory: Path
    folder: Path


def make_fleet(prefix: str, first: str, count: int, folder: Path) -> Fleet:
    made = ROOT / "rehearsal" / "scripted_release" / "make-release"
    wheels = subprocess.run(
        [made], check=True, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ).stdout.strip()
    model = STATE / "model"
    maker = ROOT / "rehearsal" / "sglang_on_cpu" / "make_model.py"
    subprocess.run([sys.executable, maker, model], check=True, stdout=subprocess.DEVNULL)
    mounts = (f"{wheels}:/srv/wheelhouse", f"{model}:/srv/models/rehearsal-llama")
    costs.bring_up(prefix, first, count, *(word for mount in mounts for word in ("--mount", mount)))
    base, number = first.rsplit(".", 1)
    names = [f"{prefix}-{one + 1}" for one in range(count)]
    hosts = {name: {"ansible_host": f"{base}.{int(number) + one}"} for one, name in enumerate(names)}
    inventory = folder / "hosts.json"
    inventory.write_text(json.dumps({"sglang": {"hosts": hosts, "vars": VARIABLES}}), encoding="utf-8")
    return Fleet(names, inventory, folder)


def play(fleet: Fleet, playbook: str, count: int, calls: Path) -> None:
    """Its output is shown where it fails."""
    command = ["ansible-playbook", playbook, "-i", str(fleet.inventory), "--limit", ",".join(fleet.names[:count])]
    environment = {
        **ENVIRONMENT,
        "ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS),
        "ANSIBLE_CALLBACKS_ENABLED": "remote_calls",
        "REMOTE_CALLS_FILE": str(calls),
        # By which the connections that outlive a task are told from those of others.
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(fleet.folder / "cp"),
    }
    with (fleet.folder / "output").open("w+", encoding="utf-8") as output:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False
        )
        output.seek(0)
        if done.returncode != 0:
            raise SystemExit(f"{playbook} failed:\n{output.read()}")


def cost(fleet: Fleet, playbook: str, count: int) -> Cost:
    calls, mark = fleet.folder / "calls", str(fleet.folder / "cp")
    calls.unlink(missing_ok=True)
    groups = costs.groups_of(fleet.names[:count])
    on_nodes, connected = costs.cpu_of_groups(groups, SERVICE), costs.cpu_of_connections(mark)
    used, began = costs.cpu_of_children(), time.monotonic()
    play(fleet, playbook, count, calls)
    seconds, controller = time.monotonic() - began, costs.cpu_of_children() - used
    controller += max(0.0, costs.cpu_of_connections(mark) - connected)
    rows = [json.loads(line) for line in calls.read_text(encoding="utf-8").splitlines()]
    tasks, called = [row for row in rows if "task" in row], [row for row in rows if "call" in row]
    return Cost(
        nodes=count,
        seconds=seconds,
        controller=controller,
        on_nodes=costs.cpu_of_groups(groups, SERVICE) - on_nodes,
        tasks=len(tasks),
        changed=sum(row["status"] == "changed" for row in tasks),
        calls=len(called),
        sent_bytes=sum(row["bytes"] for row in called),
        modules=Counter(str(row["module"] or row["call"]) for row in called),
    )


def line(name: str, found: Cost) -> str:
    count = found.nodes
    return (
        f"{name:<14}{count:>6}{found.tasks / count:>8.1f}{found.changed / count:>9.1f}{found.calls / count:>8.1f}"
        f"{found.sent_bytes / count / 1e6:>10.2f}{found.controller / count:>12.2f}{found.on_nodes / count:>10.2f}"
        f"{found.seconds:>9.1f}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 10], help="how many nodes are run over at a time")
    parser.add_argument("--prefix", default="gpufleet-bench", help="what the nodes' names begin with")
    parser.add_argument("--first", default="10.213.77.100", help="address of the first of them")
    parser.add_argument("--keep", action="store_true", help="leave the nodes for the next time")
    parser.add_argument("--calls", action="store_true", help="also name the modules of the calls")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fleet = make_fleet(options.prefix, options.first, max(options.nodes), Path(folder))
        try:
            for playbook in (SITE, PLAIN):
                play(fleet, playbook, len(fleet.names), Path(folder) / "calls")
            print(
                f"Runs over nodes where nothing has changed; {os.cpu_count()} CPUs. For each node, but for wall time:"
            )
            print(
                f"{'':<14}{'nodes':>6}{'tasks':>8}{'changed':>9}{'calls':>8}{'MB sent':>10}{'CPU s here':>12}"
                f"{'there':>10}{'wall s':>9}"
            )
            found: dict[str, list[Cost]] = {"site": [], "plain role": []}
            for count in options.nodes:
                for name, playbook in (("site", SITE), ("plain role", PLAIN)):
                    found[name].append(cost(fleet, playbook, count))
                    print(line(name, found[name][-1]), flush=True)
                    if options.calls:
                        print(f"  {', '.join(f'{module} {n}' for module, n in found[name][-1].modules.most_common())}")
                ours, theirs = found["site"][-1], found["plain role"][-1]
                print(
                    f"  site to plain role: calls {ours.calls / theirs.calls:.2f}, bytes sent "
                    f"{ours.sent_bytes / theirs.sent_bytes:.2f}, CPU here {ours.controller / theirs.controller:.2f}, "
                    f"CPU there {ours.on_nodes / theirs.on_nodes:.2f}, wall time {ours.seconds / theirs.seconds:.2f}"
                )
            for name, rows in found.items():
                for less, more in zip(rows, rows[1:]):
                    further = (more.controller - less.controller) / max(1, more.nodes - less.nodes)
                    print(
                        f"{name}, from {less.nodes} to {more.nodes} nodes: wall time "
                        f"{more.seconds / less.seconds:.1f} times, calls {more.calls / less.calls:.1f} times, "
                        f"{further:.2f} CPU s here for a further node"
                    )
        finally:
            if not options.keep:
                costs.take_down(fleet.names)
    return 0


if __name__ == "__main__":
    sys.exit(main())
