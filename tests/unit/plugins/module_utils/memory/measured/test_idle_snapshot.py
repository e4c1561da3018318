# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.measured.idle_snapshot import free_while_serving

GPUS: list[dict[str, Any]] = [
    {"index": 0, "memory_free_bytes": 9, "processes": [{"pid": 7}]},
    {"index": 1, "memory_free_bytes": 5, "processes": [{"pid": 8}]},
    {"index": 2, "memory_free_bytes": 1, "processes": [{"pid": 99}]},
]


def test_the_least_of_its_own_gpus() -> None:
    assert free_while_serving(GPUS, [0, 1], {7, 8}) == (5, "")


@pytest.mark.parametrize(
    ("gpus", "used", "why"),
    [
        (GPUS, [0, 2], "GPU 2 has other processes too"),
        (GPUS, [3], "not measured"),
        (GPUS, [None], "not measured"),
        (GPUS, [], "no GPUs"),
        (None, [0], "not measured"),
        ([{**GPUS[0], "processes": None}], [0], "does not tell its processes"),
        ([{**GPUS[0], "memory_free_bytes": "9"}], [0], "not measured"),
    ],
)
def test_what_is_not_known_is_said(gpus: Any, used: list[Any], why: str) -> None:
    free, said = free_while_serving(gpus, used, {7, 8})
    assert free is None
    assert why in said
