# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What has to hold of every machine that the probe describes, whatever it has read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Machine
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.problem_codes import CODES
from ansible_collections.gpufleet.sglang.rehearsal.machine_tree import numbers_of

LARGEST_RESULT = 4 << 20


def numbers_within(value: Any, key: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for name, entry in value.items():
            yield from numbers_within(entry, name)
    elif isinstance(value, list):
        for entry in value:
            yield from numbers_within(entry, key)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield key, value


def check_machine(machine: Machine) -> None:
    plain = machine.as_dict()
    # Strict JSON, in the encoding that Ansible sends it in.
    text = json.dumps(plain, allow_nan=False, ensure_ascii=False)
    assert len(text.encode("utf-8")) < LARGEST_RESULT
    assert json.loads(text) == plain
    assert [(key, number) for key, number in numbers_within(plain) if number < 0] == []
    _check_nodes(machine)
    _check_gpus(machine)
    _check_links(machine)
    for problem in machine.problems:
        assert problem.code in CODES, problem
        assert problem.severity == CODES[problem.code].severity
        assert problem.message.strip()
        assert "\n" not in problem.message, problem
        assert problem.remedy == CODES[problem.code].remedy


def _check_nodes(machine: Machine) -> None:
    ids = [node.id for node in machine.numa_nodes]
    assert ids == sorted(set(ids))
    homes = [cpu for node in machine.numa_nodes for cpu in numbers_of(node.cpus)]
    assert len(homes) == len(set(homes)), "a CPU is on two nodes"
    for node in machine.numa_nodes:
        assert set(numbers_of(node.cpus_usable)) <= set(numbers_of(node.cpus))
        assert node.has_cpus == bool(numbers_of(node.cpus))
        assert node.kind in ("general", "cpus", "memory", "gpu_memory", "empty")
        assert len(node.distances) in (0, len(ids))
    allowed = machine.host.cpus_usable
    usable = {cpu for node in machine.numa_nodes for cpu in numbers_of(node.cpus_usable)}
    if allowed is not None:
        assert usable <= set(numbers_of(allowed))


def _check_gpus(machine: Machine) -> None:
    ids = {node.id for node in machine.numa_nodes}
    assert [gpu.index for gpu in machine.gpus] == list(range(len(machine.gpus)))
    for gpu in machine.gpus:
        # Where the kernel shows no nodes at all there is nothing to hold the ids against.
        if ids:
            assert gpu.numa_node is None or gpu.numa_node in ids, "the GPU is on no node"
            assert gpu.gpu_numa_id is None or gpu.gpu_numa_id in ids, "the GPU's memory is no node"
        assert gpu.memory_source in (None, "nvml", "catalogue")
    placed = {gpu.index: gpu.numa_node for gpu in machine.gpus if gpu.numa_node in ids}
    assert {index: node.id for node in machine.numa_nodes for index in node.gpus} == placed


def _check_links(machine: Machine) -> None:
    rows = machine.gpu_links
    assert [len(row) for row in rows] == [len(machine.gpus)] * len(machine.gpus)
    for one, row in enumerate(rows):
        for two, link in enumerate(row):
            assert link == rows[two][one], "a link that is not the same from both ends"
            assert (link.level == "SELF") == (one == two)
            assert (
                link.level is None
                or link.level in ("SELF", "PIX", "PXB", "PHB", "NODE", "SYS")
                or (link.level == f"NV{link.nvlinks}")
            )
