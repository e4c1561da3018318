# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes and plays for the scripted server: many units on a few nodes, followed by real plays over real ssh."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ansible_collections.gpufleet.sglang.rehearsal.scripted_server import installing
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.scenario import scenario_from
from ansible_collections.gpufleet.sglang.tests.integration.plays import ENVIRONMENT, ROOT, STATE

HERE = Path(__file__).resolve().parent
PLAYBOOK = HERE / "scripted_wait.yml"
READY = "The server is fired up and ready to roll!"
# An alias for each unit has a connection of its own, as a node of its own would have.
CONNECTION = {
    "ansible_user": "root",
    "ansible_python_interpreter": "/usr/bin/python3",
    "ansible_ssh_private_key_file": str(STATE / "id_ed25519"),
    "ansible_control_path": "%(directory)s/{{ inventory_hostname }}",
    "ansible_ssh_common_args": (
        f'-o UserKnownHostsFile="{STATE / "known_hosts"}" -o IdentitiesOnly=yes -o BatchMode=yes '
        "-o ServerAliveInterval=5 -o ServerAliveCountMax=3 -o ConnectTimeout=5"
    ),
}


@dataclass(frozen=True)
class ScriptedNode:
    """A node of rehearsal/node/up that carries the scripted server."""

    name: str
    address: str

    def run(self, command: str, data: bytes = b"") -> str:
        done = subprocess.run(
            ["ssh", "-F", STATE / "ssh_config", "-o", "BatchMode=yes", self.name, command],
            check=False,
            input=data,
            capture_output=True,
        )
        if done.returncode:
            pytest.fail(f"{self.name}: {command}: {done.stdout.decode()}{done.stderr.decode()}")
        return done.stdout.decode("utf-8", "replace")

    def inside(self, command: str) -> None:
        """Without ssh, for what cuts ssh; it is not waited for."""
        subprocess.run(
            [ROOT / "tools" / "with-podman", "podman", "exec", "--detach", self.name, "sh", "-c", command],
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def ready_times(self) -> dict[str, float]:
        """When each invocation said that it is ready, in UNIX seconds, by the journal's own stamp."""
        fields = "--output-fields=MESSAGE,_SYSTEMD_INVOCATION_ID"
        text = self.run(f"journalctl --output=json {fields} --no-pager | grep --fixed-strings '{READY}' || :")
        rows = [json.loads(line) for line in text.splitlines()]
        of_units = [row for row in rows if "_SYSTEMD_INVOCATION_ID" in row]
        return {row["_SYSTEMD_INVOCATION_ID"]: int(row["__REALTIME_TIMESTAMP"]) / 1e6 for row in of_units}

    def wait_for_line(self, unit: str, words: str, seconds: int = 60) -> None:
        """Until the unit has said it, whatever start of it."""
        self.run(
            f"timeout {seconds} sh -c 'until journalctl --unit={unit} --output=cat | grep --quiet --fixed-strings"
            f' "{words}"; do sleep 0.2; done\''
        )


def bring_up(names: Mapping[str, str], *options: str) -> dict[str, ScriptedNode]:
    """Nodes by name and address, side by side, with the program on them."""
    processes = [
        subprocess.Popen(
            [ROOT / "rehearsal" / "node" / "up", "--name", name, "--address", address, *options],
            cwd=ROOT,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        for name, address in names.items()
    ]
    assert [process.wait() for process in processes] == [0] * len(processes)
    nodes = {name: ScriptedNode(name, address) for name, address in names.items()}
    for node in nodes.values():
        installing.copy_program(node.run)
    return nodes


def take_down(names: Iterable[str]) -> None:
    down = ROOT / "rehearsal" / "node" / "down"
    subprocess.run([down, *names], cwd=ROOT, env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)


@dataclass(frozen=True)
class Start:
    """A unit of a node and how it is waited for: one host of the inventory. C(variables) are those of the playbook."""

    node: ScriptedNode
    scenario: Mapping[str, Any]
    variables: Mapping[str, Any] = field(default_factory=dict)
    unit: str | None = None

    def host(self, name: str) -> dict[str, Any]:
        played = scenario_from(self.scenario)
        pools = [sum(pool.bytes for pool in played.pools_of(rank)) for rank in played.ranks]
        plan: dict[str, Any] = {"sglang_version": played.release}
        if pools[0]:
            stages = [{"pinned_bytes_per_rank": pools[0]}]
            plan["host"] = {"ranks": len(pools), "bytes_per_rank": pools[0], "stages": stages}
        return {
            "ansible_host": self.node.address,
            "scripted_unit": installing.unit_name(self.unit or name),
            "scripted_release": played.release,
            "scripted_url": f"http://127.0.0.1:{played.port}",
            "scripted_plan": plan,
            **self.variables,
        }


def install(starts: Mapping[str, Start], settings: Mapping[str, str] | None = None) -> None:
    """The units of all starts that have one of their own."""
    nodes = {start.node for start in starts.values()}
    for node in nodes:
        mine = {name: start.scenario for name, start in starts.items() if start.node == node and start.unit is None}
        if mine:
            installing.install(node.run, mine, settings)


def remove(starts: Mapping[str, Start]) -> None:
    for node in {start.node for start in starts.values()}:
        installing.remove(node.run, [name for name, start in starts.items() if start.node == node and not start.unit])


class Ended(NamedTuple):
    """The task that waited: when the controller had its result, and what it was."""

    at: float
    status: str
    result: dict[str, Any]


class Line(NamedTuple):
    at: float
    text: str


class ScriptedPlay:
    """A play over starts; its lines are stamped as they come, and can be waited for."""

    def __init__(
        self, folder: Path, starts: Mapping[str, Start], at_a_time: int | None = None, playbook: Path = PLAYBOOK
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.times = folder / "times.jsonl"
        inventory = folder / "hosts.json"
        hosts = {name: start.host(name) for name, start in starts.items()}
        inventory.write_text(json.dumps({"scripted": {"hosts": hosts, "vars": CONNECTION}}), encoding="utf-8")
        self.lines: list[Line] = []
        self._news = threading.Condition()
        self.process = subprocess.Popen(
            ["ansible-playbook", playbook, "-i", inventory, "-e", f"scripted_serial={at_a_time or len(starts)}"],
            cwd=ROOT,
            env={
                **ENVIRONMENT,
                "ANSIBLE_FORKS": str(at_a_time or len(starts)),
                "ANSIBLE_CALLBACK_PLUGINS": str(HERE / "callbacks"),
                "ANSIBLE_CALLBACKS_ENABLED": "task_times",
                "TASK_TIMES_FILE": str(self.times),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def output(self) -> str:
        return "".join(line.text for line in self.lines)

    def _read(self) -> None:
        assert self.process.stdout
        for text in self.process.stdout:
            with self._news:
                self.lines.append(Line(time.time(), text))
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def until(self, pattern: str) -> Line:
        """The first line that matches; fails with the output where the play ends before."""
        seen = 0
        with self._news:
            while True:
                for line in self.lines[seen:]:
                    if re.search(pattern, line.text):
                        return line
                seen = len(self.lines)
                if not self._reader.is_alive():
                    pytest.fail(f"the play ended without a line like {pattern!r}:\n{self.output}")
                self._news.wait(timeout=0.5)

    def ends(self) -> dict[str, Ended]:
        """The end of the wait of each host, when the play is over."""
        self.process.wait()
        self._reader.join()
        found: dict[str, Ended] = {}
        for text in self.times.read_text(encoding="utf-8").splitlines():
            row = json.loads(text)
            if not row["task"].endswith("Start it"):
                found[row["host"]] = Ended(row["at"], row["status"], row["result"])
        return found
