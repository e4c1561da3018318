# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Weights of a rank, computed from a model's configuration alone, against what recorded start-ups say they took.

A log shows the fall of free memory over loading, rounded to 0.01 GiB: the segments that PyTorch's allocator took, plus
what loading itself leaves behind (kernels that were loaded, workspaces of repacking). Every row with a figure is either
compared or named with the reason why not; `pytest -s` prints the table.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.rank_weights import (
    StageWeights,
    WeightFacts,
    rank_weights,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_groups import tensor_groups
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_layout import RankLayout
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_structure import structure_from_config
from ansible_collections.gpufleet.sglang.tests.conformance.recorded_data import DATA, needs_recorded_data
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.model import model_configs as models
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.model.checkpoints import (
    kimi_vision,
    model_tensors,
)

LOGS = DATA / "sglang" / "startup-logs.json"

pytestmark = needs_recorded_data


@dataclass(frozen=True)
class Case:
    """How one row's model is built: its configuration, the form of its checkpoint and the layout."""

    config: dict[str, Any]
    form: str = "BF16"
    method: str | None = None
    layout: RankLayout = RankLayout()
    block: tuple[int, int] | None = None
    vision: bool = False


def tp(ranks: int, **more: Any) -> RankLayout:
    return RankLayout(tensor_parallel=ranks, **more)


BLOCKS = (128, 128)
# NVIDIA: logged less computed is between the log's rounding and what loading leaves behind.
NVIDIA = {
    "sglang#1386": Case(models.QWEN2_72B, layout=tp(8)),
    "sglang#1953": Case(models.QWEN25_7B, "gptq8", "gptq", tp(2)),
    "sglang#2527": Case(models.QWEN25_05B),
    "sglang#3204": Case(models.DEEPSEEK_V25, layout=tp(8)),
    "sglang#3451": Case(models.DEEPSEEK_V2_LITE),
    "sglang#4094": Case(models.QWEN25_7B),
    "sglang#4257": Case(models.R1_DISTILL_QWEN_14B, layout=tp(2)),
    "sglang#4351": Case(models.LLAMA_31_70B, "awq", "awq", tp(2)),
    "sglang#748": Case(models.QWEN2_72B_GPTQ, "gptq4", "gptq", tp(4)),
    "sglang#7495": Case(models.QWEN3_06B, "fp8-block", "fp8", block=BLOCKS),
    "llama31-8b-80g-2025-01": Case(models.LLAMA_31_8B),
    "llama31-8b-h100-pr4760": Case(models.LLAMA_31_8B),
    "qwen3-0.6b-16g": Case(models.QWEN3_06B),
}
# AMD and Ascend: the driver's free memory falls by more than the tensors, by up to 2.1 GiB in these rows.
OTHERS = {
    "sglang#6001": Case(models.DEEPSEEK_V3, "fp8-block", "fp8", tp(8, hardware="rocm"), BLOCKS),
    "kimi-k25-tp8": Case(models.KIMI_K25, "int4-experts", "compressed-tensors", tp(8), vision=True),
    "qwen3-30b-a3b-mi3xx-tp1": Case(models.QWEN3_30B_A3B),
    "glm47-flash-ascend-tp2": Case(models.GLM_47_FLASH, layout=tp(2)),
}
# 0.4.9 on ROCm with --enable-ep-moe: the difference is the routed experts once more, to 0.2 %.
EXPERTS_TWICE = {
    "sglang#7847": Case(
        models.DEEPSEEK_V3,
        "fp8-block",
        "fp8",
        tp(16, expert_parallel=16, attention_data_parallel=16, hardware="rocm"),
        BLOCKS,
    ),
}
NOT_COMPARED = {
    "sglang#1109": "the configuration of XVERSE-MoE-A4.2B is not at hand",
    "sglang#5637": "the model is not named",
    "sglang#7590": "bge-m3 is an encoder, which this collection does not serve",
    "dsv3-int8-ktransformers-tp2": "most experts stay on the CPU, and how many do not is not told",
    "qwen38-27b-bf16-radixoff": "the configuration of Qwen3.8-27B is not at hand",
    "ling3-flash-fp8-gb10": "the configuration of Ling-3.0-flash is not at hand",
    "ling3-flash-fin-gb10": "the configuration of Ling-3.0-flash-Fin is not at hand",
    "granite-hybrid-16g": "which Granite hybrid it is, is not told",
    "lfm2-16g": "which LFM2 it is, is not told",
    "dsv4-flash-gb10-tp?-ep": "tensor parallelism is not told, and the configuration is not at hand",
}
# The log's rounding of two numbers, and below it the older versions that kept cosines in 16 bits.
LEAST_GIB = -0.02
# Kernels and cuBLAS handles that loading brings in: 0.01 to 0.10 GiB; workspaces of Marlin's repacking, 0.16.
MOST_GIB = 0.17


def logged() -> dict[str, float]:
    rows = json.loads(LOGS.read_text(encoding="utf-8"))
    return {row["id"]: row["weight_mem_gib"] for row in rows if row["weight_mem_gib"] is not None}


def computed(case: Case) -> StageWeights:
    tensors = model_tensors(case.config, case.form, "language_model." if case.vision else "")
    if case.vision:
        tensors += kimi_vision()
    structure = structure_from_config(case.config, case.config)
    architecture = case.config["architectures"][0]
    groups = tensor_groups(tensors, structure.num_layers)
    facts = WeightFacts(architecture, structure, groups, case.method, block=case.block)
    return rank_weights(facts, case.layout).largest


def difference(row: str, case: Case) -> float:
    held = computed(case).allocated_bytes / GIB
    rest = logged()[row] - held
    print(f"{row:28} logged {logged()[row]:6.2f} GiB, computed {held:6.2f}, left {rest:+.3f} ({rest / held:+.2%})")
    return rest


def test_every_row_with_a_figure_is_compared_or_named() -> None:
    listed = [*NVIDIA, *OTHERS, *EXPERTS_TWICE, *NOT_COMPARED]
    assert sorted(listed) == sorted(logged())
    for row, reason in NOT_COMPARED.items():
        print(f"{row:28} logged {logged()[row]:6.2f} GiB, not compared: {reason}")


@pytest.mark.parametrize("row", NVIDIA)
def test_nvidia(row: str) -> None:
    assert LEAST_GIB <= difference(row, NVIDIA[row]) <= MOST_GIB


@pytest.mark.parametrize("row", OTHERS)
def test_other_accelerators(row: str) -> None:
    rest = difference(row, OTHERS[row])
    # Never less than the tensors; what runtimes add is not SGLang's and is bounded by the rows themselves.
    assert 0 <= rest <= 2.2


@pytest.mark.parametrize("row", EXPERTS_TWICE)
def test_experts_that_an_old_version_held_twice(row: str) -> None:
    experts = computed(EXPERTS_TWICE[row]).by_part["expert"] / GIB
    assert difference(row, EXPERTS_TWICE[row]) == pytest.approx(experts, rel=0.01)
