#!/usr/bin/env python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Makes a small model of each attention family, for an SGLang that is started with --load-format dummy.

    python rehearsal/sglang_on_cpu/make_families.py rehearsal/sglang_on_cpu/families .build/rehearsal/families

Every file of the first folder describes one model: its facts, as config.json states them. The second folder gets a
folder for each, with config.json, the rehearsal's tokenizer and one weight, since a model folder without any is
refused. SGLang makes up the weights by itself, so that a model's caches can be had from its configuration alone: few
layers and experts, and the real sizes of heads, latents and states.
"""

from __future__ import annotations

import argparse
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

if not __package__:
    # Run as a program and not imported from the collection: the other maker is found beside it (PEP 366).
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    __package__ = "sglang_on_cpu"

from .make_model import POSITIONS, SPECIALS, VOCABULARY, as_json, bf16, put, safetensors, tokenizer, tokenizer_config

# What every language model states and no cache depends on.
COMMON: dict[str, Any] = {
    "bos_token_id": SPECIALS.index("<s>"),
    "eos_token_id": SPECIALS.index("</s>"),
    "pad_token_id": SPECIALS.index("<pad>"),
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "max_position_embeddings": POSITIONS,
    "rms_norm_eps": 1e-05,
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": VOCABULARY,
}


class FamilyError(Exception):
    """A description that cannot be made into a model."""


def families(folder: Path) -> dict[str, dict[str, Any]]:
    """The facts of every model described in the folder, by name."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.yml")):
        described = yaml.safe_load(path.read_text(encoding="utf-8"))
        facts = described.get("config") if isinstance(described, dict) else None
        if not isinstance(facts, dict) or not isinstance(facts.get("architectures"), list):
            raise FamilyError(f"{path} has no config with architectures")
        found[path.stem] = facts
    if not found:
        raise FamilyError(f"{folder} holds no *.yml")
    return found


def config(facts: dict[str, Any]) -> dict[str, Any]:
    """config.json of a model: the facts, over what all models have in common; also those of a nested text model."""
    made = {**COMMON, **facts}
    if isinstance(facts.get("text_config"), dict):
        made["text_config"] = {**COMMON, **facts["text_config"]}
    return made


def files(facts: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Every file of one model, by name."""
    yield "config.json", as_json(config(facts))
    yield "tokenizer.json", as_json(tokenizer())
    yield "tokenizer_config.json", as_json(tokenizer_config())
    width = int(config(facts).get("text_config", facts).get("hidden_size", 1))
    norm = struct.pack("<H", bf16(1.0)) * width
    yield "model.safetensors", safetensors([("model.norm.weight", (width,), norm)])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("descriptions", type=Path, help="the folder of descriptions, a file a model")
    parser.add_argument("folder", type=Path, help="where the models go, a folder each; made if absent")
    chosen = parser.parse_args(arguments)
    changed = 0
    try:
        described = families(chosen.descriptions)
    except FamilyError as error:
        parser.error(str(error))
    for name, facts in described.items():
        place = chosen.folder / name
        place.mkdir(parents=True, exist_ok=True)
        for folder in (chosen.folder, place):
            folder.chmod(0o755)
        changed += sum(put(place / file, content) for file, content in files(facts))
    sys.stdout.write(f"{chosen.folder}: {len(described)} models, {changed} files changed\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
