# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the modules said on the host, against the profiles of the machines and against the host's own tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from testinfra.host import Host

from ansible_collections.gpufleet.sglang.rehearsal import machine_tree
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.topology.expected_machines import (
    BOARDS_UNASKED,
    EXPECTED,
)

MACHINES = Path(machine_tree.__file__).parent / "machines"
PROFILES = sorted(path.stem for path in MACHINES.glob("*.yml"))
MIB = 1 << 20
# What the run adds to what the module says.
ADDED = ("invocation", "item", "ansible_loop_var", "failed", "changed")


@pytest.fixture(name="said", scope="module")
def _said(host: Host) -> dict[str, dict[str, Any]]:
    """What was said of the machines, by kind and machine."""
    found: dict[str, dict[str, Any]] = {}
    for name in host.check_output("ls /var/lib/probe-results").split():
        if name.startswith("lane"):
            content = json.loads(host.file(f"/var/lib/probe-results/{name}").content_string)
            for kind, results in content.items():
                found.setdefault(kind, {}).update(results)
    return found


@pytest.fixture(name="own", scope="module")
def _own(host: Host) -> dict[str, list[dict[str, Any]]]:
    """What was said of the host itself, without and in check mode."""
    found: dict[str, list[dict[str, Any]]] = json.loads(host.file("/var/lib/probe-results/own.json").content_string)
    return found


def facts(result: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key not in ADDED}


@pytest.fixture(name="probed", scope="module")
def _probed(host: Host) -> list[str]:
    """The machines that the host has to tell of: all on one, two on the other."""
    return PROFILES if host.system_info.codename == "bookworm" else ["founding", "h100-mig"]


def test_every_profile_was_probed(said: dict[str, dict[str, Any]], probed: list[str]) -> None:
    assert sorted(EXPECTED) == PROFILES
    assert [sorted(results) for results in said.values()] == [probed] * 4


@pytest.mark.parametrize("kind", ["topologies", "stacks"])
def test_check_mode_says_the_same_and_nothing_is_ever_changed(said: dict[str, dict[str, Any]], kind: str) -> None:
    normal, checked = said[kind], said[f"{kind}_checked"]
    assert {name: facts(result) for name, result in normal.items()} == {
        name: facts(result) for name, result in checked.items()
    }
    assert not any(result["changed"] or result["failed"] for result in (*normal.values(), *checked.values()))


def test_each_machine_is_what_its_profile_says(said: dict[str, dict[str, Any]], probed: list[str]) -> None:
    for name in probed:
        check_machine(said["topologies"][name], name)


def check_machine(told: dict[str, Any], name: str) -> None:
    expected = EXPECTED[name]
    profile = machine_tree.load_profile(MACHINES / f"{name}.yml")
    gpus = [device for device in profile["devices"] if profile["boards"][device["board"]]["kind"] == "gpu"]
    assert [gpu["pci_address"] for gpu in told["gpus"]] == [device["path"].split("/")[-1] for device in gpus], name
    assert [gpu["numa_node"] for gpu in told["gpus"]] == expected.gpus, name
    assert {problem["code"] for problem in told["problems"]} - BOARDS_UNASKED == expected.driver, name
    assert told["host"]["kernel"] == profile["host"]["kernel"], name
    assert told["driver"]["version"] == (profile["driver"] or {}).get("version"), name
    if told["driver"]["source"] == "nvml":
        sizes = [profile["boards"][device["board"]]["nvml"]["memory_total_mib"] * MIB for device in gpus]
        known = [(gpu["memory_total_bytes"], size) for gpu, size in zip(told["gpus"], sizes)]
        assert all(size in (None, wanted) for size, wanted in known), name


def test_the_software_of_each_is_what_its_profile_says(said: dict[str, dict[str, Any]], probed: list[str]) -> None:
    for name in probed:
        check_software(said["stacks"][name], name)


def check_software(told: dict[str, Any], name: str) -> None:
    profile = machine_tree.load_profile(MACHINES / f"{name}.yml")
    driver = profile["driver"] or {}
    assert told["running_kernel"] == profile["host"]["kernel"], name
    assert told["driver"]["loaded"]["version"] == driver.get("version"), name
    wanted = profile.get("stack", {}).get("user_space", driver.get("version"))
    assert told["driver"]["user_space"]["version"] == wanted, name
    assert told["unreadable"] == [], name


def test_the_host_itself(host: Host, own: dict[str, list[dict[str, Any]]]) -> None:
    for told in own["topology"]:
        assert (told["gpus"], told["changed"], told["driver"]["source"]) == ([], False, "none")
        assert told["host"]["kernel"] == host.check_output("uname -r")
        total_kib = int(host.check_output("awk '/^MemTotal:/ {print $2}' /proc/meminfo"))
        assert told["host"]["memory_total_bytes"] == total_kib * 1024
        assert told["host"]["cpus"] == host.check_output("cat /sys/devices/system/cpu/online")
        nodes = host.check_output("ls -d /sys/devices/system/node/node[0-9]* 2>/dev/null | wc -l")
        assert len(told["numa_nodes"]) == int(nodes)


def test_the_software_of_the_host_itself(host: Host, own: dict[str, list[dict[str, Any]]]) -> None:
    for told in own["stack"]:
        assert (told["os"]["id"], told["os"]["container"], told["changed"]) == ("debian", "podman", False)
        assert told["os"]["codename"] == host.system_info.codename
        assert told["driver"]["loaded"]["loaded"] is False
        assert told["running_kernel"] == host.check_output("uname -r")
