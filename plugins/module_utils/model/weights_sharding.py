# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How one tensor is split over ranks and in which size a rank keeps it, told from its name, type and shape; pure.

Names are those of checkpoints. Which of them SGLang builds as ColumnParallelLinear (and its merged and QKV kinds),
RowParallelLinear or ReplicatedLinear is read from models/*.py of 0.5.23; types and post-processing from
layers/quantization.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_groups import TensorGroup
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_parts import (
    ATTENTION,
    DENSE,
    EXPERT,
    LM_HEAD,
    PROJECTOR,
    ROUTER,
    SHARED_EXPERT,
    VISION,
)


class Split(enum.Enum):
    """Along which side a tensor is divided."""

    WHOLE = "whole"
    OUTPUT = "output"
    INPUT = "input"
    KV_HEADS = "kv_heads"
    # Queries, keys and values in one tensor of the checkpoint.
    QKV = "qkv"


_ATTENTION = {
    Split.OUTPUT: frozenset(
        {"q_proj", "q_b_proj", "kv_b_proj", "wq", "g_proj", "gate_proj", "q_conv1d", "k_conv1d", "v_conv1d"}
        | {"in_proj", "in_proj_qkvz", "in_proj_qkv", "in_proj_z", "in_proj_ba", "in_proj_a", "in_proj_b", "conv1d"}
        | {"b_proj", "f_b_proj", "g_b_proj", "A_log", "D", "dt_bias", "sinks", "attn_sinks"}
    ),
    Split.KV_HEADS: frozenset({"k_proj", "v_proj", "wk", "wv"}),
    Split.QKV: frozenset({"qkv_proj", "qkv", "W_pack", "query_key_value", "c_attn", "wqkv", "Wqkv"}),
    Split.INPUT: frozenset({"o_proj", "out_proj", "dense", "wo", "c_proj", "proj"}),
}
_MLP = {
    Split.OUTPUT: frozenset(
        {"gate_proj", "up_proj", "gate_up_proj", "w1", "w3", "fc1", "c_fc", "dense_h_to_4h", "linear_fc1", "gate"}
        | {"gate_and_up_proj", "input_linear", "up"}
    ),
    Split.INPUT: frozenset(
        {"down_proj", "w2", "fc2", "c_proj", "dense_4h_to_h", "linear_fc2", "output_linear", "down"}
    ),
}
# A vision tower's names are those of both; its projector is two layers that follow each other.
_VISION = {
    Split.OUTPUT: _MLP[Split.OUTPUT] | frozenset({"q_proj", "k_proj", "v_proj", "qkv", "qkv_proj", "wqkv"}),
    Split.INPUT: _MLP[Split.INPUT] | frozenset({"proj", "o_proj", "out_proj", "wo"}),
}
_SPLITS = {
    ATTENTION: _ATTENTION,
    DENSE: _MLP,
    SHARED_EXPERT: _MLP,
    EXPERT: _MLP,
    VISION: _VISION,
    PROJECTOR: _VISION,
    # Quantised heads and the scales of heads; whole ones are padded (weights_shared.py).
    LM_HEAD: {Split.OUTPUT: frozenset({"lm_head", "output", "embed_out", "output_layer"})},
}
# GPTQ, AWQ and their kin keep a layer's matrix with its input side first.
_INPUT_FIRST = frozenset({"qweight", "qzeros", "scales", "g_idx"})
# They stay float32 whatever the model computes in (MoEGate, RadixLinearAttention, FP8 scales of blocks and channels).
_KEPT_FLOAT32 = frozenset({"e_score_correction_bias", "A_log", "weight_scale_inv"})
_FLOAT_BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16}
BLOCK_ROWS = 128
MXFP4_WIDTH, MXFP4_BLOCK = 64, 32


def split_of(name: str, part: str) -> Split:
    """Whole where the name is not known to be split."""
    components = name.split(".")
    # The lightning indexer of DSA is replicated (layers/attention/dsa/dsa_indexer.py).
    if "indexer" in components:
        return Split.WHOLE
    for split, names in _SPLITS.get(part, {}).items():
        if _module(components) in names:
            return split
    return Split.WHOLE


def _module(components: Sequence[str]) -> str:
    """C(q_proj) of C(self_attn.q_proj.weight), C(gate_up_proj) of C(experts.gate_up_proj_blocks)."""
    last = components[-1]
    if components[-2:-1] == ["experts"]:
        for suffix in ("_blocks", "_scales", "_bias", "_scale_inv", "_scale", "_packed"):
            last = last.removesuffix(suffix)
        return last
    if last in ("A_log", "D", "dt_bias", "sinks", "attn_sinks"):
        return last
    return components[-2] if len(components) > 1 else last


def is_attention(name: str) -> bool:
    """Of a vision tower's tensor, whether it is one of its attention; some checkpoints leave that name out."""
    components = name.split(".")
    return "attn" in components or _module(components) in ("wqkv", "wo")


def stacked_experts(name: str) -> bool:
    """Whether all experts of a layer are one tensor, experts first."""
    components = name.split(".")
    position = components.index("experts") if "experts" in components else -1
    return position >= 0 and components[position + 1 : position + 2] != ["*"]


@dataclass(frozen=True)
class Share:
    """How a layout divides the tensors of one group; C(heads) are those of queries and of keys."""

    split: Split
    divisor: int
    expert_divisor: int = 1
    redundant_experts: int = 0
    heads: tuple[int | None, int | None] = (None, None)


@dataclass(frozen=True)
class Keeping:
    """What SGLang does to quantised weights after it has read them."""

    method: str | None = None
    act_order: bool = False
    symmetric: bool = True
    # DeepGEMM on Blackwell: an exponent a row and block instead of a float32 a block.
    packed_scales: bool = False
    # Block scales of NVFP4 experts are held twice.
    scale_copies: bool = False
    # This architecture's router is float32 whatever the checkpoint has.
    float32_router: bool = False


def held_bytes(group: TensorGroup, share: Share, keeping: Keeping) -> int:
    """Bytes of one tensor of a group on one rank."""
    if group.shape is None:
        return group.tensor_bytes
    parameter = group.name.rsplit(".", 1)[-1]
    if _dropped(parameter, keeping):
        return 0
    first = 1 if stacked_experts(group.name) else 0
    shape = list(group.shape)
    if first and shape:
        shape[0] = ceiling(shape[0] + share.redundant_experts, share.expert_divisor)
    bits = _element_bits(group, parameter, keeping)
    if keeping.method == "mxfp4" and first:
        return math.prod(_padded_mxfp4(shape, share)) * bits // 8
    if share.split is Split.QKV:
        return _qkv_bytes(math.prod(shape) * bits // 8, share)
    repeated = keeping.act_order and share.split is Split.INPUT and parameter in ("scales", "qzeros")
    side = None if repeated else _side(shape, share.split, parameter, first)
    if side is not None:
        shape[side] = ceiling(shape[side], share.divisor)
    if keeping.packed_scales and parameter == "weight_scale_inv" and len(shape) - first == 2:
        # requant_block_scale_ue8m0_for_deepgemm: a row of exponents for each row of weights, four to a number.
        return math.prod(shape[:-1]) * BLOCK_ROWS * ceiling(shape[-1], 4) * 4
    size = math.prod(shape) * bits // 8
    # With act order Marlin keeps the order itself beside the index.
    twice = parameter == "g_idx" or (keeping.scale_copies and group.scale and group.dtype == "F8_E4M3")
    return size * 2 if twice else size


def _dropped(parameter: str, keeping: Keeping) -> bool:
    """Marlin empties what it does not read (C(process_weights_after_loading) of GPTQ)."""
    if keeping.method not in ("gptq", "gptq_marlin", "auto-round"):
        return False
    return not keeping.act_order if parameter == "g_idx" else parameter == "qzeros" and keeping.symmetric


def _side(shape: Sequence[int], split: Split, parameter: str, first: int) -> int | None:
    """The side that is divided; None where the tensor does not have it, as a bias has no input."""
    sides = len(shape) - first
    if split is Split.WHOLE or sides < 1:
        return None
    along_input = split is Split.INPUT
    if sides == 1:
        # An index has an entry an input, everything else of one side an entry an output.
        side = first if along_input == (parameter == "g_idx") else None
    elif parameter in _INPUT_FIRST:
        side = first if along_input else len(shape) - 1
    else:
        side = first + 1 if along_input else first
    return side if side is not None and shape[side] > 1 else None


def _qkv_bytes(size: int, share: Share) -> int:
    """Queries are divided, keys and values down to one head."""
    queries, keys = share.heads
    if not queries or not keys:
        return ceiling(size, share.divisor)
    held = queries + 2 * max(keys, share.divisor)
    return ceiling(size * held, share.divisor * (queries + 2 * keys))


def _padded_mxfp4(shape: Sequence[int], share: Share) -> list[int]:
    """Mxfp4MoEMethod.create_weights (layers/quantization/mxfp4.py): a rank's width is rounded up to 64."""
    sides = list(shape)
    if share.split is Split.OUTPUT and len(sides) > 1:
        # Gate and up in one.
        sides[1] = 2 * round_up(ceiling(sides[1] // 2, share.divisor), MXFP4_WIDTH)
    elif share.split is Split.INPUT and len(sides) > 2:
        # [experts, rows, blocks] or [experts, rows, blocks, bytes of a block].
        width = round_up(ceiling(sides[2] * MXFP4_BLOCK, share.divisor), MXFP4_WIDTH)
        sides[2] = width // MXFP4_BLOCK
    return sides


def _element_bits(group: TensorGroup, parameter: str, keeping: Keeping) -> int:
    """Floats of 16 bits and more become the model's type unless SGLang keeps them in float32."""
    if group.dtype not in _FLOAT_BITS:
        elements = math.prod(group.shape or ())
        return group.tensor_bytes * 8 // elements if elements else 0
    if parameter in _KEPT_FLOAT32 or (group.part == ROUTER and keeping.float32_router):
        return 32
    return _FLOAT_BITS[group.dtype] if group.scale else 16


def ceiling(number: int, divisor: int) -> int:
    return -(-number // divisor)


def round_up(number: int, to: int) -> int:
    return ceiling(number, to) * to
