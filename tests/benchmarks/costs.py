# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a play costs in CPU seconds: of the controller, its connections included, and of nodes of the rehearsal."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

from ansible_collections.gpufleet.sglang.tests.integration.plays import ENVIRONMENT, ROOT

WITH_PODMAN = str(ROOT / "tools" / "with-podman")
TICKS = os.sysconf("SC_CLK_TCK")


def bring_up(prefix: str, first: str, count: int, *options: str) -> None:
    fleet = ROOT / "rehearsal" / "node" / "fleet-up"
    command = [str(fleet), "--prefix", prefix, "--first", first, str(count), *options]
    subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)


def take_down(names: list[str]) -> None:
    subprocess.run([ROOT / "rehearsal" / "node" / "down", *names], cwd=ROOT, env=ENVIRONMENT, check=False)


def groups_of(names: list[str]) -> list[str]:
    """The control group of each node, as this machine sees it."""
    command = [WITH_PODMAN, "podman", "inspect", "--format", "{{.State.CgroupPath}}", *names]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def cpu_of_groups(groups: list[str], service: str) -> float:
    """CPU seconds of all nodes but for that service. cpu.stat is there whether or not the controller is."""
    files = [f"/sys/fs/cgroup{group}/cpu.stat" for group in groups]
    servers = [f"/sys/fs/cgroup{group}/system.slice/{service}/cpu.stat" for group in groups]
    shown = subprocess.run(
        [WITH_PODMAN, "grep", "-Hs", "^usage_usec", *files, *servers], capture_output=True, text=True, check=False
    )
    total = 0
    for line in shown.stdout.splitlines():
        usage = int(line.split()[-1])
        total += -usage if service in line else usage
    return total / 1e6


def cpu_of_connections(mark: str) -> float:
    """CPU seconds of the processes that outlive a task, by what stands in their command line."""
    ticks = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "cmdline").read_text(encoding="utf-8", errors="replace"):
                fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
        except OSError:
            continue
    return ticks / TICKS


def cpu_of_children() -> float:
    """CPU seconds of the processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
