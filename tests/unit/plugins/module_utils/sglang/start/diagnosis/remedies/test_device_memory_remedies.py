# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Remedies for want of GPU memory, fed back to the planner."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB, MIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.diagnosis import diagnose
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.remedies.torch_memory import (
    TorchMemory,
    parse_torch_memory,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.result import Diagnosis
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import StartupState
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.attentions import LLAMA_8B
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import planned
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.test_plan_layouts import request
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import (
    BOOT,
    FAILED,
    after,
    both,
    raw_events,
    seen,
    start,
)

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}. GPU 1 has a total capacity of 79.15 GiB of "
    "which {free} is free. {others}Including non-PyTorch memory, this process has {own} memory in use. Of the "
    "allocated memory 70.00 GiB is allocated by PyTorch, and 60.00 MiB is reserved by PyTorch but unallocated."
)
NO_KV = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: {fraction}"


def oom(tried: str = "2.00 GiB", free: str = "1.12 GiB", own: str = "78.00 GiB", others: str = "") -> str:
    return OOM.format(tried=tried, free=free, own=own, others=others)


def arguments(before_gib: float, after_gib: float, fraction: float, **server: Any) -> dict[str, Any]:
    return request(
        LLAMA_8B,
        2,
        server={"tensor_parallel_size": 2, "mem_fraction_static": fraction, **server},
        observed={
            "available_before_load_bytes": int(before_gib * GIB),
            "available_after_load_bytes": int(after_gib * GIB),
            "kv_pool_bytes": None,
        },
    )


def loaded(before_gib: float, after_gib: float, *further: str) -> StartupState:
    """Two ranks that have loaded their weights, and what they said then."""
    said = [
        line
        for rank in ("TP0", "TP1")
        for line in (
            f"{rank}] Load weight begin. avail mem={before_gib:.2f} GB",
            f"{rank}] Load weight end. elapsed=1.0 s, type=LlamaForCausalLM, avail mem={after_gib:.2f} GB, mem usage="
            f"{before_gib - after_gib:.2f} GB.",
        )
    ]
    state = after(start(), seen(1.0, BOOT, started_at=0.5, ranks=both(MIB, MIB)))
    return after(state, seen(2.0, [*said, *further], ranks=both(MIB, MIB)))


def found(line: str, state: StartupState, plan: dict[str, Any], fraction: float | None = None) -> Diagnosis:
    state = replace(state, mem_fraction_static=fraction)
    said = raw_events([line], 2.5, pid=201)
    return diagnose(after(state, seen(3.0, events=said, unit=FAILED), seen(5.0, unit=FAILED)), plan)


def refusal_of(asked: dict[str, Any]) -> str | None:
    try:
        planned(asked)
    except Refusal as refusal:
        return refusal.code
    return None


# Weights that leave nothing


@pytest.mark.parametrize(
    ("before", "after_load", "fraction"), [(78.5, 12.4, 0.8), (22.0, 5.1, 0.7), (79.0, 20.0, 0.72)]
)
def test_fraction_goes_up_to_the_least_that_leaves_a_page(before: float, after_load: float, fraction: float) -> None:
    asked = arguments(before, after_load, fraction)
    assert refusal_of(asked) == "kv_budget_empty"
    told = found(NO_KV.format(fraction=f"mem_fraction_static={fraction}"), loaded(before, after_load), {})
    assert (told.code, told.values["direction"]) == ("kv_pool_too_small", "up")
    assert told.values["mem_fraction_static_now"] == fraction
    least = told.values["mem_fraction_static"]
    assert refusal_of(arguments(before, after_load, least)) is None
    # A thousandth below, less than the two roundings of the lines is left, or nothing.
    below = planned_budget(arguments(before, after_load, round(least - 0.001, 3)))
    assert below < int(0.01 * GIB) + before * GIB / 1000
    assert refusal_of(arguments(before, after_load, round(least - 0.002, 3))) == "kv_budget_empty"
    assert str(least) in told.remedy and "Raise mem_fraction_static" in told.remedy
    highest = told.values["largest_mem_fraction_static"]
    assert least <= highest < 1
    assert refusal_of(arguments(before, after_load, highest)) is None


def planned_budget(asked: dict[str, Any]) -> float:
    try:
        return float(planned(asked)["device"]["budget_bytes"])
    except Refusal as refusal:
        return float(str(refusal.evidence["kv_budget_bytes"]))


def test_weights_that_leave_no_room_under_any_fraction_want_more_gpus() -> None:
    told = found(NO_KV.format(fraction="mem_fraction_static=0.9"), loaded(23.5, 2.1), {"host": {"ranks": 2}})
    assert told.code == "weights_leave_no_room"
    assert told.values["ranks_that_fit"] == 4
    assert "4 ranks would hold the weights" in told.remedy and "direction" not in told.values
    # Twice the ranks hold half of the weights each.
    assert refusal_of(arguments(23.5, 23.5 - (23.5 - 2.1) / 2, 0.85)) is None


# Out of memory, by stage


