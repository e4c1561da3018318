# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which model class of SGLang keeps which kind of cache, as data.

The names and the release of each are the C(EntryClass) of srt/models/*.py in the wheels 0.4.7 to 0.5.23. The kind is
SGLang's own decision: configs/model_config.py C(_derive_model_shapes) (latent), C(is_hybrid_swa_model) (window),
C(is_deepseek_dsa) (index), C(is_minimax_sparse) (sparse), configs/hybrid_arch.py C(mambaish_config) (states); whatever
none of them names has plain heads. tests/conformance/test_families.py holds the table against those functions.
"""

from __future__ import annotations

from dataclasses import dataclass

# One key and one value vector per KV head, layer and token, all layers alike. A sliding window that SGLang honours in
# its kernels only (Gemma 2 and 3, Cohere 2, EXAONE 4, OLMo 2) and cross-attention layers (Mllama) are such layers too.
PLAIN_HEADS = "plain_heads"
# One compressed vector per layer and token, the same on every tensor-parallel rank; with an index where the
# configuration has index_topk.
LATENT = "latent"
# Some layers keep a window of the tokens only, in a pool of their own.
WINDOW = "window"
# Some layers keep a state per request instead of vectors per token.
STATE = "state"
# Plain heads, with an index key beside them in the sparse layers.
SPARSE = "sparse"
# A window of every layer, and behind it vectors that stand for several tokens each.
COMPRESSED = "compressed"

_PLAIN_HEADS = {
    "0.4.7": (
        "BaichuanForCausalLM BertModel Cohere2ForCausalLM CohereForCausalLM Contriever DeepseekForCausalLM "
        "ExaoneForCausalLM Gemma2ForCausalLM Gemma2ForSequenceClassification Gemma3ForCausalLM "
        "Gemma3ForConditionalGeneration GemmaForCausalLM GraniteForCausalLM Grok1ForCausalLM "
        "Grok1ModelForCausalLM InternLM2ForCausalLM InternLM2ForRewardModel InternLM3ForCausalLM "
        "InternVLChatModel Llama4ForCausalLM LlamaEmbeddingModel LlamaForCausalLM LlamaForClassification "
        "LlamaForSequenceClassification LlamaForSequenceClassificationWithNormal_Weights "
        "LlavaForConditionalGeneration LlavaLlamaForCausalLM LlavaMistralForCausalLM LlavaQwenForCausalLM "
        "LlavaVidForCausalLM MiMoForCausalLM MiniCPMForCausalLM MiniCPMO MiniCPMV "
        "Mistral3ForConditionalGeneration MistralForCausalLM MistralModel MixtralForCausalLM "
        "MllamaForConditionalGeneration MultiModalityCausalLM Olmo2ForCausalLM OlmoForCausalLM "
        "OlmoeForCausalLM Phi3ForCausalLM Phi3SmallForCausalLM Phi4MMForCausalLM QWenLMHeadModel "
        "QuantMixtralForCausalLM Qwen2ForCausalLM Qwen2ForRewardModel Qwen2ForSequenceClassification "
        "Qwen2MoeForCausalLM "
        "Qwen2VLForConditionalGeneration Qwen2_5_VLForConditionalGeneration Qwen3ForCausalLM "
        "Qwen3MoeForCausalLM StableLmForCausalLM TorchNativeLlamaForCausalLM TorchNativePhi3ForCausalLM "
        "XLMRobertaModel XverseForCausalLM XverseMoeForCausalLM YiVLForCausalLM"
    ),
    "0.4.8": ("BertForSequenceClassification Glm4ForCausalLM XLMRobertaForSequenceClassification"),
    "0.4.9": (
        "Gemma3nForCausalLM Gemma3nForConditionalGeneration HunYuanMoEV1ForCausalLM Qwen2AudioForConditionalGeneration"
    ),
    "0.4.10": (
        "ArceeForCausalLM Glm4MoeForCausalLM GraniteMoeForCausalLM HunYuanDenseV1ForCausalLM "
        "InternS1ForConditionalGeneration PersimmonForCausalLM PhiForCausalLM PhiMoEForCausalLM "
        "Step3VLForConditionalGeneration"
    ),
    "0.5.0rc2": (
        "BailingMoeForCausalLM Ernie4_5_ForCausalLM Ernie4_5_MoeForCausalLM Glm4vForConditionalGeneration "
        "Glm4vMoeForConditionalGeneration Qwen3ForSequenceClassification"
    ),
    "0.5.2": ("OPTForCausalLM"),
    "0.5.3": (
        "ApertusForCausalLM BailingMoEForCausalLM BailingMoeV2ForCausalLM DotsOCRForCausalLM "
        "Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration Sarashina2VisionForCausalLM "
        "SolarForCausalLM Starcoder2ForCausalLM"
    ),
    "0.5.4": ("DeepseekOCRForCausalLM POINTSV15ChatModel Qwen3OmniMoeForConditionalGeneration"),
    "0.5.5": ("MiniMaxM2ForCausalLM NVILAForConditionalGeneration NVILALiteForConditionalGeneration"),
    "0.5.6": ("OrionForCausalLM TeleFLMForCausalLM"),
    "0.5.7": (
        "GlmAsrForConditionalGeneration MiDashengLMModel Ministral3ForCausalLM PaddleOCRVLForConditionalGeneration"
    ),
    "0.5.8": ("AfmoeForCausalLM IQuestCoderForCausalLM"),
    "0.5.9": (
        "Ernie4_5_VLMoeForConditionalGeneration Exaone4ForCausalLM ExaoneMoEForCausalLM "
        "GlmOcrForConditionalGeneration InternS1ProForConditionalGeneration "
        "LightOnOCRForConditionalGeneration Qwen3ForRewardModel StepVLForConditionalGeneration"
    ),
    "0.5.10": ("SarvamMoEForCausalLM"),
    "0.5.11": ("HYV3ForCausalLM Qwen3ASRForConditionalGeneration VoxtralForConditionalGeneration"),
    "0.5.12": ("MiniCPMV4_6ForConditionalGeneration"),
    "0.5.13": ("Cohere2MoeForCausalLM Cohere2VisionForConditionalGeneration"),
    "0.5.14": ("MiMoV2ASRForCausalLM"),
    "0.5.15": ("LocateAnythingForConditionalGeneration"),
    "0.5.16": ("GlmImageForConditionalGeneration"),
    "0.5.17": ("EmbeddingGemmaModel Qwen3Model"),
    "0.5.19": ("GraniteMoeSharedForCausalLM"),
    "0.5.20": ("K2HorizonForCausalLM XllmForCausalLM"),
    "0.5.21": ("BailingMM2NativeForConditionalGeneration BailingMMNativeForConditionalGeneration"),
    "0.5.22": ("ExaoneMoeForCausalLM"),
    "0.5.23": ("MiniCPMV4_7ForConditionalGeneration"),
}
_LATENT = {
    "0.4.7": (
        "DeepseekV2ForCausalLM DeepseekV3ForCausalLM DeepseekVL2ForCausalLM KimiVLForConditionalGeneration "
        "MiniCPM3ForCausalLM"
    ),
    "0.5.2": ("LongcatFlashForCausalLM"),
    "0.5.3": ("DeepseekV32ForCausalLM DotsVLMForCausalLM"),
    "0.5.7": ("MistralLarge3ForCausalLM PixtralForConditionalGeneration"),
    "0.5.8": ("Glm4MoeLiteForCausalLM"),
    "0.5.9": ("GlmMoeDsaForCausalLM KimiK25ForConditionalGeneration"),
    "0.5.10": ("SarvamMLAForCausalLM"),
}
_WINDOW = {
    "0.4.7": ("Llama4ForConditionalGeneration"),
    "0.5.0rc2": ("GptOssForCausalLM"),
    "0.5.7": ("MiMoV2FlashForCausalLM"),
    "0.5.9": ("Step3p5ForCausalLM"),
    "0.5.11": ("Gemma4ForConditionalGeneration MiMoV2ForCausalLM"),
    "0.5.12": ("LagunaForCausalLM"),
    "0.5.13": ("Gemma4UnifiedForConditionalGeneration Step3p7ForConditionalGeneration"),
    "0.5.16": ("MellumForCausalLM"),
    "0.5.19": ("GraniteMoeSWAForCausalLM GraniteSWAForCausalLM"),
}
_STATE = {
    "0.5.2": ("Qwen3NextForCausalLM"),
    "0.5.3": ("FalconH1ForCausalLM"),
    "0.5.4": ("NemotronHForCausalLM"),
    "0.5.5": ("KimiLinearForCausalLM"),
    "0.5.6": ("NemotronH_Nano_VL_V2"),
    "0.5.9": (
        "BailingMoeV2_5ForCausalLM GraniteMoeHybridForCausalLM Lfm2ForCausalLM Lfm2MoeForCausalLM "
        "Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration"
    ),
    "0.5.10": ("Lfm2VlForConditionalGeneration"),
    "0.5.17": ("Qwen3_5ForCausalLM Qwen3_5MoeForCausalLM"),
    "0.5.19": ("BailingMoeV3ForCausalLM"),
}
_SPARSE = {
    "0.5.16": ("MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration"),
}
_COMPRESSED = {
    "0.5.12": ("DeepseekV4ForCausalLM"),
}

# Model classes that SGLang serves and this collection does not plan, with what they have.
UNPLANNED: dict[str, str] = {
    "BailingMoeV3VLForConditionalGeneration": "states per request in a nested configuration that was not read",
    "BeamForCausalLM": "window layers whose schedule was not read",
    "CLIPModel": "no language model",
    "ChatGLMModel": "a configuration with keys of its own",
    "Cosmos3EdgeForConditionalGeneration": "pools that were not read",
    "Cosmos3ForConditionalGeneration": "pools that were not read",
    "DbrxForCausalLM": "a configuration with keys of its own",
    "DeciLMForCausalLM": "heads that differ from layer to layer",
    "DiffusionGemmaForBlockDiffusion": "window layers under block diffusion",
    "Dots3NoteForCausalLM": "latent window layers beside sparse latent layers",
    "EmbeddingGemma2Model": "window layers of an embedding model",
    "FalconMambaForCausalLM": "no KV cache at all, only states per request",
    "GPT2LMHeadModel": "a configuration with keys of its own",
    "GPTBigCodeForCausalLM": "a configuration with keys of its own",
    "GPTJForCausalLM": "a configuration with keys of its own",
    "Gemma4ForCausalLM": "layers of two head sizes, which its text-only configuration does not name",
    "GigaChat35ForCausalLM": "states per request whose shape was not read",
    "Glm5NextForConditionalGeneration": "a pooled index beside latent layers and states per request",
    "HYV4ForCausalLM": "a pooled index beside the latent KV pool",
    "HrmTextForCausalLM": "layers that are run several times",
    "IQuestLoopCoderForCausalLM": "layers that are run several times",
    "IQuestQ1ForCausalLM": "window layers whose schedule was not read",
    "InklingForConditionalGeneration": "window layers and convolution states at once",
    "InternS2MobiusForConditionalGeneration": "states per request in a configuration that was not read",
    "InternS2PreviewForConditionalGeneration": "states per request in a configuration that was not read",
    "JetNemotronForCausalLM": "states per request whose shape was not read",
    "JetVLMForConditionalGeneration": "states per request whose shape was not read",
    "KimiK3ForConditionalGeneration": "states per request whose shape was not read",
    "KimiK3LinearForCausalLM": "states per request whose shape was not read",
    "LLaDA2MoeModelLM": "block diffusion",
    "Lfm2BidirectionalModel": "convolution states of an embedding model",
    "Mamba2ForCausalLM": "no KV cache at all, only states per request",
    "MambaForCausalLM": "no KV cache at all, only states per request",
    "MindSporeForCausalLM": "a runner of its own",
    "MiniCPMSALAForCausalLM": "lightning layers whose state was not read",
    "MossVLForConditionalGeneration": "cross-attention layers whose buffers were not read",
    "MuseGlimmerForCausalLM": "window layers whose schedule was not read",
    "MuseGlimmerForConditionalGeneration": "window layers whose schedule was not read",
    "MuseSparkForConditionalGeneration": "window layers whose schedule was not read",
    "NanbeigeForCausalLM": "layers that are run several times",
    "NanbeigeForSequenceClassification": "layers that are run several times",
    "NemotronHPuzzleForCausalLM": "blocks that differ from layer to layer",
    "NemotronH_Nano_Omni_Reasoning_V3": "an audio tower and states per request that were not read",
    "NemotronH_Omni_Reasoning_V3": "an audio tower and states per request that were not read",
    "PixtralVisionModel": "no language model",
    "Qwen4ExpForConditionalGeneration": "a compressed index beside the KV pool and states per request",
    "SDARForCausalLM": "block diffusion",
    "SDARMoeForCausalLM": "block diffusion",
    "Spark2_5ForCausalLM": "window layers whose schedule was not read",
    "UnlimitedOCRForCausalLM": "window layers only, without a full pool",
    "VILAForConditionalGeneration": "a class that ends with 0.5.4",
    "WhisperForConditionalGeneration": "buffers for encoder and cross-attention layers",
    "ZayaForCausalLM": "states per request whose shape was not read",
}


@dataclass(frozen=True)
class Architecture:
    """A model class: the kind of its cache, and the first release of SGLang that serves it."""

    name: str
    kind: str
    since: str


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Model classes that only draft for another model.
DRAFTS = _names(
    "BailingMoeForCausalLMNextN DFlash2BeamDraftModel DFlash2DraftModel DFlashDraftModel "
    "DFlashLagunaForCausalLM DSparkDraftModel DSparkMiniMaxDraftModel DeepseekV3ForCausalLMNextN "
    "DeepseekV4ForCausalLMDSpark DeepseekV4ForCausalLMNextN Dots3NoteForCausalLMNextN "
    "Eagle3DeepseekV2ForCausalLM Ernie4_5_MoeForCausalLMMTP ExaoneMoEForCausalLMMTP "
    "Gemma4AssistantForCausalLM Gemma4UnifiedAssistantForCausalLM GigaChat35ForCausalLMNextN "
    "Glm4MoeForCausalLMNextN Glm4MoeLiteForCausalLMNextN Glm5NextForConditionalGenerationNextN "
    "GlmMoeDsaForCausalLMNextN GlmOcrForConditionalGenerationNextN HYV3ForCausalLMNextN "
    "HYV4ForCausalLMNextN IQuestQ1MTP InklingForConditionalGenerationMTP Lfm2DSparkDraftModel "
    "LiLiCorrDraftModel LingDSparkModel LlamaForCausalLMEagle LlamaForCausalLMEagle3 "
    "LongcatFlashForCausalLMNextN MiMoMTP MiMoV2MTP MiniMaxDFlash2DraftModel MistralForCausalLMEagle "
    "MistralLarge3ForCausalLMEagle MuseGlimmerAssistantModel NemotronHForCausalLMMTP "
    "Qwen2ForCausalLMEagle Qwen3DSparkModel Qwen3MoeForCausalLMMTP Qwen3NextForCausalLMMTP "
    "Qwen3_5ForCausalLMMTP Qwen4ExpForCausalLMMTP Step3p5MTP"
)
# Those of them whose own caches are planned: heads or latent rows of every token, with the first release of each.
# The MTP classes among DRAFTS are made of their target's configuration (sglang/releases/speculation_versions.py).
DRAFT_ARCHITECTURES: dict[str, Architecture] = {
    name: Architecture(name, kind, since)
    for kind, since, names in (
        (PLAIN_HEADS, "0.4.7", "LlamaForCausalLMEagle LlamaForCausalLMEagle3 Qwen2ForCausalLMEagle"),
        (PLAIN_HEADS, "0.5.11", "MistralForCausalLMEagle"),
        (LATENT, "0.4.7", "DeepseekV3ForCausalLMNextN"),
        (LATENT, "0.5.7", "MistralLarge3ForCausalLMEagle"),
        (LATENT, "0.5.12", "Eagle3DeepseekV2ForCausalLM"),
    )
    for name in names.split()
}
# The generic backend takes the caches of whatever it is given.
GENERIC_PREFIX = "Transformers"


ARCHITECTURES: dict[str, Architecture] = {
    name: Architecture(name, kind, since)
    for kind, releases in (
        (PLAIN_HEADS, _PLAIN_HEADS),
        (LATENT, _LATENT),
        (WINDOW, _WINDOW),
        (STATE, _STATE),
        (SPARSE, _SPARSE),
        (COMPRESSED, _COMPRESSED),
    )
    for since, names in releases.items()
    for name in names.split()
}

# is_deepseek_dsa: their configuration may ask for an index (index_topk).
MAY_HAVE_INDEX = _names(
    "DeepseekV3ForCausalLM DeepseekV32ForCausalLM GlmMoeDsaForCausalLM LongcatFlashForCausalLM "
    "MistralLarge3ForCausalLM PixtralForConditionalGeneration"
)
# Those of them whose index keys a later release began with than the class itself.
INDEX_SINCE = {"LongcatFlashForCausalLM": "0.5.16"}
# multimodal_model_archs: SGLang reserves memory for their images outside the KV budget and lowers its default fraction.
MULTIMODAL = _names(
    "BailingMM2NativeForConditionalGeneration BailingMMNativeForConditionalGeneration "
    "Cohere2VisionForConditionalGeneration DeepseekOCRForCausalLM DeepseekVL2ForCausalLM "
    "DotsOCRForCausalLM DotsVLMForCausalLM Ernie4_5_VLMoeForConditionalGeneration "
    "Gemma3ForConditionalGeneration Gemma3nForConditionalGeneration Gemma4ForConditionalGeneration "
    "Gemma4UnifiedForConditionalGeneration Glm4vForConditionalGeneration Glm4vMoeForConditionalGeneration "
    "GlmAsrForConditionalGeneration GlmImageForConditionalGeneration GlmOcrForConditionalGeneration "
    "InternS1ForConditionalGeneration InternS1ProForConditionalGeneration InternVLChatModel "
    "KimiK25ForConditionalGeneration KimiVLForConditionalGeneration Lfm2VlForConditionalGeneration "
    "LightOnOCRForConditionalGeneration Llama4ForConditionalGeneration LlavaForConditionalGeneration "
    "LlavaLlamaForCausalLM LlavaMistralForCausalLM LlavaQwenForCausalLM LlavaVidForCausalLM "
    "LocateAnythingForConditionalGeneration MiDashengLMModel MiMoV2ASRForCausalLM MiMoV2ForCausalLM "
    "MiniCPMO MiniCPMV MiniMaxM3SparseForConditionalGeneration Mistral3ForConditionalGeneration "
    "MllamaForConditionalGeneration MultiModalityCausalLM NVILAForConditionalGeneration "
    "NVILALiteForConditionalGeneration NemotronH_Nano_VL_V2 POINTSV15ChatModel "
    "PaddleOCRVLForConditionalGeneration Phi4MMForCausalLM PixtralForConditionalGeneration "
    "Qwen2AudioForConditionalGeneration Qwen2VLForConditionalGeneration "
    "Qwen2_5_VLForConditionalGeneration Qwen3ASRForConditionalGeneration "
    "Qwen3OmniMoeForConditionalGeneration Qwen3VLForConditionalGeneration "
    "Qwen3VLMoeForConditionalGeneration Qwen3_5ForConditionalGeneration "
    "Qwen3_5MoeForConditionalGeneration Sarashina2VisionForCausalLM Step3VLForConditionalGeneration "
    "Step3p7ForConditionalGeneration StepVLForConditionalGeneration VoxtralForConditionalGeneration"
)
# models/*.py with get_attention_sliding_window_size: releases 0.4.10 to 0.5.7 give them a window pool by themselves.
WINDOW_BEFORE_TABLE = _names(
    "Gemma2ForCausalLM Gemma2ForSequenceClassification Gemma3ForCausalLM Gemma3ForConditionalGeneration "
    "Gemma3nForCausalLM Gemma3nForConditionalGeneration Olmo2ForCausalLM"
)
