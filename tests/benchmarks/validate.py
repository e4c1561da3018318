#!/usr/bin/env python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the check of an inventory costs, from 10 hosts to 1,000: whole plays, and the check alone.

The inventories are those of tests/integration/paper_fleet.py: kinds of machines on paper, some of which cannot be had.
With --distinct every host states a fraction of its own, so that no two plans are alike. Wall times of this machine,
with whatever else it does meanwhile; printed, never judged.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.gpufleet.sglang.tests.integration.paper_fleet import write_inventory

ROOT = Path(__file__).resolve().parents[2]
SIZES = (10, 30, 100, 300, 1000)
# So many hosts of the fleet have one of each kind, as they are shares of a hundred.
LEAST = 100
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
}


@dataclass(frozen=True)
class Took:
    hosts: int
    play_seconds: float
    check_seconds: float
    findings: int


def write(path: Path, hosts: int, distinct: bool) -> None:
    write_inventory(path, max(hosts, LEAST))
    inventory: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    # Every so many of them, so that each kind is there.
    step = max(1, LEAST // hosts)
    names = list(inventory["sglang_paper"]["hosts"])[::step][:hosts]
    chosen = {name: dict(inventory["sglang_paper"]["hosts"][name]) for name in names}
    if distinct:
        for number, said in enumerate(chosen.values()):
            said["sglang_mem_fraction_static"] = round(0.7 + number / 10_000, 4)
    inventory["sglang_paper"]["hosts"] = chosen
    path.write_text(yaml.safe_dump(inventory), encoding="utf-8")


def took(hosts: int, distinct: bool) -> Took:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "hosts.yml", hosts, distinct)
        asked = ["-e", f"validate_json={folder / 'found.json'}", "-e", "validate_fail_at=never", "-v"]
        began = time.monotonic()
        done = subprocess.run(
            ["ansible-playbook", "gpufleet.sglang.validate", "-i", folder / "hosts.yml", *asked],
            cwd=ROOT,
            env=ENVIRONMENT,
            check=True,
            capture_output=True,
            text=True,
        )
        seconds = time.monotonic() - began
        found = json.loads((folder / "found.json").read_text(encoding="utf-8"))
    # The result of the task, shown for -v, has the seconds of the check alone.
    [alone] = re.findall(r'^ *"?seconds"?: ([0-9.]+)', done.stdout, re.MULTILINE)
    return Took(hosts, seconds, float(alone), len(found["findings"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--distinct", action="store_true", help="no two hosts alike")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of hosts (default %(default)s)")
    chosen = parser.parse_args()
    print(f"{'hosts':>6}{'whole play':>13}{'check alone':>13}{'hosts/s':>9}{'of first':>10}{'findings':>10}")
    first = 0.0
    for size in chosen.sizes:
        one = took(size, chosen.distinct)
        first = first or one.check_seconds
        print(
            f"{one.hosts:>6,}{one.play_seconds:>11.1f} s{one.check_seconds:>11.2f} s"
            f"{one.hosts / one.check_seconds:>9,.0f}{one.check_seconds / first:>9.1f}x{one.findings:>10,}"
        )


if __name__ == "__main__":
    main()
