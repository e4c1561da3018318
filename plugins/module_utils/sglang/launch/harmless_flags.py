# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Flags that leave the memory of GPUs and the pinned memory of the host as a plan has them (arg_groups/fields/ of
0.5.23).

What a kernel needs while it runs comes out of the reserve for activations, as without the flag.
"""

from __future__ import annotations

_BY_SUBJECT = {
    "how the server is reached": """
        fastapi-root-path grpc-mode grpc-response-timeout-secs smg-grpc-mode sidecar sidecar-args enable-http2
        http2-initial-connection-window-size http2-max-concurrent-streams enable-http-worker-reuseport
        enable-ssl-refresh ssl-ca-certs ssl-certfile ssl-keyfile tool-server warmups skip-server-warmup
        dist-init-addr nccl-init-addr dist-timeout watchdog-timeout soft-watchdog-timeout sleep-on-idle
        gc-threshold gc-warning-threshold-secs""",
    "what is asked and answered": """
        allow-auto-truncate allowed-media-domains asr-max-buffer-seconds asr-max-concurrent-sessions
        batch-notify-size chat-template completion-template constrained-json-disable-any-whitespace
        constrained-json-max-whitespace-cnt constrained-json-whitespace-pattern default-chat-template-kwargs
        disable-outlines-disk-cache enable-cache-report enable-custom-logit-processor enable-strict-thinking
        enable-watermark watermark-config file-storage-path grammar-backend hf-chat-template-name
        incremental-streaming-output preferred-sampling-params random-seed reasoning-parser return-input-ids
        return-output-ids sampling-backend sampling-defaults sampling-mask-max-tokens stream-interval
        stream-response-default-include-usage tool-call-parser trust-request-chat-template""",
    "tokenizers and media, which work in processes of the CPU": """
        detokenizer-worker-num disable-fast-image-processor disable-tokenizer-batch-decode
        dynamic-batch-tokenizer-batch-size dynamic-batch-tokenizer-batch-timeout enable-broadcast-mm-inputs-process
        enable-dynamic-batch-tokenizer enable-precise-embedding-interpolation enable-tokenizer-batch-encode
        image-processor-backend limit-mm-data-per-request media-url-max-file-size-mb mm-attention-backend
        mm-io-worker-num mm-process-config mm-processor-worker-num skip-tokenizer-init tokenizer-backend
        tokenizer-mode tokenizer-path tokenizer-worker-num trust-mm-content-hashes""",
    "logs, metrics and traces": """
        bucket-e2e-request-latency bucket-inter-token-latency bucket-time-to-first-token crash-dump-folder
        debug-tensor-dump-input-file debug-tensor-dump-layers debug-tensor-dump-output-folder decode-log-interval
        enable-forward-pass-metrics enable-layerwise-nvtx-marker enable-metrics-for-all-schedulers enable-mfu-metrics
        enable-profile-cuda-graph enable-request-time-stats-logging enable-trace export-metrics-to-file
        export-metrics-to-file-dir extra-metric-labels forward-pass-metrics-ipc-name forward-pass-metrics-worker-id
        generation-tokens-buckets kv-events-config load-publish-endpoint load-snapshot-publish-interval log-level
        log-level-http log-requests log-requests-format log-requests-level log-requests-target msprobe-dump-config
        otlp-service-name otlp-traces-endpoint prefill-delayer-forward-passes-buckets
        prefill-delayer-wait-seconds-buckets prompt-tokens-buckets show-time-cost
        tokenizer-metrics-allowed-custom-labels tokenizer-metrics-custom-labels-header trace-modules
        uvicorn-access-log-exclude-prefixes""",
    "which request runs when, and which prefix stays": """
        abort-on-priority-when-disabled default-priority-value disable-priority-preemption enable-mis
        enable-mixed-chunk enable-prefill-delayer enable-priority-scheduling enable-session-radix-cache
        enable-streaming-session load-balance-method max-queued-requests min-free-slots-delay
        num-continuous-decode-steps pp-async-batch-depth pp-max-micro-batch-size prefill-decode-interval
        prefill-decode-interval-min-bs prefill-delayer-max-delay-ms prefill-delayer-max-delay-passes
        prefill-delayer-queue-min-ratio prefill-delayer-token-usage-low-watermark prefill-max-requests
        priority-scheduling-preemption-threshold radix-eviction-policy radix-eviction-policy-config retraction-policy
        schedule-conservativeness schedule-low-priority-values-first schedule-policy scheduler-recv-interval
        strip-thinking-cache enable-dp-attention-local-control-broadcast mamba-max-states-per-path
        mamba-track-interval""",
    "where a checkpoint comes from, and how its files are read": """
        checkpoint-engine-wait-weights-before-ready custom-weight-loader delete-ckpt-after-loading download-dir
        is-embedding model-checksum model-config-parser model-loader-extra-config quantization-param-path revision
        speculative-draft-load-format speculative-draft-model-revision trust-remote-code
        weight-loader-disable-mmap weight-loader-drop-cache-after-load weight-loader-prefetch-checkpoints
        weight-loader-prefetch-num-threads weight-version""",
    "which kernel computes what": """
        bf16-gemm-backend boundary-reduction disable-attn-tp-gather disable-chunked-prefix-cache
        disable-custom-all-reduce disable-flashinfer-autotune disable-flashinfer-cutlass-moe-fp4-allgather
        disable-shared-experts-fusion dsa-paged-mqa-logits-backend dsa-topk-backend dsa-triton-union
        dsv4-prefill-backend enable-attn-tp-input-scattered enable-cudagraph-gc enable-fused-moe-sum-all-reduce
        enable-fused-qk-norm-rope no-enable-fused-qk-norm-rope enable-mamba-cache-stochastic-rounding
        enable-p2p-check enable-quant-communications enable-tf32-matmul no-enable-tf32-matmul
        enable-torch-compile-debug-mode enable-tp-lm-head-all-to-all no-enable-tp-lm-head-all-to-all
        enforce-disable-flashinfer-allreduce-fusion flashinfer-autotune-skip-ops flashinfer-mla-disable-ragged
        flashinfer-mxfp4-moe-precision fp4-gemm-backend fp8-gemm-backend linear-attn-backend
        linear-attn-decode-backend linear-attn-prefill-backend linear-attn-verify-backend mamba-backend
        mamba-cache-philox-rounds torch-compile-max-bs triton-attention-reduce-in-fp32
        cuda-graph-max-seq-len-prefill""",
    "which batches have a graph, out of the reserve that their largest gives": """
        cuda-graph-bs cuda-graph-bs-decode""",
    "how drafts are matched and accepted": """
        speculative-accept-threshold-acc speculative-accept-threshold-single speculative-attention-mode
        speculative-draft-attention-backend speculative-dsa-topk-backend speculative-moe-runner-backend
        speculative-ngram-match-type speculative-ngram-max-bfs-breadth speculative-ngram-max-trie-depth
        speculative-ngram-min-bfs-breadth speculative-use-block-verification""",
    "other hardware than NVIDIA's, where they do nothing": """
        disable-aiter-allreduce-fusion-in-decode disable-aiter-allreduce-fusion-in-prefill
        enable-aiter-allreduce-fusion enable-amd-monokernel enable-dsa-fused-indexer no-enable-dsa-fused-indexer
        enable-lean-attention fuseep-mode mlx-enable-sampling monokernel-backend""",
    "details of what another flag switches on, which is refused where it takes memory": """
        cp-strategy dcp-comm-backend dcp-replicate-q-proj no-dcp-replicate-q-proj enable-cp-decode-attn-tp
        decoupled-spec-bind-endpoint decoupled-spec-connect-endpoints decoupled-spec-rank spec-trace-dir
        deepep-config deepep-dispatcher-output-dtype deepep-mode deepep-v2-mode enable-w4a4-mxfp4-megamoe
        enable-waterfill flashinfer-a2a-dispatch-type speculative-enable-w4a4-mxfp4-megamoe
        no-speculative-enable-w4a4-mxfp4-megamoe mooncake-ib-device tbo-token-distribution-threshold
        disaggregation-decode-allocation-policy disaggregation-decode-enable-offload-kvcache
        disaggregation-decode-enable-radix-cache disaggregation-decode-extra-slots
        disaggregation-decode-host-receive-threshold disaggregation-decode-polling-interval
        disaggregation-decode-retraction-backup disaggregation-enable-kv-checksum disaggregation-ib-device
        disaggregation-transfer-backend enable-pd-role-switch num-reserved-decode-tokens optimistic-prefill-attempts
        dllm-algorithm-config dllm-fdfo no-dllm-fdfo elastic-ep-scale-timeout enable-adaptive-dispatch-to-encoder
        enable-linker-mla-dedup unified-cache-external-linker-backend unified-cache-external-linker-config
        enable-lora-overlap-loading experts-shared-outer-loras no-experts-shared-outer-loras lora-backend
        lora-drain-wait-threshold lora-eviction-policy lora-strict-loading no-lora-strict-loading
        lora-use-virtual-experts max-lora-chunk-size ep-dispatch-algorithm eplb-algorithm
        eplb-min-rebalancing-utilization-threshold eplb-rebalance-layers-per-chunk eplb-rebalance-num-iterations
        expert-distribution-recorder-buffer-size init-expert-location flexkv-config-file lmcache-config-file
        hicache-storage-backend-extra-config hicache-storage-prefetch-policy
        hicache-storage-prefetch-retry-max-attempts hicache-storage-prefetch-retry-poll-interval
        hierarchical-sparse-attention-extra-config hisparse-config kt-max-deferred-experts-per-token
        kt-threadpool-count kv-canary-sweep-interval linear-replayssm-cache-len mm-global-cache-backend
        modelexpress-config modelopt-checkpoint-restore-path modelopt-checkpoint-save-path modelopt-export-path
        no-mm-enable-dp-encoder no-ple-offload-embedding pdmux-config-path sm-group-num
        remote-instance-weight-loader-seed-instance-ip remote-instance-weight-loader-seed-instance-service-port
        remote-instance-weight-loader-send-weights-group-ports return-aux-hidden-state-layer-ids
        speculative-adaptive-config speculative-domino-candidate-pool-size
        speculative-dspark-align-verify-tokens-to-graph-tier speculative-dspark-confidence-sts-path
        speculative-dspark-sps-table-path speculative-ngram-external-sam-budget weight-cache-socket
        weight-cache-timeout""",
}
HARMLESS_FLAGS = frozenset(flag for flags in _BY_SUBJECT.values() for flag in flags.split())
