# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Values that flags of C(sglang.launch_server) take, by release, as data.

Made by tests/conformance/record_flags.py out of the parsers of the wheels (ServerArgs.add_cli_args, and what reads
their configuration file). Not to be edited.
"""

from __future__ import annotations

# (flags, (first release, last release, values)); a flag takes any value where there is none.
CHOICES: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    (
        "attention-backend",
        (
            ("0.4.7", "0.5.19", "cutlass_mla"),
            ("0.4.7", "0.5.23", "aiter fa3 flashinfer flashmla intel_amx torch_native triton"),
            ("0.4.9", "0.5.23", "ascend"),
            ("0.5.0rc2", "0.5.19", "dual_chunk_flash_attn"),
            ("0.5.0rc2", "0.5.23", "trtllm_mha trtllm_mla wave"),
            ("0.5.2", "0.5.2", "hybrid_linear_attn"),
            ("0.5.3", "0.5.23", "fa4 flex_attention nsa"),
            ("0.5.4", "0.5.23", "intel_xpu"),
            ("0.5.12", "0.5.23", "compressed dsv4 tokenspeed_mla"),
            ("0.5.13", "0.5.23", "cutedsl_mla dsa"),
            ("0.5.17", "0.5.23", "hpc_ops"),
            ("0.5.19", "0.5.23", "minicpm_flashattn minicpm_flashinfer"),
            ("0.5.20", "0.5.23", "qsa"),
            ("0.5.22", "0.5.23", "llada2_cfg_flashinfer"),
        ),
    ),
    (
        "bf16-gemm-backend",
        (
            ("0.5.15", "0.5.23", "auto cutedsl"),
            ("0.5.17", "0.5.23", "torch"),
            ("0.5.19", "0.5.19", "flashinfer_pr4266"),
            ("0.5.19", "0.5.23", "gemv"),
        ),
    ),
    (
        "boundary-reduction",
        (("0.5.21", "0.5.23", "ar auto rs rs+rsv rsv"),),
    ),
    (
        "cp-strategy",
        (("0.5.14", "0.5.23", "interleave zigzag"),),
    ),
    (
        "cuda-graph-backend-decode cuda-graph-backend-prefill",
        (
            ("0.5.14", "0.5.21", "tc_piecewise"),
            ("0.5.14", "0.5.23", "breakable disabled full"),
        ),
    ),
    (
        "cuda-graph-tc-compiler",
        (("0.5.14", "0.5.21", "eager inductor"),),
    ),
    (
        "dcp-comm-backend",
        (("0.5.17", "0.5.23", "a2a ag_rs fi_a2a"),),
    ),
    (
        "decode-attention-backend prefill-attention-backend",
        (
            ("0.4.10", "0.5.19", "cutlass_mla"),
            ("0.4.10", "0.5.23", "fa3 flashinfer flashmla torch_native triton"),
            ("0.5.0rc2", "0.5.19", "dual_chunk_flash_attn"),
            ("0.5.0rc2", "0.5.23", "aiter ascend intel_amx trtllm_mha trtllm_mla wave"),
            ("0.5.2", "0.5.2", "hybrid_linear_attn"),
            ("0.5.3", "0.5.23", "fa4 flex_attention nsa"),
            ("0.5.4", "0.5.23", "intel_xpu"),
            ("0.5.12", "0.5.23", "compressed dsv4 tokenspeed_mla"),
            ("0.5.13", "0.5.23", "cutedsl_mla dsa"),
            ("0.5.17", "0.5.23", "hpc_ops"),
            ("0.5.19", "0.5.23", "minicpm_flashattn minicpm_flashinfer"),
            ("0.5.20", "0.5.23", "qsa"),
            ("0.5.22", "0.5.23", "llada2_cfg_flashinfer"),
        ),
    ),
    (
        "decoupled-spec-role",
        (("0.5.15", "0.5.23", "drafter null verifier"),),
    ),
    (
        "deepep-dispatcher-output-dtype",
        (("0.5.13", "0.5.23", "auto bf16 fp8 int8 nvfp4"),),
    ),
    (
        "deepep-mode",
        (("0.4.7", "0.5.23", "auto low_latency normal"),),
    ),
    (
        "deepep-v2-mode",
        (("0.5.19", "0.5.23", "direct hybrid"),),
    ),
    (
        "disaggregation-decode-allocation-policy",
        (("0.5.22", "0.5.23", "early prefill_complete"),),
    ),
    (
        "disaggregation-decode-retraction-backup",
        (
            ("0.5.18", "0.5.23", "cpu_tensor host_pool"),
            ("0.5.21", "0.5.23", "none"),
        ),
    ),
    (
        "disaggregation-mode",
        (("0.4.7", "0.5.23", "decode null prefill"),),
    ),
    (
        "disaggregation-transfer-backend",
        (
            ("0.4.7", "0.5.23", "mooncake nixl"),
            ("0.4.10", "0.5.23", "ascend"),
            ("0.5.2", "0.5.23", "fake"),
            ("0.5.9", "0.5.23", "mori"),
            ("0.5.13", "0.5.23", "mooncake_tcp"),
        ),
    ),
    (
        "dsa-decode-backend",
        (
            ("0.5.13", "0.5.23", "aiter fa3 flashmla_auto flashmla_kv flashmla_sparse tilelang trtllm"),
            ("0.5.16", "0.5.23", "flashmla_sparse_q8"),
            ("0.5.17", "0.5.23", "flashinfer_sparse_mla"),
            ("0.5.20", "0.5.23", "triton"),
            ("0.5.22", "0.5.23", "intel_xpu"),
        ),
    ),
    (
        "dsa-paged-mqa-logits-backend",
        (("0.5.15", "0.5.23", "aiter auto cutedsl deepgemm"),),
    ),
    (
        "dsa-prefill-backend",
        (
            ("0.5.13", "0.5.23", "aiter fa3 flashmla_auto flashmla_kv flashmla_sparse tilelang trtllm"),
            ("0.5.16", "0.5.23", "flashmla_sparse_q8"),
            ("0.5.17", "0.5.23", "flashinfer_sparse_mla"),
            ("0.5.20", "0.5.23", "triton"),
            ("0.5.22", "0.5.23", "intel_xpu triton_sparse_mla"),
        ),
    ),
    (
        "dsa-prefill-cp-mode",
        (("0.5.13", "0.5.19", "in-seq-split round-robin-split"),),
    ),
    (
        "dsa-topk-backend",
        (("0.5.13", "0.5.23", "flashinfer sgl-kernel torch"),),
    ),
    (
        "dsa-triton-union",
        (("0.5.22", "0.5.23", "0 2 4"),),
    ),
    (
        "dsv4-attn-backend",
        (
            ("0.5.20", "0.5.23", "auto flashmla trtllm"),
            ("0.5.23", "0.5.23", "flashmla_mega"),
        ),
    ),
    (
        "dsv4-prefill-backend",
        (("0.5.19", "0.5.23", "auto flashmla_sparse flashmla_sparse_q8"),),
    ),
    (
        "dtype",
        (("0.4.7", "0.5.23", "auto bfloat16 float float16 float32 half"),),
    ),
    (
        "elastic-ep-backend",
        (
            ("0.5.4", "0.5.23", "mooncake none"),
            ("0.5.10", "0.5.23", "nixl"),
        ),
    ),
    (
        "elastic-ep-join-mode",
        (("0.5.16", "0.5.23", "recover scale"),),
    ),
    (
        "encoder-transfer-backend",
        (
            ("0.5.7", "0.5.23", "mooncake zmq_to_scheduler zmq_to_tokenizer"),
            ("0.5.17", "0.5.23", "auto"),
        ),
    ),
    (
        "ep-dispatch-algorithm",
        (("0.5.14", "0.5.23", "dynamic fake lp static"),),
    ),
    (
        "expert-balancedness-report-mode",
        (("0.5.18", "0.5.23", "both off prometheus server_log"),),
    ),
    (
        "expert-distribution-recorder-mode",
        (("0.5.14", "0.5.23", "per_pass per_token stat stat_approx"),),
    ),
    (
        "flashinfer-a2a-dispatch-type",
        (("0.5.20", "0.5.23", "auto bf16 mxfp8 nvfp4"),),
    ),
    (
        "flashinfer-allreduce-fusion-backend",
        (
            ("0.5.14", "0.5.23", "auto mnnvl trtllm"),
            ("0.5.21", "0.5.23", "cutedsl"),
        ),
    ),
    (
        "flashinfer-mxfp4-moe-precision",
        (
            ("0.5.1", "0.5.1", "mxfp4"),
            ("0.5.1", "0.5.23", "bf16"),
            ("0.5.2", "0.5.23", "default"),
            ("0.5.19", "0.5.23", "fp8"),
        ),
    ),
    (
        "fp4-gemm-backend",
        (
            ("0.5.8", "0.5.23", "auto flashinfer_cudnn flashinfer_cutlass flashinfer_trtllm"),
            ("0.5.10", "0.5.15", "cutlass"),
            ("0.5.12", "0.5.23", "flashinfer_cutedsl"),
            ("0.5.13", "0.5.23", "marlin"),
        ),
    ),
    (
        "fp8-gemm-backend",
        (
            ("0.5.7", "0.5.23", "aiter auto cutlass deep_gemm flashinfer_trtllm triton"),
            ("0.5.9", "0.5.23", "flashinfer_deepgemm"),
            ("0.5.10", "0.5.23", "flashinfer_cutlass"),
            ("0.5.18", "0.5.23", "flashinfer_cutedsl"),
        ),
    ),
    (
        "fuseep-mode",
        (("0.5.16", "0.5.23", "1 2"),),
    ),
    (
        "grammar-backend",
        (("0.4.7", "0.5.23", "llguidance none outlines xgrammar"),),
    ),
    (
        "hicache-host-memory-mode",
        (("0.5.19", "0.5.23", "buffer_only cache"),),
    ),
    (
        "hicache-io-backend",
        (
            ("0.4.10", "0.5.23", "direct kernel"),
            ("0.5.6", "0.5.23", "kernel_ascend"),
        ),
    ),
    (
        "hicache-mem-layout",
        (
            ("0.5.0rc2", "0.5.23", "layer_first page_first"),
            ("0.5.3", "0.5.23", "page_first_direct"),
            ("0.5.6", "0.5.23", "page_first_kv_split page_head"),
        ),
    ),
    (
        "hicache-storage-backend",
        (
            ("0.4.10", "0.5.23", "file hf3fs mooncake"),
            ("0.5.0rc2", "0.5.23", "nixl"),
            ("0.5.3", "0.5.23", "aibrix dynamic eic"),
            ("0.5.11", "0.5.23", "simm"),
            ("0.5.15", "0.5.23", "mori"),
            ("0.5.17", "0.5.23", "shm"),
            ("0.5.19", "0.5.23", "sim"),
            ("0.5.20", "0.5.23", "npu_memcache"),
            ("0.5.21", "0.5.23", "tensorcast"),
            ("0.5.22", "0.5.23", "seaweedfs"),
        ),
    ),
    (
        "hicache-storage-prefetch-policy",
        (("0.5.0rc2", "0.5.23", "best_effort timeout wait_complete"),),
    ),
    (
        "hicache-write-policy",
        (("0.4.7", "0.5.23", "write_back write_through write_through_selective"),),
    ),
    (
        "image-processor-backend",
        (("0.5.18", "0.5.23", "auto pil torchvision"),),
    ),
    (
        "kv-cache-dtype",
        (
            ("0.4.7", "0.5.23", "auto fp8_e4m3 fp8_e5m2"),
            ("0.5.4", "0.5.23", "bf16 bfloat16"),
            ("0.5.5", "0.5.20", "fp4_e2m1"),
            ("0.5.16", "0.5.23", "fp4_mx_block16 mxfp8 nvfp4"),
        ),
    ),
    (
        "kv-canary",
        (("0.5.13", "0.5.23", "log none raise"),),
    ),
    (
        "kv-canary-real-data",
        (("0.5.13", "0.5.23", "all none partial"),),
    ),
    (
        "linear-attn-backend linear-attn-decode-backend linear-attn-prefill-backend",
        (
            ("0.5.10", "0.5.23", "cutedsl flashinfer triton"),
            ("0.5.15", "0.5.23", "flashkda"),
            ("0.5.17", "0.5.23", "nvidia_kda ptx_kda"),
            ("0.5.18", "0.5.23", "helion"),
            ("0.5.19", "0.5.23", "intel_xpu"),
        ),
    ),
    (
        "linear-attn-verify-backend",
        (
            ("0.5.17", "0.5.23", "cutedsl flashinfer flashkda nv_cutedsl nvidia_kda ptx_kda triton"),
            ("0.5.18", "0.5.23", "helion"),
            ("0.5.19", "0.5.23", "intel_xpu"),
        ),
    ),
    (
        "load-balance-method",
        (
            ("0.4.7", "0.5.7", "shortest_queue"),
            ("0.4.7", "0.5.23", "round_robin"),
            ("0.5.0rc2", "0.5.7", "minimum_tokens"),
            ("0.5.7", "0.5.7", "decode_round_robin"),
            ("0.5.8", "0.5.23", "auto follow_bootstrap_room total_requests total_tokens"),
        ),
    ),
    (
        "load-format",
        (
            ("0.4.7", "0.5.23", "auto bitsandbytes dummy gguf layered npcache pt remote safetensors sharded_state"),
            ("0.5.3", "0.5.23", "remote_instance"),
            ("0.5.7", "0.5.23", "fastsafetensors flash_rl private"),
            ("0.5.10", "0.5.23", "mistral runai_streamer"),
            ("0.5.17", "0.5.23", "presharded"),
            ("0.5.19", "0.5.23", "expert_pack"),
            ("0.5.22", "0.5.23", "instanttensor"),
        ),
    ),
    (
        "log-requests-format",
        (("0.5.7", "0.5.23", "json text"),),
    ),
    (
        "log-requests-level",
        (
            ("0.4.7", "0.5.23", "0 1 2"),
            ("0.4.9", "0.5.23", "3"),
        ),
    ),
    (
        "lora-backend",
        (
            ("0.5.3", "0.5.23", "csgmv triton"),
            ("0.5.6", "0.5.23", "ascend"),
            ("0.5.7", "0.5.23", "torch_native"),
            ("0.5.23", "0.5.23", "triton_v2"),
        ),
    ),
    (
        "lora-eviction-policy",
        (("0.5.4", "0.5.23", "fifo lru"),),
    ),
    (
        "lora-target-modules",
        (
            ("0.4.10", "0.5.23", "all down_proj gate_proj k_proj o_proj q_proj up_proj v_proj"),
            ("0.5.1", "0.5.23", "gate_up_proj qkv_proj"),
            ("0.5.7", "0.5.23", "embed_tokens lm_head"),
            ("0.5.12", "0.5.23", "kv_a_proj_with_mqa kv_b_proj q_a_proj q_b_proj"),
            ("0.5.14", "0.5.23", "weights_proj wk wq_b"),
            ("0.5.16", "0.5.23", "qkvr wo_ud"),
        ),
    ),
    (
        "mamba-backend",
        (("0.5.9", "0.5.23", "flashinfer triton"),),
    ),
    (
        "mamba-radix-cache-strategy",
        (("0.5.14", "0.5.23", "auto extra_buffer extra_buffer_lazy no_buffer"),),
    ),
    (
        "mamba-scheduler-strategy",
        (
            ("0.5.7", "0.5.13", "auto extra_buffer no_buffer"),
            ("0.5.13", "0.5.13", "extra_buffer_lazy"),
        ),
    ),
    (
        "mamba-ssm-dtype",
        (
            ("0.5.2", "0.5.23", "bfloat16 float32"),
            ("0.5.9", "0.5.23", "float16"),
        ),
    ),
    (
        "max-lora-chunk-size",
        (("0.5.3", "0.5.23", "128 16 32 64"),),
    ),
    (
        "mm-attention-backend",
        (
            ("0.4.7", "0.5.23", "fa3 sdpa triton_attn"),
            ("0.5.3", "0.5.23", "ascend_attn"),
            ("0.5.5", "0.5.23", "aiter_attn"),
            ("0.5.9", "0.5.23", "fa4"),
            ("0.5.10", "0.5.23", "flashinfer_cudnn"),
            ("0.5.13", "0.5.23", "amx_attn xpu_attn"),
        ),
    ),
    (
        "mm-feature-transport",
        (
            ("0.5.16", "0.5.23", "cpu cuda_ipc"),
            ("0.5.18", "0.5.23", "cuda_vmm"),
        ),
    ),
    (
        "mm-global-cache-backend",
        (("0.5.18", "0.5.23", "mooncake"),),
    ),
    (
        "moe-a2a-backend",
        (
            ("0.5.0rc2", "0.5.23", "deepep"),
            ("0.5.1", "0.5.23", "none"),
            ("0.5.4", "0.5.23", "mooncake"),
            ("0.5.6", "0.5.23", "ascend_fuseep"),
            ("0.5.9", "0.5.23", "flashinfer mori"),
            ("0.5.10", "0.5.23", "nixl"),
            ("0.5.12", "0.5.23", "megamoe"),
            ("0.5.16", "0.5.23", "ascend_tp"),
            ("0.5.17", "0.5.23", "pplx"),
            ("0.5.19", "0.5.23", "deepep_v2"),
            ("0.5.20", "0.5.23", "flashinfer_megamoe"),
        ),
    ),
    (
        "moe-runner-backend",
        (
            ("0.5.1", "0.5.23", "auto flashinfer_cutlass flashinfer_mxfp4 flashinfer_trtllm triton triton_kernel"),
            ("0.5.3", "0.5.23", "flashinfer_cutedsl"),
            ("0.5.4", "0.5.23", "cutlass deep_gemm"),
            ("0.5.10", "0.5.23", "flashinfer_trtllm_routed"),
            ("0.5.11", "0.5.23", "aiter"),
            ("0.5.12", "0.5.23", "marlin"),
            ("0.5.13", "0.5.23", "experimental_sgl_trtllm"),
            ("0.5.16", "0.5.23", "experimental_sgl_marlin humming"),
            ("0.5.17", "0.5.23", "hpc_ops"),
            ("0.5.18", "0.5.23", "megamoe"),
            ("0.5.19", "0.5.23", "intel_xpu"),
            ("0.5.20", "0.5.23", "flashinfer_megamoe"),
            ("0.5.23", "0.5.23", "lora_cutedsl lora_marlin lora_triton"),
        ),
    ),
    (
        "monokernel-backend",
        (("0.5.23", "0.5.23", "amd"),),
    ),
    (
        "nsa-decode nsa-prefill",
        (("0.5.3", "0.5.3", "aiter fa3 flashmla_decode flashmla_prefill tilelang"),),
    ),
    (
        "nsa-decode-backend nsa-prefill-backend",
        (
            ("0.5.4", "0.5.19", "aiter fa3 flashmla_kv flashmla_sparse tilelang"),
            ("0.5.5", "0.5.19", "flashmla_auto"),
            ("0.5.9", "0.5.19", "trtllm"),
            ("0.5.16", "0.5.19", "flashmla_sparse_q8"),
            ("0.5.17", "0.5.19", "flashinfer_sparse_mla"),
        ),
    ),
    (
        "nsa-prefill-cp-mode",
        (("0.5.8", "0.5.19", "in-seq-split round-robin-split"),),
    ),
    (
        "piecewise-cuda-graph-compiler",
        (("0.5.4", "0.5.19", "eager inductor"),),
    ),
    (
        "ple-offload-backend",
        (("0.5.20", "0.5.23", "file pinned"),),
    ),
    (
        "prefill-cp-mode",
        (("0.5.10", "0.5.19", "in-seq-split"),),
    ),
    (
        "prefill-kv-cache-dequant-dtype",
        (("0.5.21", "0.5.23", "auto fp8_e4m3 nvfp4"),),
    ),
    (
        "qsa-indexer-dtype",
        (("0.5.22", "0.5.23", "auto bfloat16 fp8_e4m3"),),
    ),
    (
        "quantization",
        (
            ("0.4.7", "0.5.15", "qoq"),
            ("0.4.7", "0.5.19", "marlin"),
            (
                "0.4.7",
                "0.5.23",
                "awq awq_marlin bitsandbytes fp8 gguf gptq gptq_marlin modelopt modelopt_fp4 moe_wna16 w8a8_fp8 "
                "w8a8_int8",
            ),
            ("0.4.10", "0.5.23", "petit_nvfp4 w4afp8"),
            ("0.5.0rc2", "0.5.23", "mxfp4"),
            ("0.5.4", "0.5.23", "compressed-tensors modelopt_fp8"),
            ("0.5.5", "0.5.23", "auto-round"),
            ("0.5.7", "0.5.23", "modelslim"),
            ("0.5.8", "0.5.23", "quark_int4fp8_moe"),
            ("0.5.9", "0.5.23", "mxfp8"),
            ("0.5.10", "0.5.23", "modelopt_mixed"),
            ("0.5.11", "0.5.23", "unquant"),
            ("0.5.12", "0.5.23", "mlx_q4 mlx_q8 quark"),
            ("0.5.13", "0.5.23", "quark_mxfp4"),
            ("0.5.14", "0.5.23", "nvfp4_online"),
            ("0.5.15", "0.5.23", "auto-round-int8 mxfp_w4a8"),
            ("0.5.16", "0.5.23", "humming"),
        ),
    ),
    (
        "radix-eviction-policy",
        (
            ("0.5.3", "0.5.23", "lfu lru"),
            ("0.5.10", "0.5.23", "slru"),
            ("0.5.11", "0.5.23", "priority"),
            ("0.5.21", "0.5.23", "tlru"),
        ),
    ),
    (
        "reasoning-parser",
        (
            ("0.4.7", "0.5.23", "deepseek-r1 qwen3"),
            ("0.4.9", "0.5.23", "kimi"),
            ("0.4.10", "0.5.23", "glm45 qwen3-thinking step3"),
            ("0.5.0rc2", "0.5.23", "gpt-oss"),
            ("0.5.1", "0.5.23", "deepseek-v3"),
            ("0.5.5", "0.5.23", "kimi_k2 minimax minimax-append-think"),
            ("0.5.7", "0.5.9", "nano_v3"),
            ("0.5.7", "0.5.23", "interns1"),
            ("0.5.9", "0.5.23", "step3p5"),
            ("0.5.10", "0.5.23", "mimo mistral nemotron_3"),
            ("0.5.11", "0.5.23", "gemma4 hunyuan"),
            ("0.5.12", "0.5.23", "auto deepseek-v4 poolside_v1"),
            ("0.5.13", "0.5.23", "apertus2509 cohere_command4"),
            ("0.5.16", "0.5.23", "inkling minimax-m3"),
            ("0.5.17", "0.5.23", "kimi_k3"),
            ("0.5.18", "0.5.23", "muse"),
            ("0.5.19", "0.5.23", "dots ling3"),
            ("0.5.20", "0.5.23", "granite_thinking_parser k2_horizon nanbeige"),
            ("0.5.21", "0.5.23", "deepseek-v41 gigachat35 iquest_q1"),
            ("0.5.23", "0.5.23", "beam response_template"),
        ),
    ),
    (
        "remote-instance-weight-loader-backend",
        (
            ("0.5.7", "0.5.23", "nccl transfer_engine"),
            ("0.5.10", "0.5.23", "modelexpress"),
        ),
    ),
    (
        "retraction-policy",
        (("0.5.16", "0.5.23", "length priority"),),
    ),
    (
        "return-hidden-states-mode",
        (("0.5.17", "0.5.23", "full last"),),
    ),
    (
        "rl-on-policy-target",
        (("0.5.5", "0.5.23", "fsdp"),),
    ),
    (
        "sampling-backend",
        (
            ("0.4.7", "0.5.23", "flashinfer pytorch"),
            ("0.5.6", "0.5.23", "ascend"),
            ("0.5.21", "0.5.23", "intel_xpu"),
        ),
    ),
    (
        "sampling-defaults",
        (("0.5.4", "0.5.23", "model openai"),),
    ),
    (
        "schedule-policy",
        (
            ("0.4.7", "0.5.23", "dfs-weight fcfs lpm random"),
            ("0.5.0rc2", "0.5.23", "lof"),
            ("0.5.3", "0.5.23", "priority"),
            ("0.5.8", "0.5.23", "routing-key"),
            ("0.5.20", "0.5.23", "hrrn"),
            ("0.5.21", "0.5.23", "shortest-prefill-first"),
        ),
    ),
    (
        "speculative-algorithm",
        (
            ("0.4.7", "0.5.11", "EAGLE EAGLE3 NEXTN"),
            ("0.5.2", "0.5.11", "STANDALONE"),
            ("0.5.3", "0.5.11", "NGRAM"),
            ("0.5.11", "0.5.11", "DFLASH"),
        ),
    ),
    (
        "speculative-attention-mode",
        (("0.5.2", "0.5.23", "decode prefill"),),
    ),
    (
        "speculative-draft-kv-cache-dtype",
        (("0.5.18", "0.5.23", "auto bf16 bfloat16 fp8_e4m3 fp8_e5m2"),),
    ),
    (
        "speculative-draft-load-format",
        (
            (
                "0.5.4",
                "0.5.23",
                "auto bitsandbytes dummy gguf layered npcache pt remote remote_instance safetensors sharded_state",
            ),
            ("0.5.7", "0.5.23", "fastsafetensors flash_rl private"),
            ("0.5.10", "0.5.23", "mistral runai_streamer"),
            ("0.5.17", "0.5.23", "presharded"),
            ("0.5.19", "0.5.23", "expert_pack"),
            ("0.5.22", "0.5.23", "instanttensor"),
        ),
    ),
    (
        "speculative-draft-model-quantization",
        (
            ("0.5.7", "0.5.15", "qoq"),
            ("0.5.7", "0.5.19", "marlin"),
            (
                "0.5.7",
                "0.5.23",
                "auto-round awq awq_marlin bitsandbytes compressed-tensors fp8 gguf gptq gptq_marlin modelopt "
                "modelopt_fp4 modelopt_fp8 modelslim moe_wna16 mxfp4 petit_nvfp4 unquant w4afp8 w8a8_fp8 "
                "w8a8_int8",
            ),
            ("0.5.8", "0.5.23", "quark_int4fp8_moe"),
            ("0.5.9", "0.5.23", "mxfp8"),
            ("0.5.10", "0.5.23", "modelopt_mixed"),
            ("0.5.12", "0.5.23", "mlx_q4 mlx_q8 quark"),
            ("0.5.13", "0.5.23", "quark_mxfp4"),
            ("0.5.14", "0.5.23", "nvfp4_online"),
            ("0.5.15", "0.5.23", "auto-round-int8 mxfp_w4a8"),
            ("0.5.16", "0.5.23", "humming"),
        ),
    ),
    (
        "speculative-dsa-topk-backend",
        (("0.5.19", "0.5.23", "flashinfer sgl-kernel torch"),),
    ),
    (
        "speculative-moe-a2a-backend",
        (
            ("0.5.7", "0.5.23", "ascend_fuseep deepep mooncake none"),
            ("0.5.9", "0.5.23", "flashinfer mori"),
            ("0.5.10", "0.5.23", "nixl"),
            ("0.5.12", "0.5.23", "megamoe"),
            ("0.5.16", "0.5.23", "ascend_tp"),
            ("0.5.17", "0.5.23", "pplx"),
            ("0.5.19", "0.5.23", "deepep_v2"),
        ),
    ),
    (
        "speculative-moe-runner-backend",
        (
            (
                "0.5.5",
                "0.5.23",
                "auto cutlass deep_gemm flashinfer_cutedsl flashinfer_cutlass flashinfer_mxfp4 flashinfer_trtllm "
                "triton triton_kernel",
            ),
            ("0.5.10", "0.5.23", "flashinfer_trtllm_routed"),
            ("0.5.11", "0.5.23", "aiter"),
            ("0.5.12", "0.5.23", "marlin"),
            ("0.5.13", "0.5.23", "experimental_sgl_trtllm"),
            ("0.5.16", "0.5.23", "experimental_sgl_marlin humming"),
            ("0.5.17", "0.5.23", "hpc_ops"),
            ("0.5.18", "0.5.23", "megamoe"),
            ("0.5.19", "0.5.23", "intel_xpu"),
            ("0.5.20", "0.5.23", "flashinfer_megamoe"),
            ("0.5.23", "0.5.23", "lora_cutedsl lora_marlin lora_triton"),
        ),
    ),
    (
        "speculative-ngram-match-type",
        (("0.5.3", "0.5.23", "BFS PROB"),),
    ),
    (
        "startup-weight-load-mode",
        (("0.5.18", "0.5.23", "overlap serial"),),
    ),
    (
        "tokenizer-backend",
        (("0.5.11", "0.5.23", "fastokens huggingface"),),
    ),
    (
        "tokenizer-mode",
        (("0.4.7", "0.5.23", "auto slow"),),
    ),
    (
        "tool-call-parser",
        (
            ("0.4.7", "0.5.23", "deepseekv3 llama3 mistral pythonic qwen25"),
            ("0.4.10", "0.5.23", "glm45 kimi_k2 qwen3_coder step3"),
            ("0.5.0rc2", "0.5.23", "gpt-oss"),
            ("0.5.2", "0.5.23", "deepseekv31"),
            ("0.5.4", "0.5.23", "glm qwen"),
            ("0.5.5", "0.5.23", "minimax-m2"),
            ("0.5.6", "0.5.23", "deepseekv32"),
            ("0.5.7", "0.5.23", "glm47 interns1 mimo"),
            ("0.5.8", "0.5.23", "trinity"),
            ("0.5.9", "0.5.23", "gigachat3 hermes lfm2 step3p5"),
            ("0.5.11", "0.5.23", "gemma4 hunyuan"),
            ("0.5.12", "0.5.23", "auto deepseekv4 poolside_v1"),
            ("0.5.13", "0.5.23", "apertus2509 cohere_command4 minicpm5"),
            ("0.5.16", "0.5.23", "inkling minimax-m3"),
            ("0.5.17", "0.5.23", "kimi_k3"),
            ("0.5.18", "0.5.23", "muse"),
            ("0.5.19", "0.5.23", "dots ling3 spark25"),
            ("0.5.20", "0.5.23", "k2_horizon nanbeige"),
            ("0.5.21", "0.5.23", "deepseekv41 gigachat35 iquest_q1"),
            ("0.5.23", "0.5.23", "beam response_template"),
        ),
    ),
    (
        "unified-cache-external-linker-backend",
        (
            ("0.5.20", "0.5.23", "mooncake mori"),
            ("0.5.23", "0.5.23", "dynamic"),
        ),
    ),
    (
        "weight-cache-mode",
        (("0.5.17", "0.5.23", "client daemon off"),),
    ),
)
