# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What differs between SGLang releases in speculative decoding, as data; a companion of versions.py.

Read in the wheels: server_args.py C(_handle_speculative_decoding) and C(auto_choose_speculative_params) (to 0.5.15),
arg_groups/speculative_hook.py after; configs/model_config.py C(_config_draft_model); managers/scheduler.py
C(_maybe_register_hicache_draft), later mem_cache/kv_cache_builder.py and hybrid_pool_assembler.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import parse_version, value_at

EAGLE, EAGLE3, NEXTN, STANDALONE, NGRAM = "EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM"

_ALGORITHMS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("0.4.7", (EAGLE, EAGLE3, NEXTN)),
    ("0.5.2", (EAGLE, EAGLE3, NEXTN, STANDALONE)),
    ("0.5.3", (EAGLE, EAGLE3, NEXTN, STANDALONE, NGRAM)),
    ("0.5.11", (EAGLE, EAGLE3, NEXTN, STANDALONE, NGRAM, "DFLASH")),
    ("0.5.12", (EAGLE, EAGLE3, NEXTN, STANDALONE, NGRAM, "DFLASH", "FROZEN_KV_MTP")),
    ("0.5.16", (EAGLE, EAGLE3, NEXTN, STANDALONE, NGRAM, "DFLASH", "FROZEN_KV_MTP", "DSPARK")),
    ("0.5.22", (EAGLE, EAGLE3, NEXTN, STANDALONE, NGRAM, "DFLASH", "FROZEN_KV_MTP", "DSPARK", "UNO")),
)
# What the others have that is not counted.
UNPLANNED_ALGORITHMS = {
    "DFLASH": "the draft's cache is of another shape than the target's, and its block is read from its configuration",
    "DSPARK": "its draft stages have pools of their own",
    "FROZEN_KV_MTP": "its draft reads the target's caches",
    "UNO": "its draft is an adapter of the target",
}

