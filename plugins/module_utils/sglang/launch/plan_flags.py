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
# Flags that change how much memory is taken or by whom, in ways that a plan does not compute.
UNPLANNED_FLAGS = {
    "dp": "data parallelism multiplies the ranks",
    "dp-size": "data parallelism multiplies the ranks",
    "data-parallel-size": "data parallelism multiplies the ranks",
    "dcp-size": "context parallelism divides the KV cache",
    "attn-cp-size": "context parallelism divides the KV cache",
    "attention-context-parallel-size": "context parallelism divides the KV cache",
    "nnodes": "several machines share the ranks",
    "node-rank": "several machines share the ranks",
    "disaggregation-mode": "prefill and decode are separate servers with other pools",
    "radix-cache-backend": "another tree of prefixes keeps other pools",
    "enable-unified-memory": "the pools are one",
    "enable-memory-saver": "the pools are virtual",
    "cpu-offload-gb": "weights live in host memory",
    "hicache-storage-backend": "a storage tier is not planned yet",
    "hicache-host-memory-mode": "a storage tier is not planned yet",
    "config": "the plan itself is the configuration file",
    **dict.fromkeys(
        ("enable-prefill-cp", "enable-dsa-cache-layer-split"), "the KV cache is divided over ranks in another way"
    ),
    **dict.fromkeys(
        (
            "enable-lora",
            "lora-paths",
            "max-loras-per-batch",
            "max-loaded-loras",
            "max-lora-rank",
            "lora-target-modules",
            "uno-lora-path",
        ),
        "adapters take memory of each GPU before the pools are sized",
    ),
    **dict.fromkeys(
        ("json-model-override-args", "model-impl"), "the model is another than the one whose facts are planned with"
    ),
    **dict.fromkeys(
        ("modelopt-quant", "quantize-and-serve", "torchao-config", "rl-quant-profile"),
        "the weights are quantized while they are loaded",
    ),
    "enable-fp32-lm-head": "the head is kept in float32",
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
    **dict.fromkeys(("elastic-ep-backend", "max-ep-size"), "the ranks change while the server runs"),
    "encoder-only": "a server of the encoder alone has no KV cache",
    "decoupled-spec-role": "the draft runs in another server",
    "speculative-draft-model-quantization": "the draft's weights are quantized while they are loaded",
    **dict.fromkeys(("speculative-draft-window-size", "speculative-draft-sink-size"), "the draft keeps a window only"),
    **dict.fromkeys(("enable-flexkv", "enable-mm-global-cache"), "another cache takes host memory"),
    **dict.fromkeys(
        ("enable-return-routed-experts", "enable-return-indexer-topk"), "what is returned has a buffer of every token"
    ),
    "enable-page-major-kv-layout": "the pools lie page by page",
    "enable-pdmux": "prefill and decode run side by side, each with graphs of its own",
    "int8-mamba-ckpt-size": "there is another pool of states",
    "qsa-indexer-dtype": "index keys have another size",
    "c128-page-size": "compressed pools have other pages",
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
