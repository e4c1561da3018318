# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which part of a model a tensor belongs to, told from its name alone; pure.

Names are those of checkpoints as the hub holds them, which SGLang maps in C(load_weights) of each models/*.py. A name
that says nothing is C(other): its bytes are counted, and a rank is taken to hold all of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

EMBEDDING, LM_HEAD, ATTENTION, DENSE, EXPERT, SHARED_EXPERT, ROUTER, NORM, VISION, AUDIO, PROJECTOR, MTP, OTHER = (
    "embedding",
    "lm_head",
    "attention",
    "dense",
    "expert",
    "shared_expert",
    "router",
    "norm",
    "vision",
    "audio",
    "projector",
    "mtp",
    "other",
)
# The coarse view: parts that most readers do not tell apart.
KIND_OF_PART = {LM_HEAD: EMBEDDING, SHARED_EXPERT: EXPERT, PROJECTOR: VISION}

_VISION = frozenset(
    {"vision_tower", "visual", "vision_model", "vision_encoder", "vision", "vit", "vpm", "image_newline"}
)
_AUDIO = frozenset(
    {"audio_tower", "audio_model", "audio_encoder", "speech_encoder", "embed_audio", "apm", "sound_encoder"}
)
_PROJECTOR = frozenset(
    {"mm_projector", "multi_modal_projector", "audio_projector", "aligner", "merger", "resampler", "embed_vision"}
    | {"patch_merger", "mlp1", "vision_language_adapter", "deepstack_merger_list", "audio_projection_layer"}
)
_MTP = frozenset({"mtp", "mtp_block", "mtp_layers", "nextn", "mtp_predictor", "eh_proj", "enorm", "hnorm"})
_SHARED = frozenset({"shared_experts", "shared_expert", "shared_mlp", "share_expert"})
_ROUTER = frozenset(
    {"router", "shared_expert_gate", "e_score_correction_bias", "router_bias", "expert_bias", "gate_proj_router"}
)
_ATTENTION = frozenset(
    {"self_attn", "self_attention", "attention", "attn", "cross_attn", "linear_attn", "linear_attention", "mamba"}
    | {"mixer", "conv", "indexer"}
)
_DENSE = frozenset({"mlp", "feed_forward", "ffn", "moe", "block_sparse_moe"})
_EMBEDDING = frozenset({"embed_tokens", "wte", "word_embeddings", "tok_embeddings", "embed_in", "embedding"})
_LM_HEAD = frozenset({"lm_head", "embed_out", "output_layer"})
# Between them and the module's own name stands the number of a layer.
_LAYERS = frozenset({"layers", "h", "blocks", "layer", "block"})
_SCALE_NAMES = frozenset(
    {"scales", "qzeros", "zeros", "g_idx", "absmax", "quant_map", "nested_absmax", "nested_quant_map", "SCB", "scb"}
    | {"weight_format", "weight_shape", "weight_zero_point", "weight_g_idx", "weight_scale_inv", "weight_scale_2"}
    | {"weight_global_scale", "input_global_scale", "pre_quant_scale", "input_zero_point", "smooth_scale", "qscale_act"}
    | {"qscale_weight", "weight_offset", "deq_scale", "quant_bias"}
)
_SCALE_SUFFIX = re.compile(r"_(scales?|scale_inv|scale_2|scales_and_zeros)$")
# These end alike and scale activations by training, not by quantisation.
_NO_SCALES = frozenset({"logit_scale", "layer_scale", "residual_scale", "per_dim_scale"})


@dataclass(frozen=True)
class Place:
    """Where a tensor stands: its part, its layer, its name with every number replaced by C(*)."""

    part: str
    layer: int | None
    pattern: str
    # Scales, zero points and their kin, which belong to the weight that they stand beside.
    scale: bool


def place(name: str, num_layers: int | None = None) -> Place:
    """C(num_layers) as the configuration has it: a decoder layer beyond them is one that only speculation loads."""
    components = name.split(".")
    layer: int | None = None
    pattern = []
    for position, component in enumerate(components):
        # Longer numbers are no layers, and turning them into one takes time.
        if component.isascii() and component.isdigit() and len(component) < 7:
            if layer is None and position and components[position - 1] in _LAYERS:
                layer = int(component)
            pattern.append("*")
        else:
            pattern.append(component)
    part = _part(components, layer, num_layers)
    # Only decoder layers are numbered as pipeline stages count them.
    decoder = part not in (VISION, AUDIO, PROJECTOR)
    return Place(part, layer if decoder else None, ".".join(pattern), is_scale(name))


def is_scale(name: str) -> bool:
    """Whether a tensor scales another one, rather than being a weight."""
    last = name.rsplit(".", 1)[-1]
    if last in _NO_SCALES:
        return False
    return last in _SCALE_NAMES or _SCALE_SUFFIX.search(last) is not None or ".quant_state." in name


def _part(components: list[str], layer: int | None, num_layers: int | None) -> str:
    found = frozenset(components)
    part = _encoder_part(components, found)
    if part is not None:
        return part
    if found & _MTP or (layer is not None and num_layers is not None and layer >= num_layers):
        return MTP
    return _decoder_part(components, found)


def _encoder_part(components: list[str], found: frozenset[str]) -> str | None:
    # The head of the name decides: a vision tower has layers, attention and norms of its own.
    head = frozenset(components[:3])
    if found & _PROJECTOR and not found & frozenset({"layers"}):
        return PROJECTOR
    if head & _VISION:
        return VISION
    return AUDIO if head & _AUDIO else None


def _decoder_part(components: list[str], found: frozenset[str]) -> str:
    # The module is what the parameter (weight, bias, scale) belongs to; fused experts have none.
    module = components[-2] if len(components) > 1 else components[-1]
    if found & _ROUTER or (module == "gate" and found & _DENSE):
        return ROUTER
    if "experts" in found:
        return EXPERT
    if found & _SHARED:
        return SHARED_EXPERT
    if _is_norm(module):
        return NORM
    if found & _ATTENTION:
        return _mixer_part(module) if "mixer" in found else ATTENTION
    if found & _DENSE:
        return DENSE
    if found & _LM_HEAD or components[0] == "output":
        return LM_HEAD
    if found & _EMBEDDING:
        return EMBEDDING
    return NORM if _is_norm(components[-1]) else OTHER


def _mixer_part(module: str) -> str:
    """Nemotron-H calls every layer's work a mixer: attention, state space or feed-forward."""
    return DENSE if module in ("up_proj", "down_proj", "gate_proj") else ATTENTION


def _is_norm(module: str) -> bool:
    return "norm" in module or module.startswith("ln_") or module in ("ln1", "ln2", "ln_f")
