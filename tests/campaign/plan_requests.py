# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests of plans that nobody has thought of: machines, models of every family, releases, layouts and settings.

The dice are those of the caller: C(random.Random), or what hypothesis draws and then makes smaller.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architectures import ARCHITECTURES
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import EXAMINED, parse_version

T = TypeVar("T")
GIB = 1 << 30
# Memory of a card as nvidia-smi prints it in MiB, its compute capability, and what its name begins with.
BOARDS = (
    ("T4", 15360, "7.5"),
    ("L4", 23034, "8.9"),
    ("A10", 23028, "8.6"),
    ("L40S", 46068, "8.9"),
    ("A100", 81920, "8.0"),
    ("H100", 81559, "9.0"),
    ("RTX PRO 6000", 97887, "12.0"),
    ("H200", 143771, "9.0"),
    ("B200", 183359, "10.0"),
)


class Dice(Protocol):
    """What a request is drawn with."""

    def choice(self, values: Any) -> Any: ...

    def randint(self, least: int, most: int) -> int: ...


@dataclass(frozen=True)
class Drawn:
    """The same out of hypothesis, which finds the smallest request that breaks a rule."""

    draw: Any

    def choice(self, values: Any) -> Any:
        return self.draw(st.sampled_from(list(values)))

    def randint(self, least: int, most: int) -> int:
        return int(self.draw(st.integers(least, most)))


def _attention(dice: Dice, family: str) -> dict[str, Any]:
    """Facts of an attention, of sizes as the models of its family have them."""
    layers = dice.randint(4, 96)
    heads = dice.choice((8, 16, 32, 64, 128))
    facts: dict[str, Any] = {
        "family": family,
        "num_layers": layers,
        "num_attention_heads": heads,
        "num_kv_heads": heads,
        "head_dim": dice.choice((64, 80, 128, 192, 256)),
    }
    if family == "gqa":
        facts["num_kv_heads"] = dice.choice([size for size in (2, 4, 8) if size < heads])
    elif family == "mqa":
        facts["num_kv_heads"] = 1
    if family in ("mla", "dsa", "linear_mla"):
        facts.update(kv_lora_rank=dice.choice((256, 512)), qk_rope_head_dim=dice.choice((32, 64)), v_head_dim=128)
    if family == "dsa":
        facts["index"] = {"layers": list(range(layers)), "head_dim": 128}
    if family == "sparse":
        facts["num_kv_heads"] = dice.choice((2, 4, 8))
        # Keys with values have no host pool.
        chosen = list(range(layers))[dice.choice((1, 3)) :]
        facts["index"] = {
            "layers": chosen,
            "head_dim": dice.choice((64, 128)),
            "value_layers": dice.choice(([], [], [], chosen[:2])),
        }
    full = [layer for layer in range(layers) if layer % dice.choice((2, 4)) == 0]
    others = [layer for layer in range(layers) if layer not in full]
    if family == "swa":
        facts["num_kv_heads"] = dice.choice((1, 2, 4, 8))
        facts["full_layers"] = full
        facts["window"] = {
            "layers": others,
            "num_kv_heads": facts["num_kv_heads"],
            "head_dim": facts["head_dim"],
            "v_head_dim": facts["head_dim"],
            "tokens": dice.choice((128, 512, 4096)),
        }
    if family in ("linear", "linear_mla"):
        state_heads = dice.choice((16, 32, 64))
        facts["full_layers"] = full
        facts["state"] = {
            "layers": others,
            "intermediate_size": state_heads * 128,
            "num_groups": 16,
            "num_heads": state_heads,
            "head_dim": 128,
            "state_size": 128,
            "conv_kernel": 4,
            "dtype": dice.choice(("float32", "bfloat16")),
        }
    return facts


# A class of each family: its pools follow the facts and not the name, but the first release does not.
CLASSES = {
    "mha": "LlamaForCausalLM",
    "gqa": "Qwen3ForCausalLM",
    "mqa": "GemmaForCausalLM",
    "mla": "DeepseekV3ForCausalLM",
    "dsa": "DeepseekV32ForCausalLM",
    "swa": "GptOssForCausalLM",
    "linear": "Qwen3NextForCausalLM",
    "linear_mla": "KimiLinearForCausalLM",
    "sparse": "MiniMaxM3SparseForCausalLM",
}


