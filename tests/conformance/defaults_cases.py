# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the argument resolver of each release is asked: models, cards, layouts and options, as a list of cases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import yaml

CONFIGS = Path(__file__).resolve().parent / "configs"

# MiB as nvidia-smi prints them, and compute capability.
CARDS = {
    "t4": (15_360, (7, 5)),
    "rtx4080": (16_376, (8, 9)),
    "rtx4090": (24_564, (8, 9)),
    "rtx5090": (32_607, (12, 0)),
    "a100-40": (40_960, (8, 0)),
    "l40s": (46_068, (8, 9)),
    "h100": (81_559, (9, 0)),
    "a100-80": (81_920, (8, 0)),
    "h20": (97_871, (9, 0)),
    "rtxpro6000": (97_887, (12, 0)),
    "h200": (143_771, (9, 0)),
    "b200": (183_359, (10, 0)),
    "b300": (275_040, (10, 3)),
}
HEADS, LATENT = "llama-3.1-8b", "deepseek-v3"
# One of each model class that there is a configuration of, and Llama 2, whose name has a rule of its own.
MODELS = (
    "deepseek-v2-lite",
    "deepseek-v3",
    "deepseek-v3.2",
    "falcon-h1-7b",
    "gemma-2-9b",
    "gemma-2b",
    "gemma-3-27b",
    "gemma-4-e4b",
    "glm-4.7-flash",
    "glm-5",
    "gpt-oss-20b",
    "granite-4.0-h-small",
    "internvl3-8b",
    "kimi-k2.5",
    "kimi-linear-48b-a3b",
    "lfm2-1.2b",
    "ling-2.5",
    "ling-3-flash",
    "llama-2-7b",
    "llama-3.1-8b",
    "llama-3.2-11b-vision",
    "llama-4-scout",
    "longcat-flash",
    "mimo-v2-flash",
    "minicpm3-4b",
    "minimax-m2",
    "minimax-m3",
    "mistral-7b",
    "nemotron-nano-9b-v2",
    "qwen2.5-7b",
    "qwen2.5-vl-7b",
    "qwen3-0.6b",
    "qwen3-235b-a22b",
    "qwen3-next-80b-a3b",
    "qwen3-vl-8b",
    "qwen3.5-27b",
    "qwen3.5-397b-a17b",
    "step-3.5-flash",
)
# Hybrid, sparse, window and multimodal models, which have rules of their own.
MODELS_OF_THEIR_OWN = (
    "deepseek-v3.2",
    "gpt-oss-20b",
    "qwen3-next-80b-a3b",
    "qwen3.5-27b",
    "nemotron-nano-9b-v2",
    "llama-4-scout",
    "kimi-k2.5",
    "gemma-3-27b",
    "qwen2.5-vl-7b",
    "qwen3-vl-8b",
)

# Others whose class has a backend of its own on some cards.
RULED_ELSEWHERE = ("gemma-4-e4b", "glm-5", "granite-4.0-h-small", "mimo-v2-flash", "minimax-m3", "step-3.5-flash")


