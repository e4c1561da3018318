#!/usr/bin/env python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the rehearsal's language model: a Llama with grouped-query attention and random weights, a few megabytes.

Needs nothing beside Python: the safetensors container is a length, a JSON header and raw numbers, and the tokenizer is
byte-level with no merges, so both are written directly. The same seed gives the same bytes, and a file that is already
right is left alone, so a folder that a node has mounted stays valid.

What the model says is noise, but noise that depends on every token before it: the same prompt must give the same text
whether its keys and values were computed, found on the device or loaded back from the host.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import string
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LAYERS = 4
ATTENTION_HEADS = 4
KV_HEADS = 2
HEAD_DIM = 128
HIDDEN = 256
INTERMEDIATE = 512
POSITIONS = 8192
SHARDS = 2
# Zero rows of the output layer score zero, and the best of many random rows scores more: the model never ends its own
# turn, and says letters, digits and spaces only, so that its text survives any decoder.
SPEAKABLE = string.ascii_letters + string.digits + " "
SPECIALS = ("<pad>", "<s>", "</s>")
# A multiple of 64, as SGLang pads the vocabulary of every rank to (layers/vocab_parallel_embedding.py).
VOCABULARY = 320
BF16_BYTES = 2

CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def byte_symbols() -> list[str]:
    """The printable character that stands for each byte in a byte-level vocabulary (GPT-2's table).

    Printable Latin-1 stands for itself; the others take the code points from 256 on, in order.
    """
    own = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)}
    symbols = []
    beyond = 256
    for byte in range(256):
        if byte in own:
            symbols.append(chr(byte))
        else:
            symbols.append(chr(beyond))
            beyond += 1
    return symbols


def token_of(character: str) -> int:
    return len(SPECIALS) + ord(character)


def bf16(value: float) -> int:
    """Bits of the nearest bfloat16, that is the upper half of a float32, ties to even."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


class Normal:
    """Draws bfloat16 numbers of a normal distribution, as bytes.

    256 evenly likely quantiles stand for the distribution, so one random byte gives one number through two tables.
    """

    def __init__(self, generator: random.Random, deviation: float) -> None:
        self._generator = generator
        distribution = statistics.NormalDist(0.0, deviation)
        numbers = [bf16(distribution.inv_cdf((index + 0.5) / 256)) for index in range(256)]
        self._low = bytes(number & 0xFF for number in numbers)
        self._high = bytes(number >> 8 for number in numbers)

    def draw(self, count: int) -> bytes:
        drawn = self._generator.randbytes(count)
        numbers = bytearray(count * BF16_BYTES)
        numbers[0::2] = drawn.translate(self._low)
        numbers[1::2] = drawn.translate(self._high)
        return bytes(numbers)


Tensor = tuple[str, tuple[int, ...], bytes]


def tensors(seed: int) -> Iterator[Tensor]:
    """Every weight under the name that transformers gives it, in the order of the layers."""
    generator = random.Random(seed)

    def matrix(name: str, rows: int, columns: int, gain: float = 1.0) -> Tensor:
        # A deviation of 1/sqrt(columns) keeps the size of what passes through, so no layer is drowned by another.
        return name, (rows, columns), Normal(generator, gain * columns**-0.5).draw(rows * columns)

    def ones(name: str) -> Tensor:
        return name, (HIDDEN,), struct.pack("<H", bf16(1.0)) * HIDDEN

    yield "model.embed_tokens.weight", (VOCABULARY, HIDDEN), Normal(generator, 1.0).draw(VOCABULARY * HIDDEN)
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        yield ones(prefix + "input_layernorm.weight")
        # A gain makes the attention choose among the tokens before it; without one it would average them all away.
        yield matrix(prefix + "self_attn.q_proj.weight", ATTENTION_HEADS * HEAD_DIM, HIDDEN, gain=2.0)
        yield matrix(prefix + "self_attn.k_proj.weight", KV_HEADS * HEAD_DIM, HIDDEN, gain=2.0)
        yield matrix(prefix + "self_attn.v_proj.weight", KV_HEADS * HEAD_DIM, HIDDEN)
        yield matrix(prefix + "self_attn.o_proj.weight", HIDDEN, ATTENTION_HEADS * HEAD_DIM)
        yield ones(prefix + "post_attention_layernorm.weight")
        yield matrix(prefix + "mlp.gate_proj.weight", INTERMEDIATE, HIDDEN)
        yield matrix(prefix + "mlp.up_proj.weight", INTERMEDIATE, HIDDEN)
        yield matrix(prefix + "mlp.down_proj.weight", HIDDEN, INTERMEDIATE)
    yield ones("model.norm.weight")
    head = bytearray(VOCABULARY * HIDDEN * BF16_BYTES)
    row_bytes = HIDDEN * BF16_BYTES
    normal = Normal(generator, HIDDEN**-0.5)
    for character in SPEAKABLE:
        start = token_of(character) * row_bytes
        head[start : start + row_bytes] = normal.draw(HIDDEN)
    yield "lm_head.weight", (VOCABULARY, HIDDEN), bytes(head)


def safetensors(chosen: list[Tensor]) -> bytes:
    """The container of the safetensors format: u64 header length, JSON header padded to 8 bytes, data in order."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, shape, data in chosen:
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data for _name, _shape, data in chosen)


