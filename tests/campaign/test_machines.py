# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The probe on machines that no one has built, and on trees with files that are not as they should be."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import strategies as st

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.problem_codes import CODES as STACK_CODES
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.reading import read_stack
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.host import read_driver_version, read_host
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.numa import read_numa_nodes
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.pci import read_pci_gpus
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Machine
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.asking import read_nvml
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.process import Call
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.reading import NvmlReading
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.survey import survey
from ansible_collections.gpufleet.sglang.rehearsal import machine_tree
from ansible_collections.gpufleet.sglang.tests.campaign.invariants import LARGEST_RESULT, check_machine, numbers_within
from ansible_collections.gpufleet.sglang.tests.campaign.machines import damage, damages, profiles
from ansible_collections.gpufleet.sglang.tests.campaign.nvml_doubles import drivers, readings

Examples = Callable[..., None]


def read(root: Path, nvml: NvmlReading | None = None) -> Machine:
    host = read_host(root)
    return survey(host, read_numa_nodes(root, host), read_pci_gpus(root), nvml, read_driver_version(root))


def allowed(profile: machine_tree.Profile, key: str, everything: set[int]) -> set[int]:
    """What the limits of the profile leave to a service: those of the system slice and of the reading process's group,
    but for a user's session; and where only a part of the hierarchy is to be seen those of that part."""
    cgroup = profile["cgroup"]
    left = set(everything)
    for group, limits in cgroup["limits"].items():
        whole = cgroup["mount_root"] == "/" and not group.startswith("/user.slice")
        if key in limits and (whole or group == cgroup["mount_root"]):
            left &= set(machine_tree.numbers_of(limits[key]))
    return left


def test_any_machine_is_described_as_it_is(examples: Examples, tmp_path: Path) -> None:
    def check(profile: machine_tree.Profile) -> None:
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            machine_tree.build_tree(profile, Path(folder))
            machine = read(Path(folder))
        check_machine(machine)
        ids = {node["id"] for node in profile["numa_nodes"]}
        assert {node.id for node in machine.numa_nodes} == ids
        online = set(machine_tree.numbers_of(profile["host"]["cpus_present"]))
        online -= set(machine_tree.numbers_of(profile["host"]["cpus_offline"]))
        for node, told in zip(machine.numa_nodes, profile["numa_nodes"]):
            assert set(machine_tree.numbers_of(node.cpus)) == set(machine_tree.numbers_of(told["cpus"])) & online
            assert node.memory_total_bytes is not None
            if len(ids) > 1:
                assert node.memory_total_bytes == told["memory_total_kib"] * 1024
        usable = [cpu for node in machine.numa_nodes for cpu in machine_tree.numbers_of(node.cpus_usable)]
        assert sorted(usable) == sorted(allowed(profile, "cpus", online)), "each usable CPU is on exactly one node"
        with_memory = {node["id"] for node in profile["numa_nodes"] if node["memory_total_kib"]}
        homes = allowed(profile, "memory_nodes", with_memory)
        assert {node.id for node in machine.numa_nodes if node.usable} == (ids if homes == with_memory else homes)
        gpus = [device for device in profile["devices"] if profile["boards"][device["board"]]["kind"] == "gpu"]
        assert len(machine.gpus) == len(gpus)
        bridges = profile["host_bridges"]
        places = {
            device["path"].split("/")[-1]: device.get("numa_node", bridges[device["path"].split("/")[0]])
            for device in gpus
        }
        assert {gpu.pci_address: gpu.numa_node for gpu in machine.gpus} == {
            address: node if node in ids else None for address, node in places.items()
        }

    examples(check, profiles())


@st.composite
def damaged(draw: st.DrawFn) -> tuple[machine_tree.Profile, dict[str, bytes | str]]:
    profile = draw(profiles())
    paths = sorted(set(machine_tree.entries_of(profile)) - {"machine.nvml", machine_tree.MARKER})
    return profile, draw(damages(paths))


def test_no_broken_file_breaks_the_probe(examples: Examples, tmp_path: Path) -> None:
    def check(case: tuple[machine_tree.Profile, dict[str, bytes | str]]) -> None:
        profile, broken = case
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            machine_tree.build_tree(profile, Path(folder))
            damage(Path(folder), broken)
            check_machine(read(Path(folder)))
            check_stack(Path(folder))

    examples(check, damaged())


def check_stack(root: Path) -> None:
    stack = read_stack(root)
    plain = stack.as_dict()
    text = json.dumps(plain, allow_nan=False, ensure_ascii=False)
    assert len(text.encode("utf-8")) < LARGEST_RESULT
    assert [(key, number) for key, number in numbers_within(plain) if number < 0] == []
    for problem in stack.problems:
        assert (problem.severity, problem.remedy) == (
            STACK_CODES[problem.code].severity,
            STACK_CODES[problem.code].remedy,
        )
        assert "\n" not in problem.message, problem


@st.composite
def told(draw: st.DrawFn) -> tuple[machine_tree.Profile, NvmlReading]:
    profile = draw(profiles())
    addresses = [device["path"].split("/")[-1] for device in profile["devices"]]
    return profile, draw(readings(addresses))


def test_the_driver_may_say_what_it_will(examples: Examples, tmp_path: Path) -> None:
    def check(case: tuple[machine_tree.Profile, NvmlReading]) -> None:
        profile, reading = case
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            machine_tree.build_tree(profile, Path(folder))
            check_machine(read(Path(folder), reading))

    examples(check, told())


@st.composite
def asked(draw: st.DrawFn) -> tuple[machine_tree.Profile, Call]:
    profile = draw(profiles())
    gpus = [device for device in profile["devices"] if profile["boards"][device["board"]]["kind"] == "gpu"]
    return profile, draw(drivers([device["path"].split("/")[-1] for device in gpus]))


def test_no_answer_of_a_driver_breaks_the_probe(examples: Examples, tmp_path: Path) -> None:
    def check(case: tuple[machine_tree.Profile, Call]) -> None:
        profile, call = case
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            machine_tree.build_tree(profile, Path(folder))
            check_machine(read(Path(folder), read_nvml(call, Path(folder))))

    examples(check, asked())
