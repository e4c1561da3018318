# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The facts of a model that the size of its caches depends on, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

# Plain heads, by how many query heads share a KV head; and latent attention.
FAMILY_MHA, FAMILY_GQA, FAMILY_MQA, FAMILY_MLA = "mha", "gqa", "mqa", "mla"
# Latent attention with an index of the tokens to attend to; heads with window layers; heads or latents with state
# layers; heads with an index.
FAMILY_DSA, FAMILY_SWA, FAMILY_LINEAR, FAMILY_LINEAR_MLA, FAMILY_SPARSE = "dsa", "swa", "linear", "linear_mla", "sparse"
# A window of every layer, and behind it vectors that stand for several tokens each.
FAMILY_COMPRESSED = "compressed"
FAMILIES = (
    FAMILY_MHA,
    FAMILY_GQA,
    FAMILY_MQA,
    FAMILY_MLA,
    FAMILY_DSA,
    FAMILY_SWA,
    FAMILY_LINEAR,
    FAMILY_LINEAR_MLA,
    FAMILY_SPARSE,
    FAMILY_COMPRESSED,
)
# Tokens that a compressed vector stands for; 0 is a window only. SGLang's pools take one shape of rows: elements
# without and with rotary positions, and those of an index key (deepseek_v4_memory_pool.py).
COMPRESSION_RATIOS = (0, 4, 128)
COMPRESSED_SHAPE = (448, 64, 128)
# No model has as many; more is a mistake, and a list of them would be endless.
MAX_LAYERS = 10_000


@dataclass(frozen=True)
class Window:
    """The layers that keep only a window of the tokens, in a pool of their own; C(tokens) is the window."""

    layers: tuple[int, ...]
    num_kv_heads: int
    head_dim: int
    v_head_dim: int
    tokens: int | None = None


@dataclass(frozen=True)
class Index:
    """The keys by which sparse attention finds the tokens to attend to.

    C(layers) compute their own choice; the other layers of latent models reuse it. C(value_layers) keep a value beside
    the key (MiniMax).
    """

    layers: tuple[int, ...]
    head_dim: int
    value_layers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Compressed:
    """Layers that keep a window of C(window_tokens) and, behind it, one vector for every so many tokens.

    C(ratios) are the tokens that one vector stands for, by layer, 0 for those with a window only; the layers with which
    the model drafts follow the others. Layers of ratio 4 choose among their vectors by an index.
    """

    ratios: tuple[int, ...]
    rope_head_dim: int
    index_head_dim: int
    window_tokens: int


@dataclass(frozen=True)
class State:
    """What a request keeps in the layers without keys and values: a convolution's tail and a recurrent state.

    One form for all: mamba2 as it is; gated delta networks with the value heads as heads and the key heads as groups;
    Kimi delta attention with as many groups as heads; lightning attention without a convolution; short convolutions
    without a recurrent state.
    """

    layers: tuple[int, ...]
    intermediate_size: int
    num_groups: int
    num_heads: int
    head_dim: int
    state_size: int
    conv_kernel: int
    dtype: str = "float32"


@dataclass(frozen=True)
class Attention:
    """What the size of the caches depends on; latent fields are None outside MLA.

    C(num_layers) counts all layers; C(full_layers) are those that keep every token, None where all do.
    """

    family: str
    num_layers: int
    num_attention_heads: int
    num_kv_heads: int
    head_dim: int
    v_head_dim: int
    kv_lora_rank: int | None = None
    qk_rope_head_dim: int | None = None
    full_layers: tuple[int, ...] | None = None
    window: Window | None = None
    index: Index | None = None
    state: State | None = None
    compressed: Compressed | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def latent(self) -> bool:
        return self.kv_lora_rank is not None

    @property
    def token_layers(self) -> tuple[int, ...]:
        """The layers that keep every token."""
        return tuple(range(self.num_layers)) if self.full_layers is None else self.full_layers


def family_of_heads(num_attention_heads: int, num_kv_heads: int) -> str:
    if num_kv_heads == 1 and num_attention_heads > 1:
        return FAMILY_MQA
    return FAMILY_MHA if num_kv_heads == num_attention_heads else FAMILY_GQA


def whole(config: Mapping[str, Any], key: str, architecture: str, least: int = 1, where: str | None = None) -> int:
    """A whole number under a key, or a refusal that names the key.

    C(where) is the option whose mapping C(config) is, None where it is what config.json holds.
    """
    value = config.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise Refusal(
            "model_config_incomplete",
            _found(architecture, key, value, where),
            f"Expected a whole number of {least} or more under {key}."
            if least != 1
            else f"Expected a whole number above 0 under {key}.",
            {"architecture": architecture, "key": key},
        )
    return value


def _found(architecture: str, key: str, value: object, where: str | None) -> str:
    return f"config.json of {architecture} has {key} = {value!r}." if where is None else f"{where}.{key} is {value!r}."


def layer_count(config: Mapping[str, Any], key: str, architecture: str, where: str | None = None) -> int:
    layers = whole(config, key, architecture, where=where)
    if layers > MAX_LAYERS:
        raise Refusal(
            "model_config_malformed",
            _found(architecture, key, layers, where),
            f"Expected at most {MAX_LAYERS} layers" + ("; check config.json." if where is None else "."),
            {"architecture": architecture, "key": key},
        )
    return layers


def check_compressed(architecture: str, attention: Attention) -> Attention:
    """Refuse compressed layers whose rows SGLang's pools do not take, or whose ratios were not read."""
    part = attention.compressed
    if part is None:
        return attention
    others = sorted(set(part.ratios) - set(COMPRESSION_RATIOS))
    shape = (attention.head_dim - part.rope_head_dim, part.rope_head_dim, part.index_head_dim)
    if others or shape != COMPRESSED_SHAPE:
        raise Refusal(
            "architecture_unplanned",
            f"This {architecture} has "
            + (
                f"layers of ratio {', '.join(map(str, others))}"
                if others
                else f"heads of {shape[0]} + {shape[1]} elements and index heads of {shape[2]}"
            )
            + ", whose pools the formulas of this release do not count.",
            f"Planned are ratios {', '.join(map(str, COMPRESSION_RATIOS))}, and heads of {COMPRESSED_SHAPE[0]} + "
            f"{COMPRESSED_SHAPE[1]} elements with index heads of {COMPRESSED_SHAPE[2]}.",
            {"architecture": architecture, "ratios": others, "shape": list(shape)},
        )
    return attention
