#!/usr/bin/env python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How much the probe costs on a large node, beside ansible.builtin.setup's hardware facts, in one run.

The node is made here: 8 GPUs, four NVSwitches and 517 PCI functions, as many as an HGX H100 shows. Every module runs in
a process of its own, several times; files and folders are counted by the interpreter itself (audit events), so those
that other programs read for setup are not among them, and setup reads this machine and not the generated one. Printed,
never judged.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.gpufleet.sglang.rehearsal import machine_tree

MACHINES = Path(machine_tree.__file__).parent / "machines"
PROFILE = "hgx-h100-snc4"
FUNCTIONS = 517
PACKAGE = "ansible_collections.gpufleet.sglang.plugins.modules"
# Counts what is opened and listed from the call of main() on, so that imports do not count as reading.
CHILD = """
import contextlib, importlib, io, json, sys, time
from ansible.module_utils.testing import patch_module_args
module, arguments, root = importlib.import_module(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
counted = {"files": 0, "folders": 0}
def hook(event, arguments):
    name = {"open": "files", "os.listdir": "folders", "os.scandir": "folders"}.get(event)
    if name and counting and str(arguments[0]).startswith(root):
        counted[name] += 1
counting = False
sys.addaudithook(hook)
out = io.StringIO()
with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit), patch_module_args(arguments):
    counting, started = True, time.perf_counter()
    try:
        module.main()
    finally:
        counting, seconds = False, time.perf_counter() - started
print(json.dumps({"seconds": seconds, "failed": json.loads(out.getvalue()).get("failed", False), **counted}))
"""


class Cost(NamedTuple):
    """Medians: of the module's own work, and of the whole process with the start of Python and the imports."""

    name: str
    seconds: float
    process_seconds: float
    files: int
    folders: int


def large_profile() -> machine_tree.Profile:
    """The HGX box with so many more functions, on the host bridges, that it shows as many as a real one."""
    profile = machine_tree.load_profile(MACHINES / f"{PROFILE}.yml")
    profile["boards"]["peripheral"] = {"kind": "other", "id": "8086:09a4", "class": "088000", "driver": None}
    have = functions_of(profile)
    bridges = sorted(profile["host_bridges"])
    for number in range(FUNCTIONS - have):
        bridge = bridges[number % len(bridges)]
        # Slot 1 holds the root port.
        slot, function = divmod(number // len(bridges), 8)
        path = f"{bridge}/{bridge[3:]}:{slot + 2:02x}.{function}"
        profile["devices"].append({"board": "peripheral", "path": path})
    return profile


def functions_of(profile: machine_tree.Profile) -> int:
    return sum(1 for path in machine_tree.entries_of(profile) if path.startswith("sys/bus/pci/devices/"))


def run_once(module: str, arguments: dict[str, Any], root: str, environment: dict[str, str]) -> dict[str, Any]:
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", CHILD, module, json.dumps(arguments), root],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - started
    if done.returncode != 0 or not done.stdout:
        raise SystemExit(f"{module} did not run:\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if result["failed"]:
        raise SystemExit(f"{module} failed with {arguments}.")
    return {**result, "process_seconds": seconds}


def cost(
    name: str,
    module: str,
    arguments: dict[str, Any],
    root: str,
    runs: int,
    environment: dict[str, str] | None = None,
) -> Cost:
    results = [run_once(module, arguments, root, environment or {}) for _run in range(runs)]
    medians = [statistics.median(result[key] for result in results) for key in ("seconds", "process_seconds")]
    return Cost(name, medians[0], medians[1], results[-1]["files"], results[-1]["folders"])


def measure(root: Path, runs: int) -> list[Cost]:
    """The modules on the generated node, and setup on this machine as the last."""
    where = str(root)
    found = [
        cost("gpu_topology_info, kernel alone", f"{PACKAGE}.gpu_topology_info", {"root": where}, where, runs),
    ]
    compiler = machine_tree.compiler()
    if compiler:
        machine_tree.build_library(root, compiler)
        arguments = {"root": where, "nvml_library": str(root / machine_tree.LIBRARY)}
        found.append(cost("gpu_topology_info, with NVML", f"{PACKAGE}.gpu_topology_info", arguments, where, runs))
    found.append(cost("host_stack_info", f"{PACKAGE}.host_stack_info", {"root": where}, where, runs))
    subset = {"gather_subset": ["!all", "!min", "hardware"]}
    found.append(cost("ansible.builtin.setup, hardware", "ansible.modules.setup", subset, "/", runs))
    return found


def table(costs: list[Cost]) -> list[str]:
    last = costs[-1]
    lines = [f"{'':<34}{'seconds':>9}{'with start':>12}{'files':>8}{'folders':>9}{'of setup':>10}"]
    for one in costs:
        share = f"{one.seconds / last.seconds:>9.2f}x"
        lines.append(
            f"{one.name:<34}{one.seconds:>9.3f}{one.process_seconds:>12.3f}{one.files:>8}{one.folders:>9}{share}"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description="What the probe costs on a node with 8 GPUs and 517 PCI functions.")
    parser.add_argument("--runs", type=int, default=5, help="runs of each module, of which the median is printed")
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        profile = large_profile()
        machine_tree.build_tree(profile, Path(folder))
        here = len(list(Path("/sys/bus/pci/devices").glob("*"))) if Path("/sys/bus/pci/devices").is_dir() else 0
        print(f"{functions_of(profile)} PCI functions and 8 GPUs; median of {runs} runs on {os.cpu_count()} CPUs.")
        print(f"setup reads this machine, which has {here} PCI functions; files are those of the Python process.")
        print("\n".join(table(measure(Path(folder), runs))))


if __name__ == "__main__":
    main()
