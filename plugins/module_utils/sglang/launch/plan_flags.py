# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Flags that a plan decides, that it cannot follow, and that go with no host tier."""

from __future__ import annotations

# Flags that a plan decides, and the option that decides them.
OWNED_FLAGS = {
    "model-path": "server.model_path",
    "model": "server.model_path",
    "served-model-name": "server.served_model_name",
    "host": "server.host",
    "port": "server.port",
    "device": "server.device",
    "tp": "server.tensor_parallel_size",
    "tp-size": "server.tensor_parallel_size",
    "tensor-parallel-size": "server.tensor_parallel_size",
    "pp": "server.pipeline_parallel_size",
    "pp-size": "server.pipeline_parallel_size",
    "pipeline-parallel-size": "server.pipeline_parallel_size",
    "enable-dp-attention": "server.attention_data_parallel_size",
    "attn-dp-size": "server.attention_data_parallel_size",
    "attention-data-parallel-size": "server.attention_data_parallel_size",
    "ep": "server.expert_parallel_size",
    "ep-size": "server.expert_parallel_size",
    "expert-parallel-size": "server.expert_parallel_size",
    "enable-ep-moe": "server.expert_parallel_size",
    "max-running-requests": "server.max_running_requests",
    "speculative-algorithm": "speculative.algorithm",
    "speculative-algo": "speculative.algorithm",
    "speculative-draft-model": "speculative.model_path",
    "speculative-draft-model-path": "speculative.model_path",
    "speculative-num-steps": "speculative.num_steps",
    "speculative-eagle-topk": "speculative.eagle_topk",
    "speculative-num-draft-tokens": "speculative.num_draft_tokens",
    "speculative-dflash-block-size": "speculative.num_draft_tokens",
    "speculative-dspark-block-size": "speculative.num_draft_tokens",
    "base-gpu-id": "server.gpus",
    "gpu-id-step": "server.gpus",
    "numa-node": "server.numa_nodes",
    "page-size": "server.page_size",
    "kv-cache-dtype": "server.kv_cache_dtype",
    "dtype": "server.dtype",
    "max-total-tokens": "server.max_total_tokens",
    "mem-fraction-static": "server.mem_fraction_static",
    "chunked-prefill-size": "server.chunked_prefill_size",
    "context-length": "server.context_length",
    "attention-backend": "server.attention_backend",
    "enable-metrics": "server.enable_metrics",
    "enable-hierarchical-cache": "hicache.enabled",
    "enable-hicache": "hicache.enabled",
    "hicache-ratio": "hicache.ratio",
    "hicache-size": "hicache.size_gb",
    "hicache-host-memory-fraction": "hicache.host_memory_fraction",
    "hicache-io-backend": "hicache.io_backend",
    "hicache-mem-layout": "hicache.mem_layout",
    "hicache-write-policy": "hicache.write_policy",
}
# Flags that a plan reads: it follows them, or refuses them for the models and values for which it cannot.
_COUNTED = """
    cuda-graph-backend-decode cuda-graph-backend-prefill cuda-graph-max-bs-decode cuda-graph-max-bs-prefill
    debug-cuda-graph disable-cuda-graph disable-decode-cuda-graph disable-prefill-cuda-graph enable-torch-compile
    cuda-graph-max-bs disable-piecewise-cuda-graph enable-piecewise-cuda-graph enforce-piecewise-cuda-graph
    piecewise-cuda-graph-max-tokens enable-deepep-moe
    decode-attention-backend prefill-attention-backend dsa-decode-backend dsa-prefill-backend nsa-decode-backend
    nsa-prefill-backend dsv4-attn-backend enable-deepseek-v4-fp4-indexer enable-deterministic-inference
    disable-hybrid-swa-memory swa-full-tokens-ratio enable-hisparse enable-kv-cache-sharding
    enable-linear-replayssm enable-linear-replayssm-spec enable-gdn-replayssm-spec mamba-full-memory-ratio
    mamba-radix-cache-strategy mamba-scheduler-strategy mamba-ssm-dtype max-mamba-cache-size
    enable-multi-layer-eagle speculative-adaptive speculative-draft-kv-cache-dtype
    disable-overlap-schedule enable-dynamic-chunking max-prefill-tokens
    load-format quantization enable-dp-lm-head ep-num-redundant-experts moe-a2a-backend moe-dense-tp-size
    moe-runner-backend enable-multimodal mm-enable-dp-encoder mm-feature-transport mm-preprocess-cache-size-mb
    disable-hicache-numa-detect
    disaggregation-bootstrap-port encoder-bootstrap-port engine-info-bootstrap-port gated-launch-port
    grpc-http-sidecar-port grpc-port nccl-port smg-http-sidecar-port"""
