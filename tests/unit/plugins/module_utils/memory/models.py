# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Models on paper for the tests of defaults."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import ModelFacts, model_facts

HEADS: dict[str, Any] = {
    "family": "gqa",
    "num_layers": 32,
    "num_attention_heads": 32,
    "num_kv_heads": 8,
    "head_dim": 128,
}
LATENTS: dict[str, Any] = {
    "family": "mla",
    "num_layers": 61,
    "num_attention_heads": 128,
    "num_kv_heads": 128,
    "head_dim": 192,
    "v_head_dim": 128,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
}
INDEXED: dict[str, Any] = {**LATENTS, "family": "dsa", "index": {"layers": list(range(61)), "head_dim": 128}}


def model_of(architecture: str = "LlamaForCausalLM", **more: Any) -> ModelFacts:
    attention = LATENTS if architecture.startswith(("Deepseek", "Kimi", "Glm")) else HEADS
    if "Sparse" in architecture:
        attention = {**HEADS, "family": "sparse", "index": {"layers": [3, 4], "head_dim": 128}}
    return model_facts({"architecture": architecture, "attention": attention, **more})