def weight_files(seed: int) -> Iterator[tuple[str, bytes]]:
    """Shards of about the same size, and the index that says which weight lies in which."""
    every = list(tensors(seed))
    total = sum(len(data) for _name, _shape, data in every)
    shards: list[list[Tensor]] = [[] for _shard in range(SHARDS)]
    passed = 0
    for tensor in every:
        shards[min(passed * SHARDS // total, SHARDS - 1)].append(tensor)
        passed += len(tensor[2])
    index: dict[str, str] = {}
    for number, chosen in enumerate(shards, start=1):
        file_name = f"model-{number:05d}-of-{SHARDS:05d}.safetensors"
        index.update((name, file_name) for name, _shape, _data in chosen)
        yield file_name, safetensors(chosen)
    yield "model.safetensors.index.json", as_json({"metadata": {"total_size": total}, "weight_map": index})


def as_json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def config() -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": SPECIALS.index("<s>"),
        "dtype": "bfloat16",
        "eos_token_id": SPECIALS.index("</s>"),
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "initializer_range": 0.02,
        "intermediate_size": INTERMEDIATE,
        "max_position_embeddings": POSITIONS,
        "mlp_bias": False,
        "num_attention_heads": ATTENTION_HEADS,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": KV_HEADS,
        "pad_token_id": SPECIALS.index("<pad>"),
        "rms_norm_eps": 1e-05,
        "rope_theta": 500000.0,
        "tie_word_embeddings": False,
        "use_cache": True,
        "vocab_size": VOCABULARY,
    }


def tokenizer() -> dict[str, Any]:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    vocabulary = {token: number for number, token in enumerate([*SPECIALS, *byte_symbols()])}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": number,
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for number, token in enumerate(SPECIALS)
        ],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocabulary,
            "merges": [],
        },
    }


def tokenizer_config() -> dict[str, Any]:
    return {
        "bos_token": "<s>",
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "eos_token": "</s>",
        "model_max_length": POSITIONS,
        "pad_token": "<pad>",
        "tokenizer_class": "PreTrainedTokenizerFast",
    }


def files(seed: int) -> Iterator[tuple[str, bytes]]:
    """Every file of the model, by name."""
    yield "config.json", as_json(config())
    yield (
        "generation_config.json",
        as_json({key: value for key, value in config().items() if key.endswith("_token_id")}),
    )
    yield "tokenizer.json", as_json(tokenizer())
    yield "tokenizer_config.json", as_json(tokenizer_config())
    yield from weight_files(seed)


def put(path: Path, content: bytes) -> bool:
    """Writes a file, readable by every user, in one step; says whether anything had to change."""
    if path.is_file() and path.read_bytes() == content and path.stat().st_mode & 0o777 == 0o644:
        return False
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink()
        raise
    return True


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the model goes; made if absent")
    parser.add_argument("--seed", type=int, default=575, help="same seed, same bytes (default %(default)s)")
    chosen = parser.parse_args(arguments)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    chosen.folder.chmod(0o755)
    written = set()
    changed = 0
    for name, content in files(chosen.seed):
        changed += put(chosen.folder / name, content)
        written.add(name)
    for stray in sorted(path for path in chosen.folder.glob("*.safetensors") if path.name not in written):
        # A shard of an earlier layout would be loaded along with the others.
        stray.unlink()
        changed += 1
    sys.stdout.write(f"{chosen.folder}: {len(written)} files, {changed} changed\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
