# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_available import (
    available_before_load,
    held_by_others,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.context_memory import context_bytes
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import Observed, ServerRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import GpuFacts, machine_facts

CARD = 80 * GIB


def gpu(processes: tuple[tuple[str, int | None], ...] = (), used: int | None = None) -> GpuFacts:
    entry: dict[str, Any] = {"index": 0, "memory_total_bytes": CARD, "memory_used_bytes": used}
    entry["processes"] = [
        {"pid": number, "name": name, "memory_used_bytes": size} for number, (name, size) in enumerate(processes)
    ]
    return machine_facts({"gpus": [entry]}).gpus[0]


OURS, THEIRS = "sglang::scheduler_TP0", "/usr/bin/python train.py"


@pytest.mark.parametrize(
    ("found", "held"),
    [
        (gpu(), 0),
        (gpu(((OURS, 70 * GIB),), 71 * GIB), 0),
        (gpu(((THEIRS, 10 * GIB),), 11 * GIB), 10 * GIB),
        (gpu(((THEIRS, 10 * GIB), (OURS, 60 * GIB)), 71 * GIB), 10 * GIB),
        # The driver does not tell what a process holds: what is used less what is ours.
        (gpu(((THEIRS, None), (OURS, 60 * GIB)), 71 * GIB), 11 * GIB),
        # What the driver takes for itself is nobody's.
        (gpu(used=600 << 20), 0),
        (gpu(used=20 * GIB), 20 * GIB),
    ],
)
def test_what_others_hold(found: GpuFacts, held: int) -> None:
    assert held_by_others(found, running=False)[0] == held


def test_memory_without_a_name_is_ours_while_we_run() -> None:
    assert held_by_others(gpu(used=70 * GIB), running=True) == (0, "")


def test_a_start_has_what_others_leave() -> None:
    said: list[str] = []
    taken = gpu(((THEIRS, 10 * GIB),))
    assert available_before_load(ServerRequest(), (taken,), Observed(), said) == 70 * GIB - context_bytes(1, None)
    assert said[1] == "/usr/bin/python train.py holds 10.00 GiB of GPU 0 and keeps it."
    observed = Observed(available_before_load_bytes=69 * GIB)
    assert available_before_load(ServerRequest(), (taken,), observed, []) == 69 * GIB
    assert available_before_load(ServerRequest(), (GpuFacts(0),), Observed(), []) is None
