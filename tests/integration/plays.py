# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs plays against the rehearsal's node as a user would, and looks at the node over its own ssh connection."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
UNIT = "sglang-main.service"
NAME = os.environ.get("GPUFLEET_NODE_NAME", "gpufleet-rehearsal-node")
STATE = Path(os.environ.get("GPUFLEET_REHEARSAL_STATE", ROOT / ".build" / "rehearsal"))
BIN = Path(sys.executable).parent
ENVIRONMENT = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "ANSIBLE_NOCOLOR": "1"}

# What a server of one rank is told so that it serves on a CPU, and quickly.
ON_CPU = {
    "PYTHONPATH": "/usr/local/share/rehearsal/sglang_on_cpu",
    "PYTHONDONTWRITEBYTECODE": "1",
    "SGLANG_CPU_OMP_THREADS_BIND": "0",
    "TORCHDYNAMO_DISABLE": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
}


@dataclass(frozen=True)
class Outcome:
    """What a play printed and the counts of its recap, host by host."""

    status: int
    output: str

    @property
    def recap(self) -> dict[str, dict[str, int]]:
        return {
            host: {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", counts)}
            for host, counts in re.findall(r"^(\S+)\s+:\s+(ok=.*)$", self.output, re.MULTILINE)
        }

    @property
    def changed(self) -> int:
        return sum(counts["changed"] for counts in self.recap.values())

    @property
    def errors(self) -> list[str]:
        """The text of each error, up to the place in the play that Ansible names after it."""
        return re.findall(r"^\[ERROR\]: (.*?)(?=^Origin: |^fatal: |\Z)", self.output, re.MULTILINE | re.DOTALL)

    @property
    def errors_of(self) -> dict[str, str]:
        """The same by host."""
        told: dict[str, str] = {}
        pattern = r"^\[ERROR\]: (.*?)^(?:fatal|failed): \[([^\]]+)\]"
        for error, host in re.findall(pattern, self.output, re.MULTILINE | re.DOTALL):
            told[host] = told.get(host, "") + error.partition("\nOrigin: ")[0]
        return told


class Play:
    """A play in a process group of its own, so that it can be killed whole, as a lost controller is."""

    def __init__(
        self,
        *arguments: str,
        playbook: str = "gpufleet.sglang.site",
        inventory: str = "rehearsal",
        environment: Mapping[str, str] = ENVIRONMENT,
    ) -> None:
        self.process = subprocess.Popen(
            ["ansible-playbook", playbook, "-i", str(ROOT / "inventories" / inventory), *arguments],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []

    def read_until(self, pattern: str) -> str:
        """The first line that matches; fails with the whole output where the play ends before."""
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.append(line)
            if re.search(pattern, line):
                return line
        pytest.fail(f"the play ended without a line like {pattern!r}:\n{''.join(self.lines)}")

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def finish(self) -> Outcome:
        assert self.process.stdout
        self.lines.extend(self.process.stdout)
        return Outcome(self.process.wait(), "".join(self.lines))


class Node:
    def run(self, command: str, *, check: bool = True) -> str:
        done = subprocess.run(
            ["ssh", "-F", STATE / "ssh_config", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", NAME, command],
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        if check and done.returncode:
            pytest.fail(f"{command}: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def show(self, *properties: str) -> dict[str, str]:
        text = self.run(f"systemctl show {UNIT} -p {shlex.quote(','.join(properties))}")
        return dict(line.strip().split("=", 1) for line in text.splitlines() if "=" in line)

    def invocation(self) -> str:
        return self.show("InvocationID")["InvocationID"]

    def fingerprint(self) -> dict[str, str]:
        """What must not move when a play is refused: the process, and every file that makes the service."""
        folders = "/etc/sglang /etc/systemd/system /opt/sglang"
        files = self.run(f"find {folders} -maxdepth 2 -type f -exec sha256sum {{}} + | sort", check=False)
        return {**self.show("MainPID", "InvocationID", "NRestarts", "ActiveState"), "files": files}


def play(*arguments: str, **options: Any) -> Outcome:
    return Play(*arguments, **options).finish()


def play_refused(folder: Path, requests: Mapping[str, Mapping[str, Any]], *arguments: str, **options: Any) -> Outcome:
    """One play of several requests, each of a host of its own name that is the node: what refuses changes nothing."""
    variables = folder / "group_vars"
    variables.mkdir()
    shutil.copy(ROOT / "inventories/rehearsal/host_vars/node.yml", variables / "sglang.yml")
    here = {
        "rehearsal_state": str(STATE),
        "sglang_requirements_file": str(ROOT / "rehearsal/wheelhouse/constraints.txt"),
    }
    hosts = folder / "hosts.yml"
    hosts.touch(mode=0o600)
    hosts.write_text(
        json.dumps({"sglang": {"hosts": {name: {**here, **said} for name, said in requests.items()}}}), encoding="utf-8"
    )
    return play("-i", str(hosts), "--limit", ",".join(requests), *arguments, **options)


def boot(*, anew: bool = False) -> None:
    """Brings the node up, bare if C(anew)."""
    for script in (["rehearsal/down"] if anew else []) + ["rehearsal/up"]:
        subprocess.run([script], cwd=ROOT, env=ENVIRONMENT, check=True, stdin=subprocess.DEVNULL)
