# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What SGLang's own arithmetic is asked about each model of configs/: layouts, data types, drafts, caps and states.

Imports nothing that SGLang's own environment lacks, as record_oracle.py reads it there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architectures import ARCHITECTURES
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import parse_version

# What is free for the pools, before states: some GiB and an odd number of bytes.
BUDGET_BYTES = 40 * (1 << 30) + 12_345_678
PAGE_SIZE = 64
# The pools that are really allocated are of so many pages or states; host pools by this ratio and this size.
POOL_PAGES, STATE_SLOTS = 2, 3
HOST_RATIO, HOST_SIZE_GB = 2.0, 1

STATE_MODEL_TYPES = (
    "qwen3_next",
    "qwen3_5",
    "qwen3_5_moe",
    "kimi_linear",
    "bailing_hybrid",
    "nemotron_h",
    "falcon_h1",
    "granitemoehybrid",
    "lfm2",
)
WINDOW_MODEL_TYPES = ("gpt_oss", "llama4", "mimo_v2_flash", "step3p5", "gemma4")
INDEX_MODEL_TYPES = ("deepseek_v32", "glm_moe_dsa")
LATENT_MODEL_TYPES = (
    *INDEX_MODEL_TYPES,
    "deepseek_v2",
    "deepseek_v3",
    "kimi_k25",
    "glm4_moe_lite",
    "minicpm3",
    "longcat_flash",
)
SPARSE_NAME = "minimax-m3"
# Its pools are not of cells a token; compressed_cases.py has the questions about it.
COMPRESSED_MODEL_TYPE = "deepseek_v4"


@dataclass(frozen=True)
class Case:
    """One question; what is None is left to SGLang."""

    model: str
    tensor_parallel: int = 1
    attention_data_parallel: int = 1
    pipeline_parallel: int = 1
    stage: int = 0
    kv_cache_dtype: str = "auto"
    raw_index_rows: bool = False
    draft_layers: int = 0
    draft_tokens: int | None = None
    running_requests: int | None = None
    window_ratio: float = 0.8
    state_ratio: float = 0.9
    state_slots: int | None = None
    cap: int | None = None

    def asked(self) -> dict[str, Any]:
        """What is not left as it is by default."""
        default = asdict(Case(self.model))
        return {key: value for key, value in asdict(self).items() if key == "model" or value != default[key]}


def served(config: Mapping[str, Any], release: str) -> bool:
    """Whether the release has the model's class at all (test_families.py holds that table against the wheels)."""
    return parse_version(ARCHITECTURES[config["architectures"][0]].since) <= parse_version(release)


def cases_of(name: str, config: Mapping[str, Any], release: str) -> Iterator[Case]:
    if not served(config, release):
        return
    kind = str(config.get("model_type"))
    if kind == COMPRESSED_MODEL_TYPE:
        return
    states, windows, latent = kind in STATE_MODEL_TYPES, kind in WINDOW_MODEL_TYPES, kind in LATENT_MODEL_TYPES
    sparse = name == SPARSE_NAME
    yield Case(name)
    yield Case(name, tensor_parallel=4)
    yield Case(name, tensor_parallel=8, attention_data_parallel=2)
    yield Case(name, cap=100_000)
    if not sparse:
        # The type of the index keys beside it depends on the card; refused by name.
        yield Case(name, kv_cache_dtype="fp8_e4m3")
    if not latent:
        yield Case(name, kv_cache_dtype="fp8_e5m2")
    if kind in INDEX_MODEL_TYPES:
        yield Case(name, kv_cache_dtype="fp8_e4m3", raw_index_rows=True)
    if not windows:
        yield Case(name, pipeline_parallel=3, stage=0)
        yield Case(name, pipeline_parallel=3, stage=2)
    if states:
        yield Case(name, draft_layers=1, draft_tokens=4, running_requests=32)
        yield Case(name, draft_layers=1, draft_tokens=4, running_requests=32, state_slots=60)
        yield Case(name, state_slots=60)
        yield Case(name, state_ratio=0.5, tensor_parallel=4)
    else:
        yield Case(name, draft_layers=1)
        yield Case(name, draft_layers=3, tensor_parallel=4)
    if windows:
        yield Case(name, window_ratio=0.5)
        yield Case(name, window_ratio=1.0, tensor_parallel=4)
    if not (states or windows or sparse or kind in INDEX_MODEL_TYPES):
        newer = parse_version(release) >= parse_version("0.5.16")
        yield Case(name, kv_cache_dtype="fp4_mx_block16" if newer else "fp4_e2m1", tensor_parallel=4)
    if parse_version(release) >= parse_version("0.5.16") and not (
        latent or sparse or kind in ("kimi_linear", "bailing_hybrid")
    ):
        yield Case(name, kv_cache_dtype="mxfp8")