def _topology(dice: Dice, ranks: int) -> dict[str, Any]:
    """A machine with at least so many GPUs, all of one board, spread over its nodes."""
    name, mib, capability = dice.choice(BOARDS)
    count = dice.choice([size for size in (1, 2, 4, 8, 16) if size >= ranks])
    nodes = dice.choice((1, 2, 4, 8))
    memory = dice.randint(16, 4096) * 1_000_000_000 + dice.randint(0, 999_999_999)
    return {
        "gpus": [
            {
                "index": index,
                "name": name,
                "numa_node": index * nodes // count,
                "memory_total_bytes": mib << 20,
                "compute_capability": capability,
            }
            for index in range(count)
        ],
        "numa_nodes": [{"id": node, "memory_available_bytes": memory // nodes} for node in range(nodes)],
        "host": {
            "memory_available_bytes": memory,
            "cgroup_available_bytes": dice.choice((None, None, None, memory // 2)),
        },
    }


def _fraction(dice: Dice) -> dict[str, Any]:
    """The share of a card that is given, left to the release, or found for a goal."""
    way = dice.choice(("given",) * 10 + ("left", "left", "auto", "leave", "target"))
    if way == "auto":
        return {"mem_fraction_auto": True}
    if way == "leave":
        return {"leave_bytes": dice.randint(0, 20 * GIB)}
    if way == "target":
        return {"target_tokens": dice.randint(1, 4_000_000)}
    return {"mem_fraction_static": None if way == "left" else dice.randint(700, 950) / 1000}


def _hicache(dice: Dice, release: str, family: str) -> dict[str, Any]:
    # Releases from 0.5.14 on to 0.5.15 keep states in no other layout.
    layout = {"mem_layout": "page_first_direct"} if family in ("linear", "linear_mla") else {}
    return {**_sizing(dice, release), **layout}


def _sizing(dice: Dice, release: str) -> dict[str, Any]:
    ways = ["off", "ratio", "ratio", "ratio", "ratio", "size", "size", "auto", "leave", "target"]
    if parse_version(release) >= parse_version("0.5.21"):
        ways.append("fraction")
    way = dice.choice(ways)
    if way == "off":
        return {"enabled": False}
    if way == "size":
        return {"size_gb": dice.randint(1, 400)}
    if way == "fraction":
        return {"host_memory_fraction": dice.randint(1, 95) / 100}
    if way == "auto":
        return {"auto": True}
    if way == "leave":
        return {"leave_bytes": dice.randint(0, 500) * 1_000_000_000}
    if way == "target":
        return {"target_tokens": dice.randint(1, 20_000_000)}
    return {"ratio": dice.randint(20, 1200) / 100}


def _speculative(dice: Dice, family: str) -> dict[str, Any] | None:
    """A draft: of one layer of its own for plain heads, the target's own layers for latent caches."""
    if family not in ("gqa", "mla") or dice.randint(1, 4) < 4:
        return None
    steps = dice.choice((1, 3))
    asked = {"num_steps": steps, "eagle_topk": 1, "num_draft_tokens": steps + 1}
    if family == "mla":
        return {"algorithm": "NEXTN", **asked}
    draft = {
        "architecture": "LlamaForCausalLMEagle3",
        "dtype": "bfloat16",
        "attention": {"num_layers": 1, "num_attention_heads": 32, "num_kv_heads": 8, "head_dim": 128},
        "weights": {"total_bytes": 10**9},
    }
    return {"algorithm": "EAGLE3", "model": draft, "model_path": "/srv/models/draft", **asked}


def any_request(dice: Dice) -> dict[str, Any]:
    """Arguments of memory_plan. Most can be planned, some are refused."""
    family = dice.choice(sorted(CLASSES))
    attention = _attention(dice, family)
    since = parse_version(ARCHITECTURES[CLASSES[family]].since)
    earliest = parse_version("0.5.3" if family in ("mha", "gqa", "mqa", "mla") else "0.5.13")
    release = str(dice.choice([version for version in EXAMINED if version >= max(since, earliest)]))
    stages = 1 if family not in ("mha", "gqa", "mla") else dice.choice((1, 1, 1, 2))
    ranks = dice.choice((1, 2, 4, 8))
    speculative = _speculative(dice, family) if stages == 1 else None
    groups = dice.choice((1, 1, 1, *[size for size in (2, 4) if ranks % size == 0]))
    topology = _topology(dice, ranks * stages)
    card = topology["gpus"][0]["memory_total_bytes"]
    structure = {"num_nextn_layers": 1} if speculative and "model" not in speculative else None
    flags: dict[str, Any] = {}
    if "state" in attention:
        flags["max-mamba-cache-size"] = dice.choice((None, 64, 512))
    return {
        "sglang_version": release,
        "model": {
            "architecture": CLASSES[family],
            "dtype": "bfloat16",
            "attention": attention,
            **({"structure": structure} if structure else {}),
            "weights": {"total_bytes": dice.randint(1, 6 * ranks * stages * card // 10)},
        },
        "topology": topology,
        "server": {
            "tensor_parallel_size": ranks,
            "pipeline_parallel_size": stages,
            "attention_data_parallel_size": groups,
            **_fraction(dice),
            "page_size": 64 if family == "dsa" else dice.choice((1, 16, 64)),
            "kv_cache_dtype": dice.choice(("auto", "auto", "fp8_e4m3")),
            "max_total_tokens": dice.choice((None, None, dice.randint(1, 4_000_000))),
            "extra_arguments": {flag: value for flag, value in flags.items() if value is not None},
        },
        "hicache": _hicache(dice, release, family),
        **({"speculative": speculative} if speculative else {}),
    }


@st.composite
def requests(draw: Any) -> dict[str, Any]:
    return any_request(Drawn(draw))


def seeded(seed: int) -> dict[str, Any]:
    """The request of a number, the same every time."""
    return any_request(random.Random(seed))
