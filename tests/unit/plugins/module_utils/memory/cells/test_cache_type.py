# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cache_type import CacheType, cache_type
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_config import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pool_versions import pool_facts
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.attentions import (
    DEEPSEEK_V3,
    GLM_5,
    GPT_OSS,
    LLAMA_8B,
    MINIMAX_M3,
    QWEN3_NEXT,
)


def found(config: dict[str, Any], dtype: str, version: str = "0.5.23", **more: Any) -> CacheType:
    return cache_type(attention_from_config(config), pool_facts(version), dtype, more.pop("model", "bfloat16"), **more)


def refused(config: dict[str, Any], dtype: str, version: str = "0.5.23", **more: Any) -> Refusal:
    with pytest.raises(Refusal) as refusal:
        found(config, dtype, version, **more)
    return refusal.value


@pytest.mark.parametrize(
    ("dtype", "model", "expected"),
    [
        ("auto", "bfloat16", 2),
        ("auto", "float32", 4),
        ("fp8_e4m3", "bfloat16", 1),
        ("fp8_e5m2", "bfloat16", 1),
        ("bf16", "float32", 2),
    ],
)
def test_element_of_the_cache(dtype: str, model: str, expected: int) -> None:
    assert found(LLAMA_8B, dtype, model=model).element_bytes == expected


def test_sparse_latent_attention_takes_fp8_by_itself_on_blackwell() -> None:
    assert found(GLM_5, "auto", compute_capability=(10, 0)) == CacheType("fp8_e4m3", 1, 2, raw_rows=True)
    # 0.5.9 reads rows with scales there, too.
    assert not found(GLM_5, "auto", "0.5.9", compute_capability=(10, 0)).raw_rows
    assert found(GLM_5, "auto", compute_capability=(9, 0)).name == "bfloat16"
    assert refused(GLM_5, "auto").code == "kv_cache_dtype_ambiguous"


def test_the_backend_of_the_index_decides_on_scales() -> None:
    assert not found(GLM_5, "fp8_e4m3", compute_capability=(9, 0)).raw_rows
    assert found(GLM_5, "fp8_e4m3", compute_capability=(9, 0), index_backends=frozenset({"trtllm"})).raw_rows
    asked = frozenset({"flashmla_kv"})
    assert not found(GLM_5, "fp8_e4m3", compute_capability=(10, 0), index_backends=asked).raw_rows


@pytest.mark.parametrize(
    ("config", "dtype", "version"),
    [
        (LLAMA_8B, "nvfp4", "0.5.23"),
        (LLAMA_8B, "int8", "0.5.23"),
        (LLAMA_8B, "fp4_e2m1", "0.4.7"),
        (LLAMA_8B, "fp4_e2m1", "0.5.23"),  # called fp4_mx_block16 by then
        (GPT_OSS, "fp4_mx_block16", "0.5.23"),
        (LLAMA_8B, "mxfp8", "0.5.9"),
        (DEEPSEEK_V3, "mxfp8", "0.5.23"),
        (MINIMAX_M3, "fp8_e4m3", "0.5.23"),
        (GLM_5, "fp8_e5m2", "0.5.23"),
    ],
)
def test_types_whose_bytes_are_not_counted_are_refused_by_name(
    config: dict[str, Any], dtype: str, version: str
) -> None:
    refusal = refused(config, dtype, version, compute_capability=(9, 0))
    assert refusal.code == "kv_cache_dtype_unplanned"
    assert dtype in refusal.message


def test_types_with_scales_that_are_counted() -> None:
    assert found(LLAMA_8B, "fp4_e2m1", "0.5.9").four_bit
    assert found(DEEPSEEK_V3, "fp4_mx_block16").four_bit
    assert found(QWEN3_NEXT, "mxfp8").name == "mxfp8"
    assert refused(LLAMA_8B, "auto", model="int3").code == "kv_cache_dtype_unplanned"
