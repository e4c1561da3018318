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

    def wait_for(self, what: str, command: str) -> str:
        """The first answer that is not empty."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            found = self.run(command, check=False)
            if found:
                return found
            time.sleep(0.1)
        pytest.fail(f"{what} did not come within {PATIENCE_SECONDS} s")


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


def restored(tuned: TunedNode) -> None:
    done = play("-e", "node_tuning_state=absent")
    assert done.status == 0, done.output
    assert tuned.fingerprint() == tuned.before
    assert tuned.run(f"ls {RECORD}", check=False) == ""


def killed_at(tuned: TunedNode, program: str, *arguments: str) -> None:
    """The play and what it runs on the node end while the program is at work; nothing is left to run on."""
    tuned.run(f"touch {HOLD}{program}")
    lost = started(*arguments)
    pid = tuned.wait_for(f"{program} at work", f"pgrep -f '^/bin/sh (/usr)?/s?bin/{program}'").split()[0]
    lost.kill()
    # The module is the program's parent, and killed first, so that it never learns how the program ended.
    tuned.run(f"kill -9 $(ps -o ppid= -p {pid}) {pid}; rm {HOLD}{program}")


def test_killed_while_applying_a_plain_run_completes_it_and_the_next_changes_nothing(tuned: TunedNode) -> None:
    killed_at(tuned, "swapoff")
    # In the midst: some values are set, and what makes them last is not there yet.
    assert tuned.run("cat /proc/sys/vm/swappiness") == "10"
    assert tuned.run("ls /usr/local/lib/gpufleet", check=False) == ""
    assert json.loads(tuned.run(f"cat {RECORD}"))["version"] == 1
    done = play()
    assert done.status == 0, done.output
    assert "A reboot is due before the kernel's command line is as wanted" in done.output
    assert tuned.run("cat /proc/swaps | wc -l") == "1"
    assert "iommu=pt" in tuned.run(f"cat {MENU}")
    again = play()
    assert (again.status, again.changed) == (0, 0), again.output


def test_killed_while_giving_back_a_plain_run_completes_that(tuned: TunedNode) -> None:
    killed_at(tuned, "swapon", "-e", "node_tuning_state=absent")
    assert tuned.run("cat /proc/sys/vm/swappiness") == "10"
    assert tuned.fingerprint() != tuned.before
    restored(tuned)


def test_killed_before_the_menu_was_written_it_is_written_by_the_next_run(tuned: TunedNode) -> None:
    killed_at(tuned, "update-grub")
    assert "iommu=pt" not in tuned.run(f"cat {MENU}")
    done = play()
    assert done.status == 0, done.output
    assert "iommu=pt" in tuned.run(f"cat {MENU}")
    # The same on the way back.
    killed_at(tuned, "update-grub", "-e", "node_tuning_state=absent")
    assert "iommu=pt" in tuned.run(f"cat {MENU}")
    restored(tuned)


def test_a_menu_that_cannot_be_written_is_said_and_made_good(tuned: TunedNode) -> None:
    tuned.run("touch /run/rehearsal-no-menu")
    done = play()
    assert done.status != 0
    assert "'update-grub' ended with 1: no space left on device." in done.errors[0]
    tuned.run("rm /run/rehearsal-no-menu")
    restored(tuned)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            '{"node_tuning_hugepages": [{"size": "1GB", "numa_node": 0, "pages": 16}]}',
            "NUMA node 0 has 17.18 GB; 17.18 GB in huge pages would leave 0.00 GB of it for everything else. Expected "
            "0.54 GB to be left there, its share of the 1.07 GB that node_tuning_leave_bytes asks for; ask for 16.64",
        ),
        (
            '{"node_tuning_shm_bytes": 40000000000}',
            "node_tuning_shm_bytes is 40.00 GB; the host has 34.36 GB, of which 0.00 GB lie in huge pages and 1.07 GB",
        ),
        ('{"node_tuning_sysctl": {"vm.nr_hugepages": 9}}', "Use node_tuning_hugepages, with the NUMA node of each."),
        ('{"node_tuning_cpu_governor": "ondemand"}', "node_tuning_cpu_governor is ondemand, and policy0 offers"),
        (
            '{"node_tuning_unit_limits": [{"unit": "limits.conf", "memlock": "infinity"}]}',
            "Expected the name of a service, such as docker.service. Limits of everything",
        ),
        (
            '{"node_tuning_kernel_arguments": [{"argument": "root=/dev/sda", "reason": "none"}]}',
            "node_tuning_kernel_arguments has 'root=/dev/sda'.",
        ),
        ('{"node_tuning_swapp": "off"}', "Unknown: node_tuning_swapp (closest known: node_tuning_swap)."),
    ],
    ids=["huge-pages", "shared-memory", "setting-with-an-option", "governor", "limits-of-all", "argument", "variable"],
)
def test_what_cannot_be_is_refused_before_anything_is_touched(tuned: TunedNode, arguments: str, sentence: str) -> None:
    done = play("-e", arguments)
    assert done.status != 0
    assert sentence in " ".join(done.errors[0].split()), done.output
    assert (done.changed, tuned.fingerprint()) == (0, tuned.before)


def test_a_persons_argument_is_refused_by_name_and_file(tuned: TunedNode) -> None:
    tuned.run("mkdir -p /etc/default/grub.d; echo 'GRUB_CMDLINE_LINUX=\"iommu=off\"' >/etc/default/grub.d/10-mine.cfg")
    done = play()
    tuned.run("rm -r /etc/default/grub.d")
    assert done.status != 0
    assert (
        "/etc/default/grub.d/10-mine.cfg has the kernel argument iommu=off, which somebody else set" in done.errors[0]
    )
    assert tuned.fingerprint() == tuned.before


def test_check_mode_on_a_bare_node_tells_what_a_run_does_and_that_a_reboot_is_due(tuned: TunedNode) -> None:
    told = play("--check", "--diff")
    assert told.status == 0, told.output
    assert tuned.fingerprint() == tuned.before
    assert "the kernel has not been given iommu=pt" in told.output
    assert "+/proc/sys/vm/swappiness = 10" in told.output
    done = play("--diff")
    changed = re.findall(r"^[+-](?![+-]).*", told.output, re.MULTILINE)
    assert changed == re.findall(r"^[+-](?![+-]).*", done.output, re.MULTILINE)
    assert told.changed == done.changed


def test_killed_by_its_own_reboot_a_plain_run_goes_on_without_a_second_one(tuned: TunedNode) -> None:
    first = tuned.boot_id()
    lost = started("-e", '{"node_tuning_allow_reboot": true}')
    lost.read_until(r"TASK \[.*Reboot the host\]")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while tuned.boot_id() in ("", first):
        assert time.monotonic() < deadline, "the node does not come back"
        time.sleep(0.2)
    lost.kill()
    second = tuned.boot_id()
    assert tuned.run("grep -o iommu=pt /proc/cmdline") == "iommu=pt"
    # The boot has put all of it into force again by itself.
    assert tuned.run("cat /proc/sys/vm/swappiness") == "10"
    assert tuned.run("cat /sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages") == "2"
    done = play("-e", '{"node_tuning_allow_reboot": true}')
    assert (done.status, done.changed, tuned.boot_id()) == (0, 0, second), done.output
    # Giving back takes a reboot as well, and then the node is what it was.
    back = play("-e", '{"node_tuning_allow_reboot": true}', "-e", "node_tuning_state=absent")
    assert back.status == 0, back.output
    assert tuned.boot_id() != second
    assert tuned.fingerprint() == tuned.before
