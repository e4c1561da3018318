# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which releases have which flags of C(sglang.launch_server), as data.

Made by tests/conformance/record_flags.py out of the parsers of the wheels (ServerArgs.add_cli_args, and what reads
their configuration file). Not to be edited.
"""

from __future__ import annotations

# (first release, last release, flags)
LIFETIMES: tuple[tuple[str, str, str], ...] = (
    ("0.4.7", "0.4.7", "enable-flashinfer-mla enable-flashmla"),
    ("0.4.7", "0.4.9", "impl"),
    ("0.4.7", "0.5.1", "pdlb-url"),
    ("0.4.7", "0.5.3", "max-micro-batch-size"),
    ("0.4.7", "0.5.4", "enable-deepep-moe enable-ep-moe"),
    (
        "0.4.7",
        "0.5.10",
        "ds-channel-config-path ds-heavy-channel-num ds-heavy-channel-type ds-heavy-token-num "
        "ds-sparse-decode-threshold enable-double-sparsity",
    ),
    ("0.4.7", "0.5.12", "enable-nan-detection"),
    ("0.4.7", "0.5.13", "debug-tensor-dump-inject"),
    ("0.4.7", "0.5.17", "torchao-config"),
    (
        "0.4.7",
        "0.5.19",
        "collect-tokens-histogram cuda-graph-bs cuda-graph-max-bs enable-expert-distribution-metrics stream-output",
    ),
    (
        "0.4.7",
        "0.5.23",
        "allow-auto-truncate api-key attention-backend base-gpu-id bucket-e2e-request-latency "
        "bucket-inter-token-latency bucket-time-to-first-token chat-template chunked-prefill-size "
        "completion-template constrained-json-whitespace-pattern context-length cpu-offload-gb data-parallel-size "
        "debug-tensor-dump-input-file debug-tensor-dump-output-folder decode-log-interval deepep-config "
        "deepep-mode delete-ckpt-after-loading device disable-chunked-prefix-cache disable-cuda-graph "
        "disable-cuda-graph-padding disable-custom-all-reduce disable-fast-image-processor "
        "disable-outlines-disk-cache disable-overlap-schedule disable-radix-cache disable-shared-experts-fusion "
        "disaggregation-bootstrap-port disaggregation-ib-device disaggregation-mode "
        "disaggregation-transfer-backend dist-init-addr dist-timeout download-dir dp-size dtype "
        "enable-cache-report enable-custom-logit-processor enable-dp-attention enable-dp-lm-head enable-eplb "
        "enable-hierarchical-cache enable-memory-saver enable-metrics enable-mixed-chunk enable-mscclpp "
        "enable-multimodal enable-nccl-nvls enable-p2p-check enable-request-time-stats-logging "
        "enable-tokenizer-batch-encode enable-torch-compile enable-two-batch-overlap ep-dispatch-algorithm "
        "ep-num-redundant-experts ep-size eplb-algorithm eplb-rebalance-layers-per-chunk "
        "eplb-rebalance-num-iterations expert-distribution-recorder-buffer-size expert-distribution-recorder-mode "
        "expert-parallel-size file-storage-path flashinfer-mla-disable-ragged gpu-id-step grammar-backend "
        "hicache-ratio hicache-size hicache-write-policy host init-expert-location is-embedding "
        "json-model-override-args kv-cache-dtype kv-events-config load-balance-method load-format log-level "
        "log-level-http log-requests log-requests-level lora-backend lora-paths max-loras-per-batch "
        "max-prefill-tokens max-running-requests max-total-tokens mem-fraction-static mm-attention-backend "
        "model-path moe-dense-tp-size nccl-init-addr nnodes node-rank num-continuous-decode-steps page-size "
        "pipeline-parallel-size port pp-size preferred-sampling-params quantization quantization-param-path "
        "random-seed reasoning-parser revision sampling-backend schedule-conservativeness schedule-policy "
        "served-model-name show-time-cost skip-tokenizer-init speculative-accept-threshold-acc "
        "speculative-accept-threshold-single speculative-algorithm speculative-draft-model-path "
        "speculative-eagle-topk speculative-num-draft-tokens speculative-num-steps speculative-token-map "
        "stream-interval tensor-parallel-size tokenizer-mode tokenizer-path tool-call-parser torch-compile-max-bs "
        "tp-size triton-attention-num-kv-splits triton-attention-reduce-in-fp32 trust-remote-code warmups "
        "watchdog-timeout",
    ),
    ("0.4.8", "0.4.9", "disable-overlap-cg-plan enable-flashinfer-moe"),
    ("0.4.8", "0.5.3", "debug-tensor-dump-prefill-only"),
    ("0.4.8", "0.5.9", "disaggregation-decode-dp disaggregation-decode-tp disaggregation-prefill-pp"),
    (
        "0.4.8",
        "0.5.23",
        "custom-weight-loader enable-profile-cuda-graph enable-return-hidden-states num-reserved-decode-tokens "
        "sleep-on-idle weight-loader-disable-mmap",
    ),
    ("0.4.9", "0.5.13", "hybrid-kvcache-ratio"),
    (
        "0.4.9",
        "0.5.23",
        "crash-dump-folder enable-flashinfer-allreduce-fusion model model-loader-extra-config nccl-port "
        "skip-server-warmup",
    ),
    ("0.4.10", "0.5.4", "enable-flashinfer-cutlass-moe enable-flashinfer-trtllm-moe enable-triton-kernel-moe"),
    (
        "0.4.10",
        "0.5.23",
        "decode-attention-backend disable-hybrid-swa-memory enable-lora enable-metrics-for-all-schedulers "
        "enable-pdmux ep hicache-io-backend hicache-storage-backend lora-target-modules max-lora-rank "
        "max-queued-requests model-impl prefill-attention-backend sm-group-num swa-full-tokens-ratio",
    ),
    ("0.5.0rc2", "0.5.4", "enable-flashinfer-mxfp4-moe"),
    (
        "0.5.0rc2",
        "0.5.23",
        "enable-cudagraph-gc enable-symm-mem hicache-mem-layout hicache-storage-prefetch-policy max-loaded-loras "
        "moe-a2a-backend scheduler-recv-interval tbo-token-distribution-threshold tool-server weight-version",
    ),
    (
        "0.5.1",
        "0.5.23",
        "disable-flashinfer-cutlass-moe-fp4-allgather flashinfer-mxfp4-moe-precision gc-warning-threshold-secs "
        "moe-runner-backend offload-group-size offload-mode offload-num-in-group offload-prefetch-step",
    ),
    ("0.5.2", "0.5.19", "prefill-round-robin-balance"),
    (
        "0.5.2",
        "0.5.23",
        "enable-lmcache eplb-min-rebalancing-utilization-threshold generation-tokens-buckets "
        "hicache-storage-backend-extra-config mamba-ssm-dtype max-mamba-cache-size numa-node "
        "prompt-tokens-buckets speculative-attention-mode speculative-draft-model "
        "speculative-draft-model-revision tokenizer-worker-num",
    ),
    ("0.5.3", "0.5.3", "nsa-decode nsa-prefill"),
    ("0.5.3", "0.5.4", "enable-flashinfer-cutedsl-moe oltp-traces-endpoint"),
    ("0.5.3", "0.5.6", "load-watch-interval"),
    (
        "0.5.3",
        "0.5.9",
        "speculative-ngram-branch-length speculative-ngram-max-match-window-size "
        "speculative-ngram-min-match-window-size",
    ),
    ("0.5.3", "0.5.20", "keep-mm-feature-on-device"),
    (
        "0.5.3",
        "0.5.23",
        "disaggregation-decode-enable-offload-kvcache disaggregation-decode-polling-interval "
        "dynamic-batch-tokenizer-batch-size dynamic-batch-tokenizer-batch-timeout enable-deterministic-inference "
        "enable-dynamic-batch-tokenizer enable-fp32-lm-head enable-priority-scheduling "
        "enable-single-batch-overlap enable-torch-symm-mem enable-trace enable-weights-cpu-backup "
        "max-lora-chunk-size priority-scheduling-preemption-threshold radix-eviction-policy "
        "remote-instance-weight-loader-seed-instance-ip remote-instance-weight-loader-seed-instance-service-port "
        "remote-instance-weight-loader-send-weights-group-ports schedule-low-priority-values-first "
        "speculative-ngram-capacity speculative-ngram-match-type speculative-ngram-max-bfs-breadth "
        "speculative-ngram-min-bfs-breadth tokenizer-metrics-allowed-custom-labels "
        "tokenizer-metrics-custom-labels-header triton-attention-split-tile-size",
    ),
    ("0.5.4", "0.5.4", "enable-beta-spec"),
    ("0.5.4", "0.5.5", "kt-amx-method kt-amx-weight-path"),
    ("0.5.4", "0.5.10", "multi-item-scoring-delimiter"),
    ("0.5.4", "0.5.13", "enable-piecewise-cuda-graph"),
    (
        "0.5.4",
        "0.5.19",
        "nsa-decode-backend nsa-prefill-backend piecewise-cuda-graph-compiler piecewise-cuda-graph-max-tokens "
        "piecewise-cuda-graph-tokens",
    ),
    (
        "0.5.4",
        "0.5.23",
        "abort-on-priority-when-disabled checkpoint-engine-wait-weights-before-ready "
        "constrained-json-disable-any-whitespace disable-tokenizer-batch-decode elastic-ep-backend grpc-mode "
        "kt-cpuinfer kt-num-gpu-experts kt-threadpool-count lora-eviction-policy mamba-full-memory-ratio "
        "modelopt-checkpoint-restore-path modelopt-checkpoint-save-path modelopt-export-path modelopt-quant "
        "mooncake-ib-device pdmux-config-path pp-max-micro-batch-size quantize-and-serve sampling-defaults "
        "speculative-draft-load-format",
    ),
    ("0.5.5", "0.5.9", "mm-max-concurrent-calls mm-per-request-timeout"),
    (
        "0.5.5",
        "0.5.23",
        "debug-tensor-dump-layers decrypted-config-file decrypted-draft-config-file "
        "kt-max-deferred-experts-per-token otlp-traces-endpoint rl-on-policy-target "
        "speculative-moe-runner-backend",
    ),
    ("0.5.6", "0.5.6", "dllm-block-size enable-flashinfer-autotune"),
    ("0.5.6", "0.5.19", "enable-nsa-prefill-context-parallel"),
    (
        "0.5.6",
        "0.5.23",
        "dllm-algorithm enable-attn-tp-input-scattered enable-broadcast-mm-inputs-process "
        "enable-draft-weights-cpu-backup enable-layerwise-nvtx-marker enable-torch-compile-debug-mode "
        "export-metrics-to-file export-metrics-to-file-dir fastapi-root-path forward-hooks kt-method "
        "kt-weight-path mm-enable-dp-encoder mm-process-config",
    ),
    ("0.5.7", "0.5.8", "disaggregation-decode-enable-fake-auto"),
    ("0.5.7", "0.5.13", "custom-sigquit-handler"),
    ("0.5.7", "0.5.19", "mamba-scheduler-strategy"),
    (
        "0.5.7",
        "0.5.23",
        "disable-flashinfer-autotune dllm-algorithm-config enable-dynamic-chunking enable-fused-qk-norm-rope "
        "enable-multi-layer-eagle enable-precise-embedding-interpolation enable-prefix-mm-cache "
        "enable-return-routed-experts encoder-only encoder-transfer-backend encoder-urls fp8-gemm-backend "
        "language-only limit-mm-data-per-request log-requests-format mamba-track-interval pp-async-batch-depth "
        "prefill-max-requests remote-instance-weight-loader-backend "
        "remote-instance-weight-loader-start-seed-via-transfer-engine rl-quant-profile soft-watchdog-timeout "
        "speculative-draft-attention-backend speculative-draft-model-quantization speculative-moe-a2a-backend",
    ),
    ("0.5.8", "0.5.9", "disable-hicache-numa-detect hierarchical-sparse-attention-extra-config"),
    ("0.5.8", "0.5.19", "nsa-prefill-cp-mode"),
    (
        "0.5.8",
        "0.5.23",
        "admin-api-key enable-lora-overlap-loading enable-prefill-delayer fp4-gemm-backend hf-chat-template-name "
        "log-requests-target model-checksum prefill-delayer-forward-passes-buckets "
        "prefill-delayer-max-delay-passes prefill-delayer-token-usage-low-watermark "
        "prefill-delayer-wait-seconds-buckets uvicorn-access-log-exclude-prefixes",
    ),
    (
        "0.5.9",
        "0.5.23",
        "attention-context-parallel-size attn-cp-size extra-metric-labels mamba-backend moe-data-parallel-size "
        "moe-dp-size",
    ),
    (
        "0.5.10",
        "0.5.19",
        "disable-piecewise-cuda-graph enable-prefill-context-parallel enforce-piecewise-cuda-graph prefill-cp-mode",
    ),
    (
        "0.5.10",
        "0.5.23",
        "default-priority-value disable-priority-preemption enable-adaptive-dispatch-to-encoder "
        "enable-aiter-allreduce-fusion enable-elastic-expert-backup enable-fused-moe-sum-all-reduce "
        "enable-hisparse enable-mfu-metrics enable-mm-global-cache enable-ssl-refresh enable-streaming-session "
        "enforce-disable-flashinfer-allreduce-fusion engine-info-bootstrap-port experts-shared-outer-loras "
        "gc-threshold hisparse-config incremental-streaming-output linear-attn-backend linear-attn-decode-backend "
        "linear-attn-prefill-backend modelexpress-config no-experts-shared-outer-loras pre-warm-nccl "
        "speculative-ngram-max-trie-depth ssl-ca-certs ssl-certfile ssl-keyfile ssl-keyfile-password "
        "stream-response-default-include-usage use-ray",
    ),
    ("0.5.11", "0.5.12", "no-record-nolora-graph record-nolora-graph"),
    ("0.5.11", "0.5.19", "enable-breakable-cuda-graph speculative-dflash-draft-window-size"),
    ("0.5.11", "0.5.20", "elastic-ep-rejoin"),
    ("0.5.11", "0.5.22", "speculative-skip-dp-mlp-sync"),
    (
        "0.5.11",
        "0.5.23",
        "batch-notify-size debug-cuda-graph disaggregation-decode-enable-radix-cache "
        "enable-dp-attention-local-control-broadcast enable-http2 enable-mis enable-quant-communications "
        "enforce-shared-experts-fusion grpc-http-sidecar-port lora-strict-loading lora-use-virtual-experts "
        "msprobe-dump-config no-lora-strict-loading speculative-adaptive speculative-adaptive-config "
        "speculative-dflash-block-size speculative-ngram-external-corpus-max-tokens "
        "speculative-ngram-external-corpus-path speculative-ngram-external-sam-budget strip-thinking-cache "
        "tokenizer-backend weight-loader-prefetch-checkpoints weight-loader-prefetch-num-threads",
    ),
    ("0.5.12", "0.5.15", "enable-deepep-waterfill"),
    (
        "0.5.12",
        "0.5.23",
        "detokenizer-worker-num enable-forward-pass-metrics enable-return-indexer-topk enable-strict-thinking "
        "forward-pass-metrics-ipc-name forward-pass-metrics-worker-id hierarchical-sparse-attention-extra-config "
        "lora-drain-wait-threshold model-config-parser prefill-delayer-max-delay-ms "
        "prefill-delayer-queue-min-ratio prefill-only-disable-kv-cache speculative-draft-window-size "
        "weight-loader-drop-cache-after-load",
    ),
    ("0.5.13", "0.5.15", "optimistic-prefill-retries"),
    ("0.5.13", "0.5.19", "dsa-prefill-cp-mode enable-dsa-prefill-context-parallel"),
    (
        "0.5.13",
        "0.5.23",
        "asr-max-buffer-seconds asr-max-concurrent-sessions deepep-dispatcher-output-dtype disable-attn-tp-gather "
        "dsa-decode-backend dsa-prefill-backend dsa-topk-backend enable-deepseek-v4-fp4-indexer "
        "encoder-bootstrap-port encoder-register-urls kv-canary kv-canary-real-data kv-canary-sweep-interval "
        "lmcache-config-file load-snapshot-publish-interval radix-cache-backend trace-modules",
    ),
    ("0.5.14", "0.5.21", "cuda-graph-tc-compiler"),
    (
        "0.5.14",
        "0.5.23",
        "cp-strategy cuda-graph-backend-decode cuda-graph-backend-prefill cuda-graph-bs-decode "
        "cuda-graph-bs-prefill cuda-graph-config cuda-graph-max-bs-decode cuda-graph-max-bs-prefill "
        "disable-decode-cuda-graph disable-prefill-cuda-graph disaggregation-decode-extra-slots "
        "enable-int8-mamba-checkpoint enable-prefill-cp flashinfer-allreduce-fusion-backend int8-mamba-ckpt-size "
        "mamba-radix-cache-strategy speculative-use-rejection-sampling",
    ),
    (
        "0.5.15",
        "0.5.23",
        "bf16-gemm-backend dcp-size decode-context-parallel-size decoupled-spec-bind-endpoint "
        "decoupled-spec-connect-endpoints decoupled-spec-rank decoupled-spec-role dsa-paged-mqa-logits-backend "
        "enable-linear-replayssm enable-mamba-cache-stochastic-rounding enable-page-major-kv-layout "
        "enable-session-radix-cache enable-tf32-matmul enable-unified-memory linear-replayssm-cache-len "
        "mamba-cache-philox-rounds min-free-slots-delay spec-trace-dir",
    ),
    ("0.5.16", "0.5.19", "enable-gdn-replayssm-spec"),
    (
        "0.5.16",
        "0.5.23",
        "default-chat-template-kwargs dllm-fdfo elastic-ep-initial-size elastic-ep-join-mode "
        "elastic-ep-join-rank-offset elastic-ep-scale-timeout enable-dsa-cache-layer-split enable-flexkv "
        "enable-scattered-sconv enable-waterfill flexkv-config-file fuseep-mode grpc-port max-ep-size "
        "mm-feature-transport no-dllm-fdfo optimistic-prefill-attempts retraction-policy sidecar sidecar-args "
        "smg-grpc-mode smg-http-sidecar-port speculative-dspark-align-verify-tokens-to-graph-tier "
        "speculative-dspark-block-size speculative-dspark-confidence-sts-path speculative-dspark-sps-table-path",
    ),
    (
        "0.5.17",
        "0.5.23",
        "dcp-comm-backend dcp-replicate-q-proj dwdp-size enable-cp-decode-attn-tp enable-linear-replayssm-spec "
        "flashinfer-autotune-skip-ops linear-attn-verify-backend mamba-max-states-per-path mm-io-worker-num "
        "mm-processor-worker-num no-dcp-replicate-q-proj return-hidden-states-mode weight-cache-mode "
        "weight-cache-socket weight-cache-timeout",
    ),
    (
        "0.5.18",
        "0.5.23",
        "allowed-media-domains c128-page-size disaggregation-decode-retraction-backup "
        "enable-tp-lm-head-all-to-all expert-balancedness-report-mode http2-max-concurrent-streams "
        "image-processor-backend language-model-only media-url-max-file-size-mb mlx-enable-sampling "
        "mm-global-cache-backend mm-preprocess-cache-size-mb no-enable-tp-lm-head-all-to-all "
        "speculative-draft-kv-cache-dtype startup-weight-load-mode trust-mm-content-hashes",
    ),
    (
        "0.5.19",
        "0.5.23",
        "deepep-v2-mode dsv4-prefill-backend enable-dense-mlp-attn-tp enable-layernorm-sp enable-lean-attention "
        "enable-shared-experts-attn-tp enable-w4a4-mxfp4-megamoe gated-launch-port hicache-host-memory-mode "
        "hicache-storage-prefetch-retry-max-attempts hicache-storage-prefetch-retry-poll-interval "
        "http2-initial-connection-window-size load-publish-endpoint prefill-decode-interval "
        "speculative-dsa-topk-backend",
    ),
    (
        "0.5.20",
        "0.5.23",
        "dsv4-attn-backend enable-response-store enable-unified-cache-external-linker "
        "flashinfer-a2a-dispatch-type no-ple-offload-embedding ple-offload-backend ple-offload-dir "
        "ple-offload-embedding radix-eviction-policy-config return-input-ids return-output-ids "
        "sampling-mask-max-tokens speculative-domino-candidate-pool-size unified-cache-external-linker-backend "
        "uno-lora-path",
    ),
    (
        "0.5.21",
        "0.5.23",
        "boundary-reduction constrained-json-max-whitespace-cnt context-bucket cuda-graph-max-seq-len-prefill "
        "cuda-graph-prefill-max-context disable-aiter-allreduce-fusion-in-decode "
        "disable-aiter-allreduce-fusion-in-prefill disaggregation-decode-host-receive-threshold "
        "disaggregation-enable-kv-checksum enable-decoder-swa-bounded-replay enable-encoder-swa-bounded-replay "
        "enable-linker-mla-dedup enable-pd-role-switch grpc-response-timeout-secs hicache-host-memory-fraction "
        "otlp-service-name prefill-kv-cache-dequant-dtype shared-experts-tp-size speculative-draft-sink-size "
        "swa-prefix-tails trust-request-chat-template",
    ),
    (
        "0.5.22",
        "0.5.23",
        "attention-data-parallel-size attn-dp-size disaggregation-decode-allocation-policy dsa-triton-union "
        "enable-dsa-fused-indexer enable-kv-cache-sharding enable-watermark no-enable-dsa-fused-indexer "
        "no-speculative-enable-w4a4-mxfp4-megamoe qsa-indexer-dtype speculative-enable-w4a4-mxfp4-megamoe "
        "speculative-use-block-verification watermark-config",
    ),
    (
        "0.5.23",
        "0.5.23",
        "enable-amd-monokernel enable-hicache enable-http-worker-reuseport enable-megamoe-for-layernorm-sp "
        "enable-nvidia-megakernel enable-paged-experts enable-return-aux-hidden-states monokernel-backend "
        "no-enable-decoder-swa-bounded-replay no-enable-fused-qk-norm-rope no-enable-tf32-matmul "
        "no-mm-enable-dp-encoder paged-experts-num-resident prefill-decode-interval-min-bs "
        "return-aux-hidden-state-layer-ids unified-cache-external-linker-config",
    ),
)
# On the command line and not in the configuration file, of releases that read one.
NOT_IN_FILE: tuple[tuple[str, str, str], ...] = (
    ("0.5.8", "0.5.13", "hybrid-kvcache-ratio"),
    ("0.5.8", "0.5.19", "prefill-round-robin-balance"),
    ("0.5.8", "0.5.23", "lora-paths"),
    ("0.5.10", "0.5.13", "enable-piecewise-cuda-graph"),
    ("0.5.10", "0.5.19", "incremental-streaming-output stream-output"),
    ("0.5.10", "0.5.23", "experts-shared-outer-loras no-experts-shared-outer-loras"),
    ("0.5.11", "0.5.12", "no-record-nolora-graph record-nolora-graph"),
    ("0.5.11", "0.5.19", "collect-tokens-histogram"),
    ("0.5.11", "0.5.23", "lora-strict-loading no-lora-strict-loading"),
    (
        "0.5.13",
        "0.5.19",
        "dsa-decode-backend dsa-prefill-backend dsa-prefill-cp-mode enable-dsa-prefill-context-parallel "
        "enable-nsa-prefill-context-parallel speculative-draft-window-size",
    ),
    (
        "0.5.14",
        "0.5.19",
        "cuda-graph-backend-prefill cuda-graph-bs-decode cuda-graph-bs-prefill cuda-graph-max-bs-decode "
        "cuda-graph-max-bs-prefill cuda-graph-tc-compiler disable-piecewise-cuda-graph "
        "enable-breakable-cuda-graph enable-prefill-context-parallel enforce-piecewise-cuda-graph "
        "mamba-radix-cache-strategy prefill-cp-mode",
    ),
    ("0.5.14", "0.5.23", "disable-cuda-graph"),
    ("0.5.16", "0.5.23", "dllm-fdfo no-dllm-fdfo"),
    ("0.5.17", "0.5.19", "enable-gdn-replayssm-spec enable-linear-replayssm-spec"),
    ("0.5.17", "0.5.23", "dcp-replicate-q-proj no-dcp-replicate-q-proj"),
    ("0.5.18", "0.5.19", "enable-expert-distribution-metrics"),
    ("0.5.18", "0.5.23", "enable-tp-lm-head-all-to-all no-enable-tp-lm-head-all-to-all"),
    ("0.5.20", "0.5.23", "no-ple-offload-embedding ple-offload-embedding"),
    (
        "0.5.22",
        "0.5.23",
        "enable-dp-attention enable-dsa-fused-indexer no-enable-dsa-fused-indexer "
        "no-speculative-enable-w4a4-mxfp4-megamoe speculative-enable-w4a4-mxfp4-megamoe",
    ),
    (
        "0.5.23",
        "0.5.23",
        "enable-decoder-swa-bounded-replay enable-fused-qk-norm-rope enable-tf32-matmul mm-enable-dp-encoder "
        "no-enable-decoder-swa-bounded-replay no-enable-fused-qk-norm-rope no-enable-tf32-matmul "
        "no-mm-enable-dp-encoder",
    ),
)
# Flags that one release at least stores in the same field.
SAME_FIELD: tuple[str, ...] = (
    "attention-context-parallel-size attn-cp-size",
    "attention-data-parallel-size attn-dp-size",
    "context-bucket cuda-graph-prefill-max-context",
    "cuda-graph-bs cuda-graph-bs-decode",
    "cuda-graph-bs-prefill piecewise-cuda-graph-tokens",
    "cuda-graph-max-bs cuda-graph-max-bs-decode",
    "cuda-graph-max-bs-prefill piecewise-cuda-graph-max-tokens",
    "cuda-graph-tc-compiler piecewise-cuda-graph-compiler",
    "data-parallel-size dp-size",
    "dcp-size decode-context-parallel-size",
    "dist-init-addr nccl-init-addr",
    "dsa-decode-backend nsa-decode-backend",
    "dsa-prefill-backend nsa-prefill-backend",
    "dsa-prefill-cp-mode nsa-prefill-cp-mode",
    "enable-dsa-prefill-context-parallel enable-nsa-prefill-context-parallel",
    "enable-gdn-replayssm-spec enable-linear-replayssm-spec",
    "enable-hicache enable-hierarchical-cache",
    "ep ep-size expert-parallel-size",
    "grpc-http-sidecar-port smg-http-sidecar-port",
    "hierarchical-sparse-attention-extra-config hisparse-config",
    "incremental-streaming-output stream-output",
    "mamba-radix-cache-strategy mamba-scheduler-strategy",
    "model model-path",
    "moe-data-parallel-size moe-dp-size",
    "pipeline-parallel-size pp-size",
    "speculative-dflash-draft-window-size speculative-draft-window-size",
    "speculative-draft-model speculative-draft-model-path",
    "tensor-parallel-size tp-size",
)
TAKES_NOTHING = (
    "abort-on-priority-when-disabled allow-auto-truncate checkpoint-engine-wait-weights-before-ready "
    "collect-tokens-histogram constrained-json-disable-any-whitespace dcp-replicate-q-proj debug-cuda-graph "
    "debug-tensor-dump-prefill-only delete-ckpt-after-loading disable-aiter-allreduce-fusion-in-decode "
    "disable-aiter-allreduce-fusion-in-prefill disable-attn-tp-gather disable-chunked-prefix-cache "
    "disable-cuda-graph disable-cuda-graph-padding disable-custom-all-reduce disable-decode-cuda-graph "
    "disable-fast-image-processor disable-flashinfer-autotune disable-flashinfer-cutlass-moe-fp4-allgather "
    "disable-hicache-numa-detect disable-hybrid-swa-memory disable-outlines-disk-cache disable-overlap-cg-plan "
    "disable-overlap-schedule disable-piecewise-cuda-graph disable-prefill-cuda-graph disable-priority-preemption "
    "disable-radix-cache disable-shared-experts-fusion disable-tokenizer-batch-decode "
    "disaggregation-decode-enable-fake-auto disaggregation-decode-enable-offload-kvcache "
    "disaggregation-decode-enable-radix-cache disaggregation-enable-kv-checksum dllm-fdfo elastic-ep-rejoin "
    "enable-adaptive-dispatch-to-encoder enable-aiter-allreduce-fusion enable-amd-monokernel "
    "enable-attn-tp-input-scattered enable-beta-spec enable-breakable-cuda-graph "
    "enable-broadcast-mm-inputs-process enable-cache-report enable-cp-decode-attn-tp enable-cudagraph-gc "
    "enable-custom-logit-processor enable-decoder-swa-bounded-replay enable-deepep-moe enable-deepep-waterfill "
    "enable-deepseek-v4-fp4-indexer enable-dense-mlp-attn-tp enable-deterministic-inference "
    "enable-double-sparsity enable-dp-attention enable-dp-attention-local-control-broadcast enable-dp-lm-head "
    "enable-draft-weights-cpu-backup enable-dsa-cache-layer-split enable-dsa-fused-indexer "
    "enable-dsa-prefill-context-parallel enable-dynamic-batch-tokenizer enable-dynamic-chunking "
    "enable-elastic-expert-backup enable-encoder-swa-bounded-replay enable-ep-moe enable-eplb "
    "enable-expert-distribution-metrics enable-flashinfer-allreduce-fusion enable-flashinfer-autotune "
    "enable-flashinfer-cutedsl-moe enable-flashinfer-cutlass-moe enable-flashinfer-mla enable-flashinfer-moe "
    "enable-flashinfer-mxfp4-moe enable-flashinfer-trtllm-moe enable-flashmla enable-flexkv "
    "enable-forward-pass-metrics enable-fp32-lm-head enable-fused-moe-sum-all-reduce enable-fused-qk-norm-rope "
    "enable-gdn-replayssm-spec enable-hicache enable-hierarchical-cache enable-hisparse "
    "enable-http-worker-reuseport enable-http2 enable-int8-mamba-checkpoint enable-kv-cache-sharding "
    "enable-layernorm-sp enable-layerwise-nvtx-marker enable-lean-attention enable-linear-replayssm "
    "enable-linear-replayssm-spec enable-linker-mla-dedup enable-lmcache enable-lora enable-lora-overlap-loading "
    "enable-mamba-cache-stochastic-rounding enable-megamoe-for-layernorm-sp enable-memory-saver enable-metrics "
    "enable-metrics-for-all-schedulers enable-mfu-metrics enable-mis enable-mixed-chunk enable-mm-global-cache "
    "enable-mscclpp enable-multi-layer-eagle enable-multimodal enable-nan-detection enable-nccl-nvls "
    "enable-nsa-prefill-context-parallel enable-nvidia-megakernel enable-p2p-check enable-page-major-kv-layout "
    "enable-paged-experts enable-pd-role-switch enable-pdmux enable-piecewise-cuda-graph "
    "enable-precise-embedding-interpolation enable-prefill-context-parallel enable-prefill-cp "
    "enable-prefill-delayer enable-prefix-mm-cache enable-priority-scheduling enable-profile-cuda-graph "
    "enable-quant-communications enable-request-time-stats-logging enable-response-store "
    "enable-return-aux-hidden-states enable-return-hidden-states enable-return-indexer-topk "
    "enable-return-routed-experts enable-scattered-sconv enable-session-radix-cache enable-shared-experts-attn-tp "
    "enable-single-batch-overlap enable-ssl-refresh enable-streaming-session enable-strict-thinking "
    "enable-symm-mem enable-tf32-matmul enable-tokenizer-batch-encode enable-torch-compile "
    "enable-torch-compile-debug-mode enable-torch-symm-mem enable-tp-lm-head-all-to-all enable-trace "
    "enable-triton-kernel-moe enable-two-batch-overlap enable-unified-cache-external-linker enable-unified-memory "
    "enable-w4a4-mxfp4-megamoe enable-waterfill enable-watermark enable-weights-cpu-backup encoder-only "
    "enforce-disable-flashinfer-allreduce-fusion enforce-piecewise-cuda-graph enforce-shared-experts-fusion "
    "experts-shared-outer-loras export-metrics-to-file flashinfer-mla-disable-ragged grpc-mode "
    "hybrid-kvcache-ratio incremental-streaming-output is-embedding keep-mm-feature-on-device language-model-only "
    "language-only log-requests lora-strict-loading lora-use-virtual-experts mlx-enable-sampling "
    "mm-enable-dp-encoder no-dcp-replicate-q-proj no-dllm-fdfo no-enable-decoder-swa-bounded-replay "
    "no-enable-dsa-fused-indexer no-enable-fused-qk-norm-rope no-enable-tf32-matmul "
    "no-enable-tp-lm-head-all-to-all no-experts-shared-outer-loras no-lora-strict-loading no-mm-enable-dp-encoder "
    "no-ple-offload-embedding no-record-nolora-graph no-speculative-enable-w4a4-mxfp4-megamoe "
    "ple-offload-embedding pre-warm-nccl prefill-only-disable-kv-cache prefill-round-robin-balance "
    "quantize-and-serve record-nolora-graph remote-instance-weight-loader-start-seed-via-transfer-engine "
    "return-input-ids return-output-ids schedule-low-priority-values-first show-time-cost skip-server-warmup "
    "skip-tokenizer-init sleep-on-idle smg-grpc-mode speculative-adaptive "
    "speculative-dspark-align-verify-tokens-to-graph-tier speculative-enable-w4a4-mxfp4-megamoe "
    "speculative-skip-dp-mlp-sync speculative-use-block-verification speculative-use-rejection-sampling "
    "stream-output stream-response-default-include-usage strip-thinking-cache triton-attention-reduce-in-fp32 "
    "trust-mm-content-hashes trust-remote-code trust-request-chat-template use-ray weight-loader-disable-mmap "
    "weight-loader-drop-cache-after-load weight-loader-prefetch-checkpoints"
)
TAKES_LIST = (
    "allowed-media-domains bucket-e2e-request-latency bucket-inter-token-latency bucket-time-to-first-token "
    "cuda-graph-bs cuda-graph-bs-decode cuda-graph-bs-prefill custom-weight-loader debug-tensor-dump-layers "
    "encoder-register-urls encoder-urls flashinfer-autotune-skip-ops gc-threshold generation-tokens-buckets "
    "log-requests-target lora-paths lora-target-modules numa-node piecewise-cuda-graph-tokens "
    "prefill-delayer-forward-passes-buckets prefill-delayer-wait-seconds-buckets prompt-tokens-buckets "
    "return-aux-hidden-state-layer-ids tokenizer-metrics-allowed-custom-labels "
    "uvicorn-access-log-exclude-prefixes"
)
