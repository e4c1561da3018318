# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tuning a real node that is interrupted: killed while it applies, while it gives back, and while the node reboots.

What stands in for the node's kernel and loader is told in rehearsal/kernel_values; it can be made to wait, so that a
play is killed in the midst of what it does and not by chance.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.tests.integration.plays import ENVIRONMENT, ROOT, STATE, Outcome, Play

HERE = Path(__file__).resolve().parent
NAME = "gpufleet-tuning-faults"
ADDRESS = "10.213.77.62"
STANDINS = "/usr/local/share/rehearsal/kernel_values"
RECORD = "/var/lib/gpufleet/node_tuning.json"
HOLD = "/run/rehearsal-hold-"
MENU = "/boot/grub/grub.cfg"
PATIENCE_SECONDS = 180


@dataclass(frozen=True)
class TunedNode:
    """C(before): what the node was like before the role saw it."""

    before: str = ""

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

    def fingerprint(self) -> str:
        return self.run(f"{STANDINS}/fingerprint")

    def boot_id(self) -> str:
        """Of this boot; empty while the node is away."""
        return self.run("cat /proc/sys/kernel/random/boot_id", check=False)

    def wait_for(self, waiting: Play, command: str) -> str:
        """The first answer that is not empty; the play gives it, and may have ended by then."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            ended = waiting.process.poll() is not None
            found = self.run(command, check=False)
            if found:
                return found
            if ended:
                pytest.fail(f"the play ended before {command!r} had an answer: {waiting.finish().output}")
            time.sleep(0.1)
        waiting.kill()
        pytest.fail(f"{command!r} had no answer within {PATIENCE_SECONDS} s")


@pytest.fixture(scope="module", name="tuned")
def _tuned() -> Iterator[TunedNode]:
    """A node that has its stand-ins, and has not met the role."""
    up = ["rehearsal/node/up", "--name", NAME, "--address", ADDRESS]
    mount = ["--mount", f"{ROOT}/rehearsal/kernel_values:{STANDINS}"]
    down = ["rehearsal/node/down", NAME]
    for command in (down, up + mount):
        subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, check=True, stdin=subprocess.DEVNULL)
    node = TunedNode()
    node.run(f"sh {STANDINS}/install && /etc/rehearsal/boot.d/20-kernel-values")
    yield TunedNode(node.fingerprint())
    subprocess.run(down, cwd=ROOT, env=ENVIRONMENT, check=True, stdin=subprocess.DEVNULL)


def started(*arguments: str) -> Play:
    inventory = ("-i", str(HERE / "node_tuning_hosts.yml"))
    return Play(*inventory, *arguments, playbook=str(HERE / "node_tuning.yml"))


def play(*arguments: str) -> Outcome:
    return started(*arguments).finish()


def killed_at(tuned: TunedNode, program: str, *arguments: str) -> None:
    """The play and what it runs on the node end while the program is at work; nothing is left to run on."""
    tuned.run(f"touch {HOLD}{program}")
    lost = started(*arguments)
    pid = tuned.wait_for(lost, f"pgrep -f '^/bin/sh (/usr)?/s?bin/{program}'").split()[0]
    lost.kill()
    # The module is the program's parent, and killed first, so that it never learns how the program ended.
    tuned.run(f"kill -9 $(ps -o ppid= -p {pid}) {pid}; rm {HOLD}{program}")


def lines_of_diff(done: Outcome) -> list[str]:
    return re.findall(r"^[+-](?![+-]).*", done.output, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            '{"node_tuning_hugepages": [{"size": "1GB", "numa_node": 0, "pages": 16}]}',
            "NUMA node 0 has 17.18 GB; 17.18 GB in huge pages would leave 0.00 GB of it for everything else. Expected "
            "0.54 GB to be left there, its share of the 1.07 GB that node_tuning_leave_bytes asks for; ask for 16.64",
        ),
        ('{"node_tuning_swapp": "off"}', "Unknown: node_tuning_swapp (closest known: node_tuning_swap)."),
    ],
    ids=["huge-pages", "variable"],
)
def test_what_cannot_be_is_refused_before_anything_is_touched(tuned: TunedNode, arguments: str, sentence: str) -> None:
    done = play("-e", arguments)
    assert done.status != 0
    assert sentence in " ".join(done.errors[0].split()), done.output
    assert (done.changed, tuned.fingerprint()) == (0, tuned.before)


def test_a_run_does_what_check_mode_told_and_giving_back_survives_being_killed_twice(tuned: TunedNode) -> None:
    told = play("--check", "--diff")
    assert told.status == 0, told.output
    assert tuned.fingerprint() == tuned.before
    assert "the kernel has not been given iommu=pt" in told.output
    assert "+/proc/sys/vm/swappiness = 10" in told.output
    done = play("--diff")
    assert done.status == 0, done.output
    assert "A reboot is due before the kernel's command line is as wanted" in done.output
    assert (lines_of_diff(told), told.changed) == (lines_of_diff(done), done.changed)

    killed_at(tuned, "update-grub", "-e", "node_tuning_state=absent")
    assert "iommu=pt" in tuned.run(f"cat {MENU}")
    killed_at(tuned, "swapon", "-e", "node_tuning_state=absent")
    assert "iommu=pt" not in tuned.run(f"cat {MENU}")
    assert tuned.run("cat /proc/sys/vm/swappiness") == "10"
    back = play("-e", "node_tuning_state=absent")
    assert back.status == 0, back.output
    assert tuned.fingerprint() == tuned.before
    assert tuned.run(f"ls {RECORD}", check=False) == ""


def test_runs_that_are_killed_and_that_fail_are_completed_with_one_reboot(tuned: TunedNode) -> None:
    first = tuned.boot_id()
    killed_at(tuned, "update-grub")
    assert "iommu=pt" not in tuned.run(f"cat {MENU}")
    tuned.run("touch /run/rehearsal-no-menu")
    failed = play()
    tuned.run("rm /run/rehearsal-no-menu")
    assert failed.status != 0
    assert "'update-grub' ended with 1: no space left on device." in failed.errors[0]
    killed_at(tuned, "swapoff")
    # In the midst: some values are set, and what makes them last is not there yet.
    assert tuned.run("cat /proc/sys/vm/swappiness") == "10"
    assert tuned.run("ls /usr/local/lib/gpufleet", check=False) == ""
    assert json.loads(tuned.run(f"cat {RECORD}"))["version"] == 1
    assert "iommu=pt" in tuned.run(f"cat {MENU}")

    # Killed by its own reboot, as a controller on the node would be.
    allowed = ("-e", '{"node_tuning_allow_reboot": true}')
    lost = started(*allowed)
    lost.read_until(r"TASK \[.*Reboot the host\]")
    second = tuned.wait_for(lost, f"grep -vx {first} /proc/sys/kernel/random/boot_id")
    lost.kill()
    tuned.run("systemctl is-system-running --wait", check=False)
    assert tuned.run("grep -o iommu=pt /proc/cmdline") == "iommu=pt"
    # The boot has put all of it into force again by itself.
    assert tuned.run("cat /proc/sys/vm/swappiness") == "10"
    assert tuned.run("cat /proc/swaps | wc -l") == "1"
    assert tuned.run("cat /sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages") == "2"
    done = play(*allowed)
    assert (done.status, done.changed, tuned.boot_id()) == (0, 0, second), done.output
    # Giving back takes a reboot as well, and then the node is what it was.
    back = play(*allowed, "-e", "node_tuning_state=absent")
    assert back.status == 0, back.output
    assert tuned.boot_id() not in ("", second)
    assert tuned.fingerprint() == tuned.before