@pytest.mark.parametrize("missing", [(2.0, 1.12), (9.0, 0.5)])
def test_capture_wants_a_lower_fraction_by_what_was_missing(missing: tuple[float, float]) -> None:
    before, after_load, fraction = 78.5, 62.0, 0.93
    tried, free = missing
    plan = planned(arguments(before, after_load, fraction))
    state = loaded(before, after_load, "TP1] Capture cuda graph begin. This can take up to several minutes.")
    line = "Exception: Capture cuda graph failed: " + oom(f"{tried:.2f} GiB", f"{free:.2f} GiB").split(": ", 1)[1]
    told = found(line, state, plan, fraction)
    assert (told.code, told.rank, told.values["direction"]) == ("capture_out_of_memory", "TP1", "down")
    lower = told.values["mem_fraction_static"]
    assert lower < fraction and f"to {lower} or less" in told.remedy
    wanted = (tried - free) * GIB
    given_up = planned_budget(arguments(before, after_load, fraction)) - planned_budget(
        arguments(before, after_load, lower)
    )
    assert given_up >= wanted * 0.999
    # A step less would have given up too little.
    step = planned_budget(arguments(before, after_load, fraction)) - planned_budget(
        arguments(before, after_load, round(lower + 0.001, 3))
    )
    assert step < wanted
    assert refusal_of(arguments(before, after_load, lower)) is None


def test_capture_that_no_fraction_helps_wants_smaller_graphs() -> None:
    plan = {"sglang_version": "0.5.23", "arguments": {"cuda-graph-max-bs-decode": 256}}
    told = found(
        "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 1 has a total "
        "capacity of 23.60 GiB of which 0.20 GiB is free.",
        loaded(23.5, 3.0),
        plan,
        0.88,
    )
    assert told.code == "capture_out_of_memory"
    assert (told.values["flag"], told.values["flag_value"]) == ("cuda-graph-max-bs-decode", 128)
    assert "mem_fraction_static" not in told.values and "more GPUs" in told.remedy


def test_request_that_runs_out_wants_a_lower_fraction_or_smaller_chunks() -> None:
    plan = planned(arguments(78.5, 62.0, 0.93, chunked_prefill_size=8192))
    state = after(loaded(78.5, 62.0), seen(2.2, ("] INFO:     Started server process [11280]",)))
    told = found(oom(), state, plan, 0.93)
    assert (told.code, told.values["direction"]) == ("runtime_out_of_memory", "down")
    assert told.values["flag_value"] == 4096
    assert told.values["mem_fraction_static"] < 0.93


def test_weights_that_do_not_fit_want_more_gpus() -> None:
    state = after(
        start(),
        seen(
            1.0,
            (*BOOT, "TP0] Load weight begin. avail mem=78.50 GB", "TP1] Load weight begin. avail mem=78.50 GB"),
            ranks=both(1, 1),
        ),
    )
    plan = {"sglang_version": "0.5.23", "host": {"ranks": 2}, "device": {"weights_bytes": 100 * GIB}}
    told = found(oom("1.50 GiB", "0.70 GiB"), state, plan)
    assert (told.code, told.rank) == ("weights_do_not_fit", "TP1")
    assert told.values["missing_bytes"] == 100 * GIB - int(78.5 * GIB)
    assert told.values["ranks_that_fit"] == 4


def test_memory_that_another_process_holds_is_named_with_it() -> None:
    line = oom("2.00 GiB", "0.50 GiB", "40.00 GiB", "Process 4711 has 38.00 GiB memory in use. ")
    told = found(line, loaded(78.5, 62.0), {}, 0.9)
    assert told.code == "gpu_memory_held_by_others"
    assert (told.values["pid"], told.values["held_bytes"], told.values["gpu"]) == (4711, 38 * GIB, 1)
    assert "End process 4711" in told.remedy and "process 4711 holds 38.00 GiB" in told.message


def test_memory_that_nobody_holds_has_leaked() -> None:
    told = found(oom("2.00 GiB", "0.50 GiB", "40.00 GiB"), loaded(78.5, 62.0), {}, 0.9)
    assert told.code == "gpu_memory_leaked"
    assert told.values["held_bytes"] == pytest.approx((79.15 - 0.5 - 40) * GIB, rel=1e-6)


def test_peer_of_the_same_server_is_no_other_process() -> None:
    line = oom("2.00 GiB", "0.50 GiB", "40.00 GiB", "Process 200 has 38.00 GiB memory in use. ")
    assert found(line, loaded(78.5, 62.0), {}, 0.9).code != "gpu_memory_held_by_others"


def test_gpus_that_do_not_have_the_same_free() -> None:
    line = (
        "RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. "
        "pre_model_load_memory=61.25, local_gpu_memory=78.75, local_gpu_memory * 0.9=70.875"
    )
    told = found(line, after(start(), seen(1.0, BOOT, ranks=both(1, 1))), {})
    assert (told.code, told.values["held_bytes"]) == ("gpu_memory_unbalanced", int(17.5 * GIB))
    assert "17.50 GiB" in told.remedy


# PyTorch's words


def test_every_number_of_pytorch_s_line() -> None:
    read = parse_torch_memory(oom("20.00 MiB", "3.06 MiB", "75.14 GiB", "Process 12345 has 4.00 GiB memory in use. "))
    assert read == TorchMemory(
        20 * MIB, 1, round(79.15 * GIB), round(3.06 * MIB), round(75.14 * GIB), ((12345, 4 * GIB),)
    )
    assert read.missing_bytes == 20 * MIB - round(3.06 * MIB)


@pytest.mark.parametrize(
    ("text", "tried", "free"),
    [
        ("Tried to allocate 512 bytes. GPU 0 has a total capacty of 15.77 GiB of which 0 bytes is free.", 512, 0),
        (
            "Tried to allocate 2.00 GiB (GPU 3; 15.78 GiB total capacity; 13.00 GiB already allocated; 1.00 GiB free; "
            "14.00 GiB reserved in total by PyTorch)",
            2 * GIB,
            GIB,
        ),
        ("CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", None, None),
    ],
)
def test_older_and_shorter_words(text: str, tried: int | None, free: int | None) -> None:
    read = parse_torch_memory(text)
    assert (read.tried_bytes, read.free_bytes) == (tried, free)
    assert (read.missing_bytes is None) == (tried is None)
