# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.diagnosis import diagnose
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.failures import fitting_ratio
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import GUARD, PLAN, died


@pytest.mark.parametrize(
    ("line", "code", "words", "remedy"),
    [
        (GUARD, "host_memory_guard", "asks for 8.00 GB and its check lets it have 1.50 GB", "hicache.ratio to"),
        (
            "ValueError: Not enough host memory for DSA indexer hierarchical cache. Requesting",
            "host_memory_guard",
            "refused to allocate the host pool",
            "hicache.ratio to 90.0 or less",
        ),
        (
            "RuntimeError: cudaHostRegister failed (rc=2, out of memory) at offset=0 size=1000000512 (total=1)",
            "registration_failed",
            "refused to pin 1.00 GB of host memory",
            "LimitMEMLOCK",
        ),
        ("AssertionError: Torch not compiled with CUDA enabled", "no_cuda", "PyTorch has none", "CUDA build"),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate",
            "gpu_out_of_memory",
            "no memory left",
            "mem_fraction_static",
        ),
        (
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
            "kv_pool_too_small",
            "No memory is left for the KV cache",
            "Raise mem_fraction_static",
        ),
        (
            "launch_server.py: error: ambiguous option: --cuda-graph-bs could match",
            "bad_argument",
            "ambiguous option",
            "Correct the variables",
        ),
        (
            "ERROR: [Errno 98] error while attempting to bind on address ('0.0.0.0', 30000): address already in use",
            "port_in_use",
            "Port 30000 is taken",
            "another port",
        ),
        (
            "RuntimeError: Cannot find any model weights with `/srv/models/x`",
            "model_files",
            "Model files are missing",
            "manifest",
        ),
        (
            "InductorError: InvalidCxxCompiler: No working C++ compiler found in",
            "missing_compiler",
            "found no compiler",
            "g++",
        ),
        (
            "TokenizerManager watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
            "watchdog_timeout",
            "no longer moves",
            "stacks",
        ),
        (
            "sglang-main.service: A process of this unit has been killed by the OOM killer.",
            "oom_killer",
            "killed a process of the unit",
            "hicache.ratio to 90.0 or less",
        ),
    ],
)
def test_line_that_names_the_cause(line: str, code: str, words: str, remedy: str) -> None:
    found = diagnose(died(line, "[2026-11-29 14:44:35] Received sigquit from a child process."), PLAN)
    assert found.code == code
    assert words in found.message
    assert remedy in found.remedy


def test_guard_remedy_is_the_largest_ratio_that_passes_the_last_rank_s_check() -> None:
    found = diagnose(died(GUARD), PLAN)
    # 1.50 GB a rank on 2 ranks leave 2 x 1.50 / 3 = 1.00 GB for each, as the last check counts the peer's pool twice:
    # an eighth of 8 GB at ratio 476.84, which is 59.605, less two hundredths.
    assert found.evidence == {
        "requested_bytes": 8_000_000_000,
        "available_bytes": 1_500_000_000,
        "largest_ratio": 59.58,
    }
    assert found.remedy == "Set hicache.ratio to 59.58 or less, or free host memory."


@pytest.mark.parametrize(
    ("host", "available", "ratio"),
    [
        ({"largest_ratio": 12.5}, 1_500_000_000, 12.5),  # the plan's own bound is tighter
        ({"guard": {"variant": "A"}}, 1_500_000_000, 44.68),  # one rank is let have what both have to share
        ({"sizing": "fraction"}, 1_500_000_000, 89.38),  # booked against one snapshot
        ({}, 0, None),
        ({}, -3_100_000_000, None),
        ({}, None, 90.0),
        # 8 GB a rank at ratio 40, in however many pools: 1 GB takes an eighth of the ratio, less two hundredths.
        ({"ratio": 40.0}, 1_500_000_000, 4.98),
        ({"ratio": None, "tokens": 40 * 8192}, 1_500_000_000, 4.98),  # a size in the place of a ratio
        ({"ratio": None}, 1_500_000_000, 90.0),  # how the pools grow is not known
    ],
)
def test_fitting_ratio(host: dict[str, Any], available: int | None, ratio: float | None) -> None:
    assert fitting_ratio({**PLAN, "host": {**PLAN["host"], **host}}, available) == ratio


def test_no_ratio_fits_where_the_release_wants_more_than_the_device_holds() -> None:
    # An eighth of ratio 8 is left, and to 0.5.14 a host pool has to be larger than its device pool.
    plan = {**PLAN, "host": {**PLAN["host"], "ratio": 8.0}}
    assert fitting_ratio(plan, 1_500_000_000) == 0.98
    assert fitting_ratio({**plan, "sglang_version": "0.5.12"}, 1_500_000_000) is None


def test_guard_remedy_without_a_plan_is_a_share() -> None:
    assert diagnose(died(GUARD), {}).remedy == "Ask for at most 19% of it, or free host memory."


def test_guard_remedy_if_nothing_fits() -> None:
    line = GUARD.replace("1.50", "-2.00")
    assert diagnose(died(line), PLAN).remedy.startswith("No ratio fits")