# auto_choose_speculative_params: (steps, top k, draft tokens).
_LONG, _SHORT = (5, 4, 8), (3, 1, 4)
_LONG_CLASSES = frozenset({"LlamaForCausalLM", "Grok1ForCausalLM", "Grok1VForCausalLM"})
_SHORT_CLASSES: tuple[tuple[str, frozenset[str]], ...] = (
    ("0.4.7", frozenset({"DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM"})),
    ("0.5.1", frozenset({"DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "GptOssForCausalLM"})),
    (
        "0.5.3",
        frozenset(
            {"DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM", "GptOssForCausalLM"}
            | {"BailingMoeForCausalLM", "BailingMoeV2ForCausalLM"}
        ),
    ),
    (
        "0.5.7",
        frozenset(
            {"DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM", "GptOssForCausalLM"}
            | {"BailingMoeForCausalLM", "BailingMoeV2ForCausalLM", "Glm4MoeForCausalLM", "MistralLarge3ForCausalLM"}
            | {"PixtralForConditionalGeneration", "MiMoV2FlashForCausalLM"}
        ),
    ),
)
# What a model class that is not listed gets.
_OTHER_CLASSES = (("0.4.7", _LONG), ("0.5.8", _SHORT))
# max_running_requests is set to this for every algorithm unless it is given.
DEFAULT_RUNNING_REQUESTS = 48
DEFAULT_NGRAM_DRAFT_TOKENS = 12

# Model classes whose own layers may draft (_config_draft_model), with the first release that does it. True where the
# draft is given one layer whatever the configuration says (MiMoV2MTP and Step3p5MTP through model_runner.py).
_OWN_LAYERS: dict[str, tuple[str, bool]] = {
    "DeepseekV3ForCausalLM": ("0.4.7", False),
    "MiMoForCausalLM": ("0.4.7", False),
    "Glm4MoeForCausalLM": ("0.4.10", False),
    "Ernie4_5_MoeForCausalLM": ("0.5.0rc2", False),
    "LongcatFlashForCausalLM": ("0.5.2", False),
    "Qwen3NextForCausalLM": ("0.5.2", True),
    "BailingMoeForCausalLM": ("0.5.3", False),
    "BailingMoeV2ForCausalLM": ("0.5.3", False),
    "MiMoV2FlashForCausalLM": ("0.5.7", True),
    "Glm4MoeLiteForCausalLM": ("0.5.8", False),
    "NemotronHForCausalLM": ("0.5.8", True),
    "GlmMoeDsaForCausalLM": ("0.5.9", False),
    "GlmOcrForConditionalGeneration": ("0.5.9", False),
    "Step3p5ForCausalLM": ("0.5.9", True),
    "BailingMoeV2_5ForCausalLM": ("0.5.9", False),
    "Qwen3_5ForConditionalGeneration": ("0.5.9", True),
    "Qwen3_5MoeForConditionalGeneration": ("0.5.9", True),
    "ExaoneMoEForCausalLM": ("0.5.9", True),
    "MiMoV2ForCausalLM": ("0.5.11", True),
    "HYV3ForCausalLM": ("0.5.11", True),
    "DeepseekV32ForCausalLM": ("0.5.12", False),
    "Step3p7ForConditionalGeneration": ("0.5.13", True),
    "Qwen3MoeForCausalLM": ("0.5.13", True),
    "Qwen3_5ForCausalLM": ("0.5.17", True),
    "Qwen3_5MoeForCausalLM": ("0.5.17", True),
    "BailingMoeV3ForCausalLM": ("0.5.19", False),
    "ExaoneMoeForCausalLM": ("0.5.22", True),
}
# The path of the draft becomes the target's by itself, so that the draft is read as one; the others' budget is taken of
# the target's configuration, and not at all before _COUNTS_TARGET.
_OWN_PATH: dict[str, str] = {
    "DeepseekV3ForCausalLM": "0.4.7",
    "Glm4MoeForCausalLM": "0.4.10",
    "DeepseekV32ForCausalLM": "0.5.3",
    "BailingMoeForCausalLM": "0.5.3",
    "BailingMoeV2ForCausalLM": "0.5.3",
    "Glm4MoeLiteForCausalLM": "0.5.8",
    "GlmMoeDsaForCausalLM": "0.5.9",
    "BailingMoeV2_5ForCausalLM": "0.5.9",
    "HYV3ForCausalLM": "0.5.11",
}
# model_runner_components/spec_aux_hidden_state.py: num_nextn_predict_layers of the target is counted without a path.
_COUNTS_TARGET = (("0.4.7", False), ("0.5.20", True))
# Their configurations have no num_nextn_predict_layers: the layers are told under mtp_num_hidden_layers, or not at all.
WITHOUT_THE_KEY = frozenset(
    {"Qwen3NextForCausalLM", "Qwen3MoeForCausalLM", "MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM"}
    | {"Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration"}
    | {"Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM"}
)

# models/qwen3_5_mtp.py: the head of their own layers is the embedding where the checkpoint ties the two; the other
# drafts have one of their own all the same.
TIED_OWN_HEAD = frozenset(
    {"Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration"}
    | {"Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM"}
)

# managers/scheduler.py init_memory_pools: pools are sized after the draft's weights are loaded, too.
_COUNTS_DRAFT_WEIGHTS = (("0.4.7", False), ("0.5.14", True))

# States with a radix cache: 3 slots a running request, and those that a request tracks beside its own
# (mamba_scheduler_strategy, later mamba_radix_cache_strategy; _calculate_mamba_ratio). C(auto) is no_buffer to 0.5.13,
# then extra_buffer for the classes that know it.
NO_BUFFER, EXTRA_BUFFER, EXTRA_BUFFER_LAZY = "no_buffer", "extra_buffer", "extra_buffer_lazy"
_TRACKING_SLOTS = {NO_BUFFER: 0, EXTRA_BUFFER: 2, EXTRA_BUFFER_LAZY: 1}
_AUTO_BUFFER = (("0.4.7", NO_BUFFER), ("0.5.14", EXTRA_BUFFER))
# _validate_mamba_no_buffer, _validate_mamba_extra_buffer.
_CHECKS_STRATEGY = (("0.4.7", False), ("0.5.14", True))
_KNOWS_BUFFER: dict[str, tuple[str, str | None]] = {
    "Qwen3NextForCausalLM": ("0.5.14", None),
    "Qwen3_5ForConditionalGeneration": ("0.5.14", None),
    "Qwen3_5MoeForConditionalGeneration": ("0.5.14", None),
    "BailingMoeV2_5ForCausalLM": ("0.5.14", None),
    "FalconH1ForCausalLM": ("0.5.14", "0.5.19"),
    "GraniteMoeHybridForCausalLM": ("0.5.14", "0.5.18"),
    "NemotronHForCausalLM": ("0.5.14", "0.5.18"),
    "KimiLinearForCausalLM": ("0.5.16", None),
    "Qwen3_5ForCausalLM": ("0.5.19", None),
    "Qwen3_5MoeForCausalLM": ("0.5.19", None),
    "BailingMoeV3ForCausalLM": ("0.5.19", "0.5.22"),
}
# MAMBA_CACHE_SIZE_MAX_RUNNING_REQUESTS_RATIO.
STATE_SLOTS_A_REQUEST = 3


@dataclass(frozen=True)
class SpeculationFacts:
    """Speculative decoding of one release."""

    algorithms: tuple[str, ...]
    counts_draft_weights: bool


def speculation_facts(version: str) -> SpeculationFacts:
    release = parse_version(version)
    return SpeculationFacts(value_at(_ALGORITHMS, release), value_at(_COUNTS_DRAFT_WEIGHTS, release))


def default_lengths(version: str, architecture: str, algorithm: str) -> tuple[int, int, int]:
    """(steps, top k, draft tokens) that a release takes where none of them is given."""
    release = parse_version(version)
    if algorithm == STANDALONE:
        return _SHORT
    if architecture in _LONG_CLASSES:
        return _LONG
    return _SHORT if architecture in value_at(_SHORT_CLASSES, release) else value_at(_OTHER_CLASSES, release)


def own_draft_layers(version: str, architecture: str, configured: int | None) -> int | None:
    """Layers of the draft that a model brings with it; None where the release does not draft with them.

    C(configured) is what the model's configuration says of them, 0 is answered where it says nothing that counts.
    """
    since, one = _OWN_LAYERS.get(architecture, (None, False))
    if since is None or parse_version(version) < parse_version(since):
        return None
    return 1 if one else configured or 0


def counted_own_layers(version: str, architecture: str, configured: int | None, path_given: bool) -> int | None:
    """How many of a model's own draft layers a release that counts drafts puts into its budget."""
    release = parse_version(version)
    since = _OWN_PATH.get(architecture)
    if path_given or (since is not None and parse_version(since) <= release):
        return own_draft_layers(version, architecture, configured)
    if value_at(_COUNTS_TARGET, release) and architecture not in WITHOUT_THE_KEY:
        return configured
    return None


def state_strategy(version: str, architecture: str, strategy: str | None) -> str:
    """How a release keeps the states of a model class with a radix cache; C(strategy) is what was asked for."""
    release = parse_version(version)
    if strategy not in (None, "auto"):
        return str(strategy)
    in_force = value_at(_AUTO_BUFFER, release)
    if in_force == EXTRA_BUFFER:
        first, last = _KNOWS_BUFFER.get(architecture, ("", None))
        known = first and parse_version(first) <= release and (last is None or release.base <= parse_version(last))
        return EXTRA_BUFFER if known else NO_BUFFER
    return in_force


def checks_state_strategy(version: str) -> bool:
    """Whether a release ends its start where the strategy and other settings disagree; before, it rewrites them."""
    return value_at(_CHECKS_STRATEGY, parse_version(version))


def state_slots_a_request(version: str, architecture: str, strategy: str | None) -> int:
    """State slots that a release keeps for each running request with a radix cache."""
    return STATE_SLOTS_A_REQUEST + _TRACKING_SLOTS.get(state_strategy(version, architecture, strategy), 0)
