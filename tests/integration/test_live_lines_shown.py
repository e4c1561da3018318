# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a person sees of starts: real plays over ssh, through a pipe as in a CI job, of servers that are played."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.tests.integration.plays import ENVIRONMENT, ROOT
from ansible_collections.gpufleet.sglang.tests.integration.scripted import (
    CONNECTION,
    PLAYBOOK,
    ScriptedNode,
    Start,
    bring_up,
    install,
    remove,
    take_down,
)

NAME, ADDRESS = "gpufleet-watch-lines", "10.213.77.203"
QUICK = {"boot": 1.0, "load": 1.0, "device_pool": 0.2, "capture": 0.2, "register": 0.1, "warm_up": 0.5}
SILENCE: dict[str, Mapping[str, str]] = {
    "oneline": {"ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.oneline"},
    "hosts that are ok hidden": {"ANSIBLE_DISPLAY_OK_HOSTS": "false"},
    "asked for": {"GPUFLEET_LIVE_LINES": "never"},
}


@pytest.fixture(scope="module", name="node")
def fixture_node() -> Iterator[ScriptedNode]:
    yield bring_up({NAME: ADDRESS})[NAME]
    take_down([NAME])


def starts(
    node: ScriptedNode, names: Sequence[str], gb_per_second: float, first_port: int = 30000, **more: Any
) -> dict[str, Start]:
    """Each test has units of its own, as systemd counts how often one is started."""
    pools = [{"bytes": 20_000 * 4096, "tokens": 4096, "gb_per_second": gb_per_second}]
    scenario = {"release": "0.5.23", "ranks": 2, "seconds": QUICK, "host_pools": pools, **more}
    return {name: Start(node, {**scenario, "port": first_port + index}) for index, name in enumerate(names)}


class Shown:
    """A play whose output goes through a pipe, with nothing that makes Python write it at once."""

    def __init__(self, folder: Path, played: Mapping[str, Start], **environment: str) -> None:
        inventory = folder / "hosts.json"
        hosts = {name: start.host(name) for name, start in played.items()}
        inventory.write_text(json.dumps({"scripted": {"hosts": hosts, "vars": CONNECTION}}), encoding="utf-8")
        inherited = {name: value for name, value in ENVIRONMENT.items() if name != "PYTHONUNBUFFERED"}
        self.process = subprocess.Popen(
            ["ansible-playbook", PLAYBOOK, "-i", inventory, "-e", f"scripted_serial={len(hosts)}"],
            cwd=ROOT,
            env={**inherited, "ANSIBLE_FORKS": str(len(hosts)), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.output = ""

    def until(self, pattern: str) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.output += line
            if re.search(pattern, line):
                return
        pytest.fail(f"the play ended without a line like {pattern!r}:\n{self.output}")

    def finish(self) -> list[str]:
        assert self.process.stdout
        self.output += self.process.stdout.read()
        self.process.wait()
        return self.output.splitlines()


def test_one_node_has_a_line_that_comes_while_it_starts(node: ScriptedNode, tmp_path: Path) -> None:
    played = starts(node, ["gpu-1"], 0.006)
    install(played)
    shown = Shown(tmp_path, played)
    shown.until(r"pinning [\d.]+ of 0\.16 GB \(TP0 [\d.]+/0\.08, TP1 [\d.]+/0\.08\)")
    assert shown.process.poll() is None
    lines = shown.finish()
    assert shown.process.returncode == 0, shown.output
    (last,) = [line for line in lines if " ready after " in line]
    stages = r"boot .*, load .*, device pool .*, capture .*, pin .* \(0\.16 GB at 0\.0\d GB/s\), warm-up "
    assert re.match(rf"(gpu-\d+)  \1  ready after [\d.]+ s: {stages}", last), last
    assert all(line.isprintable() for line in lines), shown.output
    remove(played)


@pytest.fixture(scope="module", name="silent")
def fixture_silent(node: ScriptedNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Shown]]:
    """A play of its own for each, side by side."""
    played = starts(node, [f"gpu-{number}" for number in range(2, 2 + len(SILENCE))], 0.006, 30100)
    install(played)
    yield {
        silence: Shown(tmp_path_factory.mktemp("silent"), {name: start}, **SILENCE[silence])
        for silence, (name, start) in zip(SILENCE, played.items())
    }
    remove(played)


@pytest.mark.parametrize("silence", SILENCE)
def test_nobody_is_told_who_does_not_want_to_be(silent: dict[str, Shown], silence: str) -> None:
    shown = silent[silence]
    shown.finish()
    assert shown.process.returncode == 0, shown.output
    assert not re.search(r"gpu-\d+ +(starting|loading|pinning|warming|ready)", shown.output), shown.output


def test_an_interrupted_play_leaves_nothing_on_the_node(node: ScriptedNode, tmp_path: Path) -> None:
    played = starts(node, ["interrupted"], 0.02, seconds={**QUICK, "load": 600.0})
    install(played)
    shown = Shown(tmp_path, played)
    shown.until("loading weights")
    os.killpg(shown.process.pid, signal.SIGINT)
    shown.finish()
    deadline = time.monotonic() + 40
    # What follows the log on the node is the child of a look.
    while node.run("pgrep --list-full --exact journalctl || :"):
        assert time.monotonic() < deadline, node.run("ps -eo pid,etimes,args")
        time.sleep(0.5)
    remove(played)


def test_many_nodes_share_a_line(node: ScriptedNode, tmp_path: Path) -> None:
    played = starts(node, [f"many-{number}" for number in range(6)], 0.004)
    install(played)
    shown = Shown(tmp_path, played)
    shown.until(r"^6 nodes: .*pinning [\d.]+ of [\d.]+ GB")
    assert shown.process.poll() is None
    lines = shown.finish()
    assert shown.process.returncode == 0, shown.output
    assert len([line for line in lines if " ready after " in line]) == 6
    assert [line for line in lines if re.match(r"many-\d  many-\d  (?!ready after)", line)] == []
    assert max(len(line) for line in lines if " nodes: " in line) <= 160
    remove(played)