COUNTED_FLAGS = frozenset(_COUNTED.split())
# Flags that change how much memory is taken or by whom, in ways that a plan does not compute.
UNPLANNED_FLAGS = {
    **dict.fromkeys(("dp", "dp-size", "data-parallel-size"), "data parallelism multiplies the ranks"),
    **dict.fromkeys(
        ("dcp-size", "decode-context-parallel-size", "attn-cp-size", "attention-context-parallel-size"),
        "context parallelism divides the KV cache",
    ),
    **dict.fromkeys(("nnodes", "node-rank"), "several machines share the ranks"),
    "disaggregation-mode": "prefill and decode are separate servers with other pools",
    "radix-cache-backend": "another tree of prefixes keeps other pools",
    "enable-unified-memory": "the pools are one",
    "enable-memory-saver": "the pools are virtual",
    "cpu-offload-gb": "weights live in host memory",
    "hicache-storage-backend": "a third tier (the role takes it as sglang_hicache_storage)",
    "hicache-host-memory-mode": "host memory that is no tier of its own",
    "config": "the plan itself is the configuration file",
    **dict.fromkeys(
        ("enable-prefill-cp", "enable-dsa-cache-layer-split"), "the KV cache is divided over ranks in another way"
    ),
    **dict.fromkeys(
        ("json-model-override-args", "model-impl"), "the model is another than the one whose facts are planned with"
    ),
    **dict.fromkeys(
        ("modelopt-quant", "quantize-and-serve", "torchao-config", "rl-quant-profile"),
        "the weights are quantized while they are loaded",
    ),
    **dict.fromkeys(
        (
            "offload-group-size",
            "offload-mode",
            "offload-num-in-group",
            "offload-prefetch-step",
            "ple-offload-embedding",
            "ple-offload-backend",
            "ple-offload-dir",
            "kt-weight-path",
            "kt-method",
            "kt-cpuinfer",
            "kt-num-gpu-experts",
            "enable-paged-experts",
            "paged-experts-num-resident",
        ),
        "weights live outside of the GPUs",
    ),
    **dict.fromkeys(
        ("enable-weights-cpu-backup", "enable-draft-weights-cpu-backup", "enable-elastic-expert-backup"),
        "a copy of weights lies in host memory",
    ),
    "weight-cache-mode": "another process holds the weights",
    **dict.fromkeys(
        (
            "moe-dp-size",
            "moe-data-parallel-size",
            "dwdp-size",
            "shared-experts-tp-size",
            "enable-shared-experts-attn-tp",
            "enable-dense-mlp-attn-tp",
        ),
        "the weights are divided over ranks in another way",
    ),
    **dict.fromkeys(
        (
            "elastic-ep-backend",
            "elastic-ep-initial-size",
            "elastic-ep-join-mode",
            "elastic-ep-join-rank-offset",
            "max-ep-size",
        ),
        "the ranks change while the server runs",
    ),
    "encoder-only": "a server of the encoder alone has no KV cache",
    "decoupled-spec-role": "the draft runs in another server",
    "speculative-draft-model-quantization": "the draft's weights are quantized while they are loaded",
    **dict.fromkeys(("speculative-draft-window-size", "speculative-draft-sink-size"), "the draft keeps a window only"),
    **dict.fromkeys(("enable-flexkv", "enable-mm-global-cache"), "another cache takes host memory"),
    "enable-page-major-kv-layout": "the pools lie page by page",
    "enable-pdmux": "prefill and decode run side by side, each with graphs of its own",
    "int8-mamba-ckpt-size": "there is another pool of states",
    "qsa-indexer-dtype": "index keys have another size",
    "c128-page-size": "compressed pools have other pages",
    **dict.fromkeys(
        (
            "swa-prefix-tails",
            "enable-encoder-swa-bounded-replay",
            "enable-decoder-swa-bounded-replay",
            "no-enable-decoder-swa-bounded-replay",
        ),
        "the window pool is sized by another rule",
    ),
    "prefill-only-disable-kv-cache": "there is no KV cache",
    **dict.fromkeys(("language-only", "language-model-only"), "the weights of the encoder are not loaded"),
    "enforce-shared-experts-fusion": "shared experts are kept as routed ones",
    **dict.fromkeys(
        ("enable-layernorm-sp", "enable-megamoe-for-layernorm-sp", "enable-scattered-sconv"),
        "the layers are divided over ranks in another way",
    ),
    "startup-weight-load-mode": "the checkpoint is staged in host memory",
    **dict.fromkeys(
        ("decrypted-config-file", "decrypted-draft-config-file"),
        "the model is described by another file than its config.json",
    ),
    "rl-on-policy-target": "other settings follow from it",
    "use-ray": "the ranks are started by another program",
}
# Cannot be had together with HiCache (server_args.py, arg_groups/): why, by flag.
EXCLUDES_HICACHE = {
    "disable-radix-cache": "SGLang refuses the two together, as the host tier is a part of the radix cache",
    "enable-lmcache": "both are a host tier; SGLang refuses the two together from 0.5.21 on and drops one before",
    "dllm-algorithm": "SGLang switches HiCache off for diffusion language models and starts without it",
    "enable-int8-mamba-checkpoint": "SGLang refuses the two together, as the host tier copies states as bfloat16",
    "enable-unified-cache-external-linker": "SGLang refuses the two together",
}
# SGLang prints its arguments.
SECRET_FLAGS = frozenset({"api-key", "admin-api-key", "ssl-keyfile-password"})
