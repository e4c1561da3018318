# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which model, layout and data type stands behind each recorded start, or why its pools cannot be computed.

Every row of startup-logs.json and ci-capacities.json is named here. The facts of the models are in configs/, or are
changed from one of them where the record is of a smaller model of the same kind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Start:
    """One recorded start: a model of configs/, what its own config.json has otherwise, and how it was run."""

    model: str
    ranks: int = 1
    dtype: str = "auto"
    changed: dict[str, Any] = field(default_factory=dict)
    state_dtype: str | None = None


QWEN2_72B = {"num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "hidden_size": 8192}
QWEN2_14B = {"num_hidden_layers": 48, "num_attention_heads": 40, "num_key_value_heads": 8, "hidden_size": 5120}
QWEN2_05B = {"num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "hidden_size": 896}
QWEN3_30B = {"num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "hidden_size": 2048}
QWEN3_8B = {"num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096}
# 32 layers, 8 of them full: the 9B of the family.
QWEN35_9B = {"num_hidden_layers": 32, "num_attention_heads": 16, "linear_num_value_heads": 32, "hidden_size": 4096}
XVERSE_MOE = {"num_hidden_layers": 28, "num_attention_heads": 32, "num_key_value_heads": 32, "hidden_size": 2560}
BGE_M3 = {"num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 16, "hidden_size": 1024}
LFM2_700M = {"hidden_size": 1536, "num_attention_heads": 24, "num_key_value_heads": 8}
MLA_OF_30_LAYERS = {"num_hidden_layers": 30}

STARTUPS: dict[str, Start | str] = {
    "sglang#1109": Start("llama-2-7b", changed=XVERSE_MOE),
    "sglang#1386": Start("qwen2.5-7b", 8, changed=QWEN2_72B),
    "sglang#1953": Start("qwen2.5-7b", 2, dtype="fp8_e5m2"),
    "sglang#2468": Start("mistral-7b"),
    "sglang#2527": Start("qwen2.5-7b", changed=QWEN2_05B),
    "sglang#3204": Start("deepseek-v2-lite", 8, changed={"num_hidden_layers": 60}),
    "sglang#3254": Start("deepseek-v3"),
    "sglang#3368": Start("deepseek-v3", 16),
    "sglang#3451": Start("deepseek-v2-lite"),
    "sglang#4094": Start("qwen2.5-7b"),
    "sglang#4257": Start("qwen2.5-7b", 2, changed=QWEN2_14B),
    "sglang#4351": Start("llama-3.3-70b", 2),
    "sglang#5637": Start("qwen2.5-7b", changed=QWEN2_14B),
    "sglang#6001": Start("deepseek-v3", 8),
    "sglang#6027": Start("deepseek-v3", 16),
    "sglang#744": Start("qwen2.5-7b", 2),
    "sglang#748": Start("qwen2.5-7b", 4, changed=QWEN2_72B),
    "sglang#7495": Start("qwen3-0.6b"),
    "sglang#7590": Start("llama-2-7b", changed=BGE_M3),
    "sglang#7847": Start("deepseek-v3", 1),
    "kimi-k25-tp8": Start("kimi-k2.5", 8),
    "dsv3-int8-ktransformers-tp2": Start("deepseek-v3", 2),
    "qwen3-235b-fp8-h100-tp4": Start("qwen3-235b-a22b", 4),
    "mimo-v2-flash-tp4-swa": Start("mimo-v2-flash", 4),
    "qwen3-30b-a3b-mi3xx-tp1": Start("qwen3-235b-a22b", changed=QWEN3_30B),
    "dsr1-fp8-h200-tp8-082": Start("deepseek-v3", 8),
    "qwen-nvfp4-2x5090-eagle": Start("qwen3.5-27b", 2, dtype="fp8_e4m3"),
    "hicache-glm52-w4afp8-tp8-size120": Start("glm-5", 8, dtype="fp8_e4m3"),
    "hicache-glm52-fp8-tp8-size96-mtp": Start("glm-5", 8, dtype="fp8_e4m3"),
    "hicache-dsa-tp4-ratio10-oom": Start("glm-5", 4, dtype="fp8_e4m3"),
    "hicache-dsa-tp4-ratio3": Start("glm-5", 4, dtype="fp8_e4m3"),
    "qwen38-27b-bf16-radixoff": Start("qwen3.5-27b"),
    "qwen38-27b-nvfp4-gb10": Start("qwen3.5-27b", dtype="fp8_e4m3"),
    "ling3-flash-fp8-gb10": Start("ling-3-flash"),
    "ling3-flash-fin-gb10": Start("ling-3-flash"),
    "granite-hybrid-16g": Start("granite-4.0-h-micro"),
    "lfm2-16g": Start("lfm2-1.2b", changed=LFM2_700M),
    "llama31-8b-80g-2025-01": Start("llama-3.1-8b"),
    "llama31-8b-h100-pr4760": Start("llama-3.1-8b"),
    "qwen3-0.6b-16g": Start("qwen3-0.6b"),
    "glm47-flash-ascend-tp2": Start("glm-4.7-flash", 2),
    "gemma4-e4b-swa-bf16": Start("gemma-4-e4b"),
    "dflash-speculative-oom": Start("qwen3.5-27b", changed=QWEN35_9B),
    "dsv4-flash-gb10-tp?-ep": "DeepSeek-V4 with a DSpark draft, which is refused by name; no fraction is told",
}

# By position, as one test file holds several launches. What a mean over different launches gives belongs to none.
CAPACITIES: tuple[Start | str, ...] = (
    Start("deepseek-v2-lite"),
    Start("llama-3.1-8b"),
    Start("llama-3.1-8b"),
    Start("deepseek-v2-lite", changed=MLA_OF_30_LAYERS),
    Start("llama-3.1-8b", dtype="fp8_e4m3"),
    Start("llama-3.1-8b"),
    "a mean over launches of several drafts: 525,792 bytes a token where Llama-2-7B takes 524,288",
    Start("gpt-oss-120b", 4),
    Start("qwen3.5-397b-a17b", 4, dtype="fp8_e4m3", state_dtype="bfloat16"),
    "the pool line of the draft: one layer of 512 bytes a token; the target's own line is not in the record",
    Start("llama-3.1-8b", dtype="fp8_e4m3"),
    Start("deepseek-v3", 4),
    Start("qwen3-0.6b", 2, changed=QWEN3_8B),
    Start("qwen3-0.6b", 2, changed=QWEN3_8B),
    "a mean over launches of several data types: 38,296 bytes a token; the next row is one of them",
    Start("qwen3-next-80b-a3b", state_dtype="bfloat16"),
    Start("llama-3.1-8b", 2),
    Start("gpt-oss-120b", 4),
    Start("gpt-oss-120b", 4),
    Start("qwen3-next-80b-a3b", 4),
    "the pool line of the draft: one layer of 1,024 bytes a token; the target's own line is not in the record",
    Start("deepseek-v3", 8),
    Start("glm-5", 8),
    Start("mimo-v2-flash", 4),
    Start("mimo-v2-flash", 2),
    Start("deepseek-v2-lite", changed=MLA_OF_30_LAYERS),
    "DeepSeek-V4 with the draft's rings: judged by the slots of its pools in test_compressed_records.py",
)
