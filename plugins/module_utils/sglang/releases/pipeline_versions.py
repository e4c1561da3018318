# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which model classes each SGLang release runs over pipeline stages, as data; a companion of versions.py.

Read in the wheels: C(support_pp) of model_executor/model_runner.py asks whether the C(forward) of the model class takes
C(pp_proxy_tensors), and 0.5.6 on ends its start with "Pipeline Parallel is not compatible with this model." where not;
older ones fail with the first request. The layers of a stage's pools are C(getattr(model, "start_layer", 0)) to
C(end_layer) (model_runner.py, from 0.5.21 model_runner_components/layer_setup.py): a class that does not tell them
computes its own layers on each stage and keeps the caches of all. tests/conformance/test_pipeline_classes.py holds the
tables against every wheel.
"""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import parse_version

# By the first release of each class that does it, until the other table has a later one.
_OWN_LAYERS = {
    "0.4.7": (
        "InternLM3ForCausalLM Llama4ForCausalLM LlamaForCausalLM MistralForCausalLM MixtralForCausalLM "
        "Phi3ForCausalLM Qwen2ForCausalLM Qwen2MoeForCausalLM Qwen3ForCausalLM Qwen3MoeForCausalLM"
    ),
    "0.4.10": "ArceeForCausalLM",
    "0.5.0rc2": "GptOssForCausalLM",
    "0.5.1": "DeepseekV2ForCausalLM DeepseekV3ForCausalLM Glm4MoeForCausalLM",
    "0.5.2": "OPTForCausalLM",
    "0.5.3": (
        "ApertusForCausalLM BailingMoEForCausalLM BailingMoeForCausalLM BailingMoeV2ForCausalLM DeepseekV32ForCausalLM"
    ),
    "0.5.5": "Glm4ForCausalLM",
    "0.5.6": "TeleFLMForCausalLM",
    "0.5.7": "MiMoV2FlashForCausalLM Ministral3ForCausalLM MistralLarge3ForCausalLM",
    "0.5.8": "Glm4MoeLiteForCausalLM IQuestCoderForCausalLM",
    "0.5.9": (
        "BailingMoeV2_5ForCausalLM Exaone4ForCausalLM ExaoneMoEForCausalLM GlmMoeDsaForCausalLM "
        "GraniteMoeHybridForCausalLM Step3p5ForCausalLM"
    ),
    "0.5.10": (
        "InternS1ProForConditionalGeneration KimiK25ForConditionalGeneration "
        "Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration Qwen3_5ForConditionalGeneration "
        "Qwen3_5MoeForConditionalGeneration SarvamMLAForCausalLM SarvamMoEForCausalLM"
    ),
    "0.5.11": "MiMoV2ForCausalLM",
    "0.5.12": "DeepseekV4ForCausalLM LagunaForCausalLM",
    "0.5.16": "MellumForCausalLM MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration",
    "0.5.17": "KimiLinearForCausalLM Qwen3_5ForCausalLM Qwen3_5MoeForCausalLM",
    "0.5.19": "BailingMoeV3ForCausalLM",
    "0.5.20": "K2HorizonForCausalLM XllmForCausalLM",
    "0.5.22": "ExaoneMoeForCausalLM",
}
# Each stage keeps the caches of all layers.
_ALL_LAYERS = {
    "0.5.4": "NemotronHForCausalLM",
    "0.5.5": "KimiLinearForCausalLM",
    "0.5.6": (
        "DotsVLMForCausalLM LlavaForConditionalGeneration Mistral3ForConditionalGeneration "
        "Qwen2_5_VLForConditionalGeneration"
    ),
    "0.5.7": (
        "Glm4vForConditionalGeneration Glm4vMoeForConditionalGeneration Qwen3VLForConditionalGeneration "
        "Qwen3VLMoeForConditionalGeneration"
    ),
    "0.5.9": (
        "GlmOcrForConditionalGeneration InternS1ProForConditionalGeneration Qwen3_5ForConditionalGeneration "
        "Qwen3_5MoeForConditionalGeneration"
    ),
    "0.5.10": "MiniMaxM2ForCausalLM",
    "0.5.13": "Gemma4ForConditionalGeneration",
    "0.5.14": "MiMoV2ASRForCausalLM",
    "0.5.21": "BailingMM2NativeForConditionalGeneration BailingMMNativeForConditionalGeneration",
    "0.5.22": "SolarForCausalLM",
}


def _changes() -> dict[str, tuple[tuple[str, bool], ...]]:
    """(release, whether a stage keeps all layers) of each class, the oldest first."""
    found: dict[str, list[tuple[str, bool]]] = {}
    for whole, table in ((False, _OWN_LAYERS), (True, _ALL_LAYERS)):
        for since, names in table.items():
            for name in names.split():
                found.setdefault(name, []).append((since, whole))
    return {name: tuple(sorted(rows, key=lambda row: parse_version(row[0]))) for name, rows in found.items()}


_CHANGES = _changes()


def pipeline_since(architecture: str) -> str | None:
    """The first release that runs a model class over pipeline stages; None where none does."""
    rows = _CHANGES.get(architecture)
    return rows[0][0] if rows else None


def runs_over_stages(version: str, architecture: str) -> bool:
    since = pipeline_since(architecture)
    return since is not None and parse_version(since) <= parse_version(version)


def stage_keeps_all_layers(version: str, architecture: str) -> bool:
    """Whether the pools of each stage are those of all layers, whichever the stage computes."""
    release = parse_version(version)
    in_force = [whole for since, whole in _CHANGES.get(architecture, ()) if parse_version(since) <= release]
    return bool(in_force) and in_force[-1]
