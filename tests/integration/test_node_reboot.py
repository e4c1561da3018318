# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node that is rebooted from inside comes back by itself, as another boot and with what it holds."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.tests.integration.plays import ENVIRONMENT, ROOT
from ansible_collections.gpufleet.sglang.tests.integration.scripted import CONNECTION, ScriptedNode

NODES = {"bookworm": ("gpufleet-reboot-12", "10.213.77.240"), "trixie": ("gpufleet-reboot-13", "10.213.77.241")}
BOOT_ID = "/proc/sys/kernel/random/boot_id"
# What a test of kernel arguments does with its machine: it stands in for a file of the kernel's, at each boot.
HOOK = """\
#!/bin/sh
mkdir /run/stand-in && cp /etc/next-command-line /run/stand-in/cmdline
mount --bind /run/stand-in/cmdline /proc/cmdline
"""


def run(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@dataclass(frozen=True)
class Nodes:
    """Both nodes, and the inventory that has them in the group C(booted), as a scenario of Molecule has its hosts."""

    inventory: str

    def boot(self) -> str:
        return run("ansible-playbook", "-i", self.inventory, "molecule/shared/boot.yml")

    def of(self, suite: str) -> ScriptedNode:
        return ScriptedNode(*NODES[suite])


@pytest.fixture(scope="module", name="nodes")
def fixture_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    hosts = {
        suite: {"node_name": name, "ansible_host": address, "node_suite": suite}
        for suite, (name, address) in NODES.items()
    }
    inventory = tmp_path_factory.mktemp("reboot") / "hosts.json"
    inventory.write_text(json.dumps({"booted": {"hosts": hosts, "vars": CONNECTION}}), encoding="utf-8")
    nodes = Nodes(str(inventory))
    run("ansible-playbook", "-i", nodes.inventory, "molecule/shared/remove.yml")
    nodes.boot()
    yield nodes
    run("ansible-playbook", "-i", nodes.inventory, "molecule/shared/remove.yml")


@pytest.fixture(scope="module", name="before")
def fixture_before(nodes: Nodes) -> dict[str, str]:
    """The boot of each node before Ansible's own module reboots both."""
    found = {}
    for suite in NODES:
        node = nodes.of(suite)
        node.run("install -D -m 0755 /dev/stdin /etc/rehearsal/boot.d/10-command-line", HOOK.encode())
        node.run(
            "echo quiet iommu=pt >/etc/next-command-line; touch /root/kept /run/not-kept; logger --tag mark before"
        )
        found[suite] = node.run(f"cat {BOOT_ID}").strip()
    run("ansible", "booted", "-i", nodes.inventory, "-m", "ansible.builtin.reboot", "-a", "reboot_timeout=120")
    return found


def test_each_boot_of_each_node_is_one_of_its_own(nodes: Nodes, before: dict[str, str]) -> None:
    after = {suite: nodes.of(suite).run(f"cat {BOOT_ID}").strip() for suite in NODES}
    machine = Path(BOOT_ID).read_text(encoding="utf-8").strip()
    assert len({*before.values(), *after.values(), machine}) == 5


@pytest.mark.parametrize("suite", NODES)
def test_it_comes_back_with_what_it_holds(nodes: Nodes, before: dict[str, str], suite: str) -> None:
    node = nodes.of(suite)
    assert node.run("systemctl is-system-running --wait").strip() == "running"
    assert node.run("ls /root/kept /run/not-kept 2>/dev/null || :").split() == ["/root/kept"]
    assert f"VERSION_CODENAME={suite}" in node.run("cat /etc/os-release")


@pytest.mark.parametrize("suite", NODES)
def test_the_journal_tells_the_boots_apart(nodes: Nodes, before: dict[str, str], suite: str) -> None:
    node = nodes.of(suite)
    assert node.run("journalctl --identifier=mark --output=cat --boot=-1").strip() == "before"
    assert re.search(rf"^ *-1 {before[suite].replace('-', '')} ", node.run("journalctl --list-boots"), re.MULTILINE)
    assert node.run("journalctl --identifier=mark --output=cat --boot=0 || :").strip() in ("", "-- No entries --")


@pytest.mark.parametrize("suite", NODES)
def test_what_stands_in_for_hardware_is_laid_there_before_systemd_looks(
    nodes: Nodes, before: dict[str, str], suite: str
) -> None:
    assert nodes.of(suite).run("cat /proc/cmdline").strip() == "quiet iommu=pt"


def test_a_node_that_came_back_is_not_made_anew(nodes: Nodes, before: dict[str, str]) -> None:
    assert len(re.findall(r"changed=0 ", nodes.boot())) == len(NODES)


def test_a_node_that_is_powered_off_stays_off_until_it_is_started(nodes: Nodes, before: dict[str, str]) -> None:
    node = nodes.of("bookworm")
    node.inside("systemctl poweroff")
    inspect = ("tools/with-podman", "podman", "inspect", "--format", "{{.State.Status}} {{.State.ExitCode}}", node.name)
    deadline = time.monotonic() + 60
    # Podman starts it once more, whereupon it ends without a failure.
    while (state := run(*inspect).strip()) != "exited 0":
        assert time.monotonic() < deadline, state
        time.sleep(0.2)
    assert re.search(r"^bookworm .* changed=1 ", nodes.boot(), re.MULTILINE)
    assert node.run("ls /root/kept").strip() == "/root/kept"
