# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The node of the whole chain, plays over it, and what interrupts them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.tests.campaign.interruptions.points import PARTS, Point, Task
from ansible_collections.gpufleet.sglang.tests.integration.plays import ENVIRONMENT, ROOT, STATE, Outcome, Play

NAME, ADDRESS = "gpufleet-chain-node", "10.213.77.100"
INVENTORY = "../tests/campaign/interruptions/hosts.yml"
# What the inventory says of the connection (ansible_control_path); its master process has it in its title.
CONTROL_PATH = "gpufleet-chain-connection"
REPOSITORIES = STATE / "repositories"
STANDINS = "/usr/local/share/rehearsal/kernel_values"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
PATIENCE_SECONDS = 120
CUT = {"connection": "pkill -KILL -f '^sshd: root'", "session": "systemctl kill --signal=KILL 'session-*.scope'"}
TASK = re.compile(r"^(?:TASK|RUNNING HANDLER) \[gpufleet\.sglang\.(\w+) : (.*)\] \*")


def _call(*command: str | Path) -> None:
    done = subprocess.run(
        command, cwd=ROOT, env=ENVIRONMENT, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stdout + done.stderr


def remove() -> None:
    _call("rehearsal/node/down", NAME)


def boot() -> None:
    """The node, bare: nouveau on its GPUs, a kernel's defaults, and nothing of ours."""
    remove()
    _call("rehearsal/vendor_repository/make-repositories")
    _call("rehearsal/scripted_release/make-release")
    _call(sys.executable, "rehearsal/sglang_on_cpu/make_model.py", STATE / "model")
    mounts = {
        REPOSITORIES: "/srv/repositories",
        ROOT / "rehearsal/kernel_values": STANDINS,
        STATE / "model": "/mnt/model",
        STATE / "scripted_release/0.5.23": "/srv/wheelhouse",
    }
    options = [word for source, target in mounts.items() for word in ("--mount", f"{source}:{target}")]
    _call("rehearsal/node/up", "--name", NAME, "--address", ADDRESS, *options)
    run("/srv/repositories/play-machine && /etc/rehearsal/boot.d/50-machine")
    run(f"sh {STANDINS}/install && /etc/rehearsal/boot.d/20-kernel-values")


def ssh(command: str, data: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["ssh", "-F", STATE / "ssh_config", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", NAME, command],
        check=False,
        capture_output=True,
        text=True,
        input=data,
    )


def run(command: str, data: str = "") -> str:
    done = ssh(command, data)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


def inside(command: str) -> None:
    """Not over ssh, for what cuts ssh; that it cuts itself is no failure."""
    subprocess.run(
        [ROOT / "tools/with-podman", "podman", "exec", "--detach", NAME, "sh", "-c", command],
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )


class Provision:
    """A run of site, with the key in a file, and what the controller lays down beside that file."""

    def __init__(self, key_file: Path, parts: Collection[str], *, told_all: bool = True) -> None:
        self.began = time.monotonic()
        tags = [] if len(parts) == len(PARTS) else ["--tags", ",".join(parts)]
        told = ["-vvv", "--diff"] if told_all else []
        self.play = Play(
            *(*told, *tags, "-e", f"@{key_file}"),
            inventory=INVENTORY,
            environment={
                **ENVIRONMENT,
                "ANSIBLE_LOCAL_TEMP": str(key_file.parent / "left"),
                # Half of what a run costs would go into making YAML of what is only searched for the key.
                "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
            },
        )
        self.seconds = 0.0

    def reach(self, point: Point) -> bool:
        """Whether the play came to the point; it has ended where it did not."""
        met = 0
        assert self.play.process.stdout
        for line in self.play.process.stdout:
            self.play.lines.append(line)
            found = TASK.match(line)
            met += bool(found and found[1] == point.role)
            if met == point.number:
                # The moment was drawn; there is no event to await.
                time.sleep(point.delay_seconds)
                return True
        return False

    def finish(self) -> Outcome:
        outcome = self.play.finish()
        self.seconds = time.monotonic() - self.began
        return outcome

    def tasks(self) -> list[Task]:
        """Those of roles, in order."""
        told: list[Task] = []
        for line in self.play.lines:
            if found := TASK.match(line):
                told.append(Task(found[1], found[2], False))
            elif told and line.startswith("changed: "):
                told[-1] = replace(told[-1], changes=True)
        return told


def interrupt(provision: Provision, kind: str) -> Outcome:
    """What the play said until then, or until it ended by itself for want of its node."""
    if kind == "play":
        provision.play.kill()
        return provision.finish()
    before = run(f"cat {BOOT_ID}")
    if kind == "reboot":
        inside("systemctl reboot")
    elif kind == "reset":
        inside("systemctl reboot --force --force")
    else:
        _kill_connection()
        inside(CUT[kind])
    outcome = provision.finish()
    if kind in ("reboot", "reset"):
        await_boot(before)
    return outcome


def _kill_connection() -> None:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            title = (process / "cmdline").read_bytes()
            if CONTROL_PATH.encode() in title and title.startswith(b"ssh"):
                os.kill(int(process.name), signal.SIGKILL)


def await_boot(before: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while ssh(f"grep -v {before} {BOOT_ID} && systemctl is-system-running --wait").returncode != 0:
        assert time.monotonic() < deadline, f"{NAME} has not booted within {PATIENCE_SECONDS} s"
        time.sleep(0.2)


def look(sentinel: str) -> dict[str, Any]:
    """What look.py sees on the node; the key reaches it in a form that is not found by looking for it."""
    script = (Path(__file__).resolve().parent / "look.py").read_text(encoding="utf-8")
    told: dict[str, Any] = json.loads(run(f"python3 - {sentinel.encode().hex()}", script))
    return told


def left_on_controller(key_file: Path, sentinel: str) -> list[str]:
    """Temporary files of plays that were killed, with the key in them."""
    left = [path for path in (key_file.parent / "left").rglob("*") if path.is_file()]
    return [str(path) for path in left if sentinel.encode() in path.read_bytes()]