@dataclass(frozen=True)
class DefaultsCase:
    model: str
    card: str
    tp: int = 8
    pp: int = 1
    dp: int = 1
    ep: int = 1
    algorithm: str | None = None
    topk: int | None = None
    chunk: int | None = None
    running: int | None = None
    tokens: int | None = None
    context: int | None = None
    cache: str | None = None
    page: int | None = None
    hicache: bool = False
    environment: str | None = None
    flags: str | None = None  # further words of the command line

    @property
    def arguments(self) -> list[str]:
        """The command line that asks it."""
        given: dict[str, Any] = {
            "--tp-size": self.tp,
            "--pp-size": self.pp if self.pp > 1 else None,
            "--dp-size": self.dp if self.dp > 1 else None,
            "--ep-size": self.ep if self.ep > 1 else None,
            "--speculative-algorithm": self.algorithm,
            "--chunked-prefill-size": self.chunk,
            "--max-running-requests": self.running,
            "--max-total-tokens": self.tokens,
            "--context-length": self.context,
            "--kv-cache-dtype": self.cache,
            "--page-size": self.page,
        }
        if self.algorithm is not None and self.algorithm != "NGRAM":
            given |= {
                "--speculative-num-steps": 3,
                "--speculative-eagle-topk": self.topk or 1,
                "--speculative-num-draft-tokens": 4 * (self.topk or 1),
            }
        words = [word for flag, value in given.items() if value is not None for word in (flag, str(value))]
        words += ["--enable-dp-attention"] if self.dp > 1 else []
        words += ["--enable-hierarchical-cache"] if self.hicache else []
        return words + (self.flags or "").split()

    def asked(self) -> dict[str, Any]:
        """What differs from the defaults."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }


# One by one; on Blackwell only what can change its backend or page, on small cards what can change the sizes of steps.
OPTIONS: tuple[dict[str, Any], ...] = (
    {"dp": 8},
    {"dp": 2},
    {"pp": 2},
    {"tp": 1, "pp": 4},
    {"ep": 8},
    {"chunk": 1024},
    {"chunk": 32_768},
    {"chunk": -1},
    {"running": 16},
    {"running": 400},
    {"tokens": 3000},
    {"context": 4096},
    {"cache": "fp8_e4m3"},
    {"cache": "fp8_e5m2"},
    {"page": 16},
    {"page": 32},
    {"page": 64},
    {"hicache": True},
    {"algorithm": "EAGLE"},
    {"algorithm": "EAGLE", "topk": 4},
    {"algorithm": "NEXTN"},
    {"algorithm": "EAGLE3", "dp": 4},
    {"algorithm": "STANDALONE"},
    {"algorithm": "NGRAM"},
    {"dp": 4, "hicache": True},
)
# Flags that pass through a plan and change these defaults, with the model and the card where they can.
FLAGS = (
    ("qwen3-235b-a22b", "h200", "--moe-a2a-backend deepep"),
    (LATENT, "h200", "--moe-a2a-backend deepep"),
    (LATENT, "h200", "--moe-a2a-backend deepep --enable-two-batch-overlap"),
    (HEADS, "h200", "--disable-cuda-graph"),
    (HEADS, "h200", "--disable-piecewise-cuda-graph"),
    (HEADS, "h200", "--enable-piecewise-cuda-graph"),
    (HEADS, "h200", "--piecewise-cuda-graph-max-tokens 1000"),
    (HEADS, "h200", "--cuda-graph-max-bs 64"),
    (HEADS, "h200", "--cuda-graph-max-bs-decode 64 --cuda-graph-max-bs-prefill 1000"),
    (HEADS, "h200", "--chunked-prefill-size -1 --max-prefill-tokens 32768"),
    (HEADS, "h200", "--enable-torch-compile"),
    (HEADS, "h200", "--enable-symm-mem"),
    (HEADS, "h200", "--attention-backend triton"),
    (HEADS, "h200", "--prefill-attention-backend fa3 --decode-attention-backend flashinfer"),
    (HEADS, "b200", "--attention-backend fa4"),
    (HEADS, "b200", "--attention-backend trtllm_mha"),
    (LATENT, "h200", "--attention-backend flashmla"),
    (LATENT, "h200", "--attention-backend flashinfer"),
    (LATENT, "b200", "--attention-backend cutlass_mla"),
    (LATENT, "b200", "--attention-backend trtllm_mla"),
    ("gemma-3-27b", "h200", "--enable-multimodal"),
    ("qwen2.5-vl-7b", "h200", "--language-model-only"),
    ("qwen3-next-80b-a3b", "h200", "--disable-radix-cache"),
    ("qwen3-next-80b-a3b", "b200", "--mamba-scheduler-strategy extra_buffer"),
    ("qwen3-next-80b-a3b", "b200", "--mamba-radix-cache-strategy extra_buffer"),
)
_OF_BLACKWELL = ("cache", "page", "hicache", "algorithm")
_OF_STEPS = ("dp", "chunk", "running", "algorithm")


def read_config(model: str) -> dict[str, Any]:
    """Its config.json; those in the folder beside serve these questions alone."""
    apart = CONFIGS / "defaults" / f"{model}.yml"
    file = apart if apart.exists() else CONFIGS / f"{model}.yml"
    return dict(yaml.safe_load(file.read_text(encoding="utf-8"))["config"])


def _cases() -> Iterator[DefaultsCase]:
    """A covering set: each card, rank count, model and option at least once with whatever it can interact with."""
    # Every card, below and above four ranks, which the sizes of decode graphs tell apart.
    for card in CARDS:
        for tp in (1, 4):
            yield DefaultsCase(HEADS, card, tp)
    for card in ("rtx4090", "h100", "h200"):
        for tp in (2, 8, 16):
            yield DefaultsCase(HEADS, card, tp)
    for card in ("t4", "rtx4090", "a100-80", "rtxpro6000", "b300"):
        yield DefaultsCase(LATENT, card)
    # Every model on the cards that most of them are served on; those with rules of their own on the others, too.
    for model in MODELS:
        for card in ("h100", "b200"):
            yield DefaultsCase(model, card)
    for model in (*MODELS_OF_THEIR_OWN, *RULED_ELSEWHERE):
        for card in ("a100-80", "rtxpro6000"):
            yield DefaultsCase(model, card)
    for model in (HEADS, LATENT):
        for changed in OPTIONS:
            yield replace(DefaultsCase(model, "h200"), **changed)
            if any(name in changed for name in _OF_BLACKWELL):
                yield replace(DefaultsCase(model, "b200"), **changed)
    for changed in OPTIONS:
        if any(name in changed for name in _OF_STEPS):
            yield replace(DefaultsCase(HEADS, "rtx4090"), **changed)
    # Hybrid, sparse and window models under the options that change their backend.
    for model in MODELS_OF_THEIR_OWN:
        for changed in ({"algorithm": "EAGLE"}, {"hicache": True}):
            for card in ("h200", "b200"):
                yield replace(DefaultsCase(model, card), **changed)
        yield DefaultsCase(model, "h200", dp=8)
        yield DefaultsCase(model, "h200", pp=2, running=300)
        yield DefaultsCase(model, "b200", cache="fp8_e4m3")
    for model, card, flags in FLAGS:
        yield DefaultsCase(model, card, flags=flags)
    # Sizing after the capture, where a release can.
    for model in (HEADS, LATENT, "gemma-3-27b", "qwen3.5-27b"):
        yield DefaultsCase(model, "h200", environment="SGLANG_ENABLE_POST_CAPTURE_KV_SIZING=1")


def cases() -> list[DefaultsCase]:
    """Each question once."""
    return list(dict.fromkeys(_cases()))
