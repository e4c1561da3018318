# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Failures of the model: its files, where they come from, whether this release can serve it."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.failure import (
    RAISED,
    Failure,
    Pattern,
)

_HUB = "huggingface_hub utils/_http.py, transformers utils/hub.py (cached_files)"

MODEL_FILES = (
    Failure(
        "weights_missing",
        "Weights of the model are missing.",
        "Compare the files of the model folder with model.safetensors.index.json and with the "
        "manifest they came with, and fetch those that are missing.",
        (
            Pattern(
                r"Cannot find any model weights with `(?P<path>[^`]+)`",
                "SGLang model_loader/loader.py",
                "RuntimeError: Cannot find any model weights with `/srv/models/x`",
                "0.4.0",
            ),
            Pattern(
                RAISED + r"No such file or directory: \"?'?(?P<path>[^'\"]*\.(?:safetensors|bin|pt|gguf))\b",
                "safetensors (Rust std::io::Error), CPython open()",
                'FileNotFoundError: No such file or directory: "/srv/models/x/model-00007-of-00017.safetensors"',
            ),
            Pattern(
                RAISED + r"Error no file named .*(?:safetensors|\.bin)",
                "transformers modeling_utils.py",
                "OSError: Error no file named model.safetensors found in directory /srv/models/x",
            ),
            Pattern(
                RAISED + r"Could not find checkpoint files '(?P<path>[^']+)'",
                "SGLang model_loader/loader.py (ShardedStateLoader)",
                "ValueError: Could not find checkpoint files '/srv/models/x/model-rank-0-part-*.safetensors', only "
                "pre-sharded checkpoints are currently supported!",
            ),
        ),
        "load",
    ),
    Failure(
        "weights_damaged",
        "A file of weights is damaged or incomplete.",
        "Compare sizes and SHA-256 sums of the model folder with its manifest (`sha256sum "
        "*.safetensors`), and fetch the damaged file again. A file of a few hundred bytes is a "
        "pointer of Git LFS: `git lfs pull`.",
        (
            Pattern(
                r"^(?:\w+\.)*SafetensorError: (?P<reason>.*)",
                "safetensors bindings/python/src/lib.rs, safetensors/src/tensor.rs",
                "safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata, file not "
                "fully covered",
            ),
            Pattern(
                RAISED + r"(?:PytorchStreamReader failed reading|Invalid magic number; corrupt file)",
                "PyTorch caffe2/serialize/inline_container.cc, torch/serialization.py",
                "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
            ),
            Pattern(
                RAISED + r"Rank-(?P<index>\d+) checksum mismatch for presharded checkpoint at (?P<path>[^:]+):",
                "SGLang model_loader/loader.py",
                "RuntimeError: Rank-1 checksum mismatch for presharded checkpoint at /srv/models/x: expected 1, got 2.",
            ),
        ),
        "load",
    ),
    Failure(
        "model_config_missing",
        "The model folder has no configuration that can be read.",
        "Check model_path: it has to be the folder that holds config.json itself, not one above "
        "it. Fetch the file again if it is missing or empty.",
        (
            Pattern(
                RAISED + r"(?P<path>\S+) does not appear to have a file named (?P<file>\S+?)\.? ",
                "transformers utils/hub.py",
                "OSError: /srv/models/x does not appear to have a file named config.json. Checkout "
                "'https://huggingface.co//srv/models/x/tree/main' for available files.",
            ),
            Pattern(
                RAISED + r"Unrecognized model in (?P<path>\S+)\. Should have a `model_type` key",
                "transformers models/auto/configuration_auto.py",
                "ValueError: Unrecognized model in /srv/models/x. Should have a `model_type` key in its config.json.",
            ),
            Pattern(
                RAISED + r"It looks like the config file at '(?P<path>[^']+)' is not a valid JSON file",
                "transformers configuration_utils.py",
                "OSError: It looks like the config file at '/srv/models/x/config.json' is not a valid JSON file.",
            ),
            Pattern(
                RAISED + r"No such file or directory: '(?P<path>[^']*(?:config|index)\.json)'",
                "CPython open()",
                "FileNotFoundError: [Errno 2] No such file or directory: '/srv/models/x/config.json'",
            ),
        ),
    ),
    Failure(
        "model_not_found",
        "The model is neither a folder of this node nor a repository that can be reached under this name.",
        "Check model_path with `sudo -u USER ls MODEL_PATH`, as the unit's user: the folder has "
        "to exist on this node, and every folder above it has to let that user pass.",
        (
            Pattern(
                RAISED + r"(?P<path>\S+) is not a local folder and is not a valid model identifier",
                "transformers utils/hub.py",
                "OSError: qwen/Qwen3-32 is not a local folder and is not a valid model identifier listed on "
                "'https://huggingface.co/models'",
            ),
            Pattern(
                r"^(?:\w+\.)*HFValidationError: (?P<reason>.*)",
                "huggingface_hub utils/_validators.py",
                "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or "
                "'namespace/repo_name': '/srv/models/x'. Use `repo_type` argument if needed.",
            ),
            Pattern(
                r"^(?:\w+\.)*(?:Repository|Revision)NotFoundError: ",
                _HUB,
                "huggingface_hub.errors.RepositoryNotFoundError: 404 Client Error. (Request ID: Root=1-6)",
            ),
            Pattern(
                RAISED + r"(?P<revision>\S+) is not a valid git identifier",
                "transformers utils/hub.py",
                "OSError: v9 is not a valid git identifier (branch name, tag name or commit id) that exists for this "
                "model name.",
            ),
        ),
    ),
    Failure(
        "model_access_denied",
        "The model repository wants an account that has been granted access.",
        "Put the model on the node beforehand and give its folder as model_path, or give the unit a token that has "
        "access.",
        (
            Pattern(
                r"^(?:\w+\.)*GatedRepoError: |^(?:OSError: )?You are trying to access a gated repo\.|"
                r"Cannot access gated repo for",
                _HUB,
                "OSError: You are trying to access a gated repo.",
            ),
        ),
    ),
    Failure(
        "hub_unreachable",
        "A file of the model is not on the node and its hub cannot be reached.",
        "Put the whole model on the node and give its folder as model_path; a node needs no hub to start.",
        (
            Pattern(
                RAISED + r"We couldn't connect to '(?P<url>[^']+)' to load",
                "transformers utils/hub.py",
                "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in "
                "the cached files.",
            ),
            Pattern(
                r"^(?:\w+\.)*(?:OfflineModeIsEnabled|LocalEntryNotFoundError): ",
                "huggingface_hub errors.py, utils/_http.py",
                "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder for "
                "the specified revision on the local disk and outgoing traffic has been disabled.",
            ),
            Pattern(
                RAISED + r".*Name or service not known|^(?:requests\.exceptions\.ConnectionError|"
                r"httpx\.Connect(?:Error|Timeout)): ",
                "glibc gai_strerror(EAI_NONAME); httpx _exceptions.py; requests exceptions.py",
                "httpx.ConnectError: [Errno -2] Name or service not known",
            ),
        ),
    ),
    Failure(
        "permission_denied",
        "The user of the unit may not read or write a file that the server needs.",
        "Run `namei -l PATH` for the path that the line names, and give the unit's user "
        "(`systemctl show --property=User UNIT`) the right to it and to every folder above it.",
        (
            Pattern(
                RAISED + r"Permission denied: '(?P<path>[^']+)'",
                "Linux errno 13 (EACCES) as CPython's OSError prints it",
                "PermissionError: [Errno 13] Permission denied: '/srv/models/x/config.json'",
            ),
            Pattern(
                RAISED + r"PermissionError at (?P<path>\S+) when downloading",
                "transformers utils/hub.py",
                "OSError: PermissionError at /root/.cache/huggingface/hub when downloading x/y.",
            ),
        ),
    ),
    Failure(
        "remote_code_needed",
        "The model comes with code of its own, and the server was not told to run it.",
        "Set trust_remote_code to true in extra_arguments if you trust the model's code.",
        (
            Pattern(
                RAISED
                + r"(?:.*(?:set the option|pass the argument) `trust_remote_code=True`|.*requires you to execute "
                r"custom code|The repository (?P<path>\S+) (?:references custom code contained in|contains custom code "
                r"which))",
                "transformers dynamic_module_utils.py (resolve_trust_remote_code)",
                "ValueError: The repository /srv/models/x contains custom code which must be executed to correctly "
                "load the model. You can inspect the repository content at /srv/models/x .",
            ),
        ),
    ),
    Failure(
        "architecture_unsupported",
        "This release of SGLang, or its transformers, does not know the model's architecture.",
        "Install a release of SGLang whose list of supported models names this architecture, or serve another model.",
        (
            Pattern(
                r"Model architectures (?P<architectures>\[[^\]]*\]) are not supported for now",
                "SGLang models/registry.py",
                "ValueError: Model architectures ['NewForCausalLM'] are not supported for now. Supported "
                "architectures: dict_keys(['LlamaForCausalLM'])",
            ),
            Pattern(
                r"Model architectures (?P<architectures>\[[^\]]*\]) failed to be inspected",
                "SGLang models/registry.py",
                "ValueError: Model architectures ['LlamaForCausalLM'] failed to be inspected. Please check the logs "
                "for more details.",
            ),
            Pattern(
                r"model type `(?P<architectures>[^`]+)` but Transformers does not recognize this architecture",
                "transformers models/auto/configuration_auto.py",
                "ValueError: The checkpoint you are trying to load has model type `new` but Transformers does not "
                "recognize this architecture.",
            ),
        ),
        fatal=True,
    ),
    Failure(
        "quantization_unsupported",
        "The model's quantisation is not supported by this GPU or by the chosen data type.",
        "Choose weights of another quantisation, or a GPU of the capability that the line names.",
        (
            Pattern(
                r"The quantization method (?P<method>\S+) is not supported for the current GPU\. Minimum capability: "
                r"(?P<capability>[\d.]+)",
                "SGLang model_loader/loader.py (_get_quantization_config)",
                "ValueError: The quantization method fp8 is not supported for the current GPU. Minimum capability: 89. "
                "Current capability: 80.",
            ),
            Pattern(
                RAISED + r"(?P<dtype>\S+) is not supported for quantization method (?P<method>\S+)",
                "SGLang model_loader/loader.py",
                "ValueError: torch.bfloat16 is not supported for quantization method awq. Supported dtypes: "
                "[torch.float16]",
            ),
            Pattern(
                RAISED + r"Quantization method specified in the model config \((?P<method>[^)]+)\) does not match",
                "SGLang configs/model_config.py (_verify_quantization)",
                "ValueError: Quantization method specified in the model config (fp8) does not match the quantization "
                "method specified in the `quantization` argument (awq).",
            ),
        ),
        fatal=True,
    ),
    Failure(
        "tokenizer_failed",
        "The tokenizer of the model cannot be made.",
        "Fetch the tokenizer's files (tokenizer.json, tokenizer_config.json, or tokenizer.model) "
        "into the model folder again, or name the folder that has them by tokenizer-path in "
        'extra_arguments. "data did not match any variant" means that the transformers of this '
        "release is older than the file.",
        (
            Pattern(
                r"Couldn't instantiate the backend tokenizer",
                "transformers tokenization_utils_tokenizers.py, tokenization_utils_fast.py",
                "ValueError: Couldn't instantiate the backend tokenizer from one of:",
            ),
            Pattern(
                RAISED + r"Can't load tokenizer for '(?P<path>[^']+)'|"
                r"^ValueError: Tokenizer class (?P<name>\S+) does not exist or is not currently imported",
                "transformers tokenization_utils_base.py, models/auto/tokenization_auto.py",
                "OSError: Can't load tokenizer for '/srv/models/x'. If you were trying to load it from "
                "'https://huggingface.co/models', make sure you don't have a local directory with the same name.",
            ),
            Pattern(
                RAISED + r"data did not match any variant of untagged enum",
                "tokenizers (serde, tokenizers/src/models/mod.rs)",
                "Exception: data did not match any variant of untagged enum ModelWrapper at line 757371 column 3",
            ),
        ),
    ),
    Failure(
        "context_too_long",
        "The context length that was asked for is more than the model's own.",
        "Lower context_length to the model's own, which the line names as derived context_length.",
        (
            Pattern(
                RAISED + r"Warning: .*context_length \((?P<context_tokens>\d+)\) is greater than the derived "
                r"context_length \((?P<derived_tokens>\d+)\)",
                "SGLang configs/model_config.py; a warning where SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN is set",
                "ValueError: Warning: User-specified context_length (262144) is greater than the derived "
                "context_length (131072). This may lead to incorrect model outputs or CUDA errors.",
            ),
        ),
        fatal=True,
    ),
)
