# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The data type of a KV cache: what C(--kv-cache-dtype) comes to for a model, a release and a card.

Source: SGLang, mem_cache/kv_cache_dtype.py (C(configure_kv_cache_dtype), model_runner.py before), server_args.py
C(_set_default_nsa_kv_cache_dtype) and C(_set_default_nsa_backends), later arg_groups/overrides.py
C(_dsa_kv_cache_dtype_default) and C(_dsa_split_backend_resolution).
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import (
    FAMILY_COMPRESSED,
    FAMILY_DSA,
    FAMILY_MLA,
    FAMILY_SPARSE,
    Attention,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pool_versions import (
    FP4_BLOCKS,
    FP4_RECIPE,
    PoolFacts,
)

DTYPE_BYTES = {
    "float32": 4,
    "float": 4,
    "bfloat16": 2,
    "bf16": 2,
    "float16": 2,
    "half": 2,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
}
MXFP8, FP8 = "mxfp8", "fp8_e4m3"
# Four bits an element with a scale byte every 16; fp4_e2m1 became fp4_mx_block16.
FP4 = frozenset({"fp4_e2m1", "fp4_mx_block16"})
# Two layouts of scales and a workspace, which of them by the pair of attention backends.
UNPLANNED_FP4 = "nvfp4"
# The attention backends of the index that read FP8 rows without scales (calculate_mla_kv_cache_dim).
RAW_ROW_BACKENDS = frozenset({"trtllm"})


@dataclass(frozen=True)
class CacheType:
    """C(element_bytes) is that of the stored type; four-bit types store two elements in one byte.

    C(raw_rows): FP8 rows of an indexed latent cache without scales (576 bytes) instead of with them (656).
    """

    name: str
    element_bytes: int
    model_element_bytes: int
    raw_rows: bool = False

    @property
    def four_bit(self) -> bool:
        return self.name in FP4


def _refuse(name: str, why: str, evidence: str | None = None) -> Refusal:
    return Refusal(
        "kv_cache_dtype_unplanned",
        f"The KV cache data type {name} is not planned{evidence or ''}: {why}.",
        f"Planned are {', '.join(DTYPE_BYTES)}, and for some models mxfp8 and fp4.",
        {"kv_cache_dtype": name},
    )


def cache_type(
    attention: Attention,
    pools: PoolFacts,
    kv_cache_dtype: str,
    model_dtype: str,
    compute_capability: tuple[int, int] | None = None,
    index_backends: frozenset[str] = frozenset(),
) -> CacheType:
    """The type in force. C(model_dtype) is the model's after C(--dtype); C(index_backends) are those asked for."""
    model_element = DTYPE_BYTES.get(model_dtype)
    if model_element is None:
        raise _refuse(model_dtype, "its size is not known")
    blackwell = compute_capability is not None and compute_capability[0] >= 10
    name = kv_cache_dtype
    if attention.family == FAMILY_DSA:
        if name == "auto":
            if compute_capability is None:
                raise Refusal(
                    "kv_cache_dtype_ambiguous",
                    "kv_cache_dtype is auto, and SGLang takes fp8_e4m3 for this model on compute capability 10 and "
                    "above and bfloat16 below; the compute capability is not known.",
                    "Set kv_cache_dtype, or give topology.gpus[].compute_capability.",
                )
            name = FP8 if blackwell else "bfloat16"
        if name not in ("bfloat16", "bf16", FP8):
            raise _refuse(name, "SGLang takes bfloat16 or fp8_e4m3 only", " for sparse latent attention")
    elif attention.family == FAMILY_COMPRESSED:
        if name not in ("auto", FP8):
            raise _refuse(name, "SGLang's rows on NVIDIA cards are fp8_e4m3", " for compressed attention")
        name = FP8
    elif name == "auto":
        name = model_dtype
    if name == UNPLANNED_FP4:
        raise _refuse(name, "its scales and its workspace depend on the pair of attention backends")
    if name in FP4:
        return _four_bit(attention, pools, name, model_element)
    if name == MXFP8:
        if not pools.mxfp8 or attention.latent or attention.family == FAMILY_SPARSE:
            raise _refuse(name, "its scales are counted for plain heads, windows and states only", " here")
        return CacheType(name, 1, model_element)
    if name not in DTYPE_BYTES:
        raise _refuse(name, "its scales are not counted by this release")
    if attention.family == FAMILY_SPARSE and name == FP8:
        raise _refuse(name, "the type of the index keys beside it depends on the card", " for this model")
    backends = index_backends or (
        frozenset({"trtllm"}) if blackwell and pools.raw_index_rows_on_blackwell else frozenset()
    )
    raw = attention.family == FAMILY_DSA and name == FP8 and bool(backends & RAW_ROW_BACKENDS)
    return CacheType(name, DTYPE_BYTES[name], model_element, raw_rows=raw)


def _four_bit(attention: Attention, pools: PoolFacts, name: str, model_element: int) -> CacheType:
    if pools.fp4 is None:
        raise _refuse(name, "the release does not know it", " here")
    if attention.family not in ("mha", "gqa", "mqa", FAMILY_MLA):
        raise _refuse(name, "it is counted for plain heads and latent attention only", " for this model")
    if pools.fp4 == FP4_RECIPE and name == "fp4_e2m1":
        raise _refuse(name, "it is called fp4_mx_block16 from 0.5.21 on", " here")
    if pools.fp4 == FP4_BLOCKS and name != "fp4_e2m1":
        raise _refuse(name, "it is called fp4_e2m1 to 0.5.15", " here")
    return CacheType(name, 1, model_element)
