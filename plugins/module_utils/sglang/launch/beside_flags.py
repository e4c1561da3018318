# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Flags that take memory beside what a plan counts, out of what mem_fraction_static or the reserve of the host leaves.

The pools stay as planned, or are a little smaller; how much is taken shows in a start only.
"""

from __future__ import annotations

BESIDE_FLAGS = {
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
    "enable-fp32-lm-head": "the head is kept in float32",
    **dict.fromkeys(
        ("enable-return-routed-experts", "enable-return-indexer-topk"), "what is returned has a buffer of every token"
    ),
    "prefill-kv-cache-dequant-dtype": "what is unpacked of the cache takes a workspace",
    **dict.fromkeys(("kv-canary", "kv-canary-real-data"), "the check of the KV cache has buffers beside it"),
    **dict.fromkeys(
        ("encoder-urls", "encoder-register-urls", "encoder-transfer-backend"),
        "what another server encodes arrives in buffers",
    ),
    "enable-prefix-mm-cache": "encoded images are kept",
    "enable-symm-mem": "symmetric memory is taken of each GPU beside the pools",
    **dict.fromkeys(
        (
            "enable-torch-symm-mem",
            "enable-mscclpp",
            "enable-nccl-nvls",
            "enable-flashinfer-allreduce-fusion",
            "flashinfer-allreduce-fusion-backend",
        ),
        "the ranks' communication has buffers of its own on each GPU",
    ),
    "pre-warm-nccl": "communicators take memory before the pools are sized",
    **dict.fromkeys(
        ("enable-two-batch-overlap", "enable-single-batch-overlap"), "the halves of a batch hold activations at once"
    ),
    "speculative-moe-a2a-backend": "the exchange of tokens between experts has buffers on each GPU",
    **dict.fromkeys(
        ("enable-eplb", "expert-distribution-recorder-mode", "expert-balancedness-report-mode"),
        "experts are counted and moved through buffers on each GPU",
    ),
    "enable-nvidia-megakernel": "fused kernels have workspaces of their own",
    **dict.fromkeys(
        ("triton-attention-num-kv-splits", "triton-attention-split-tile-size"),
        "each split of the cache has partial results in a buffer",
    ),
    **dict.fromkeys(
        ("cuda-graph-bs-prefill", "piecewise-cuda-graph-tokens", "cuda-graph-config", "disable-cuda-graph-padding"),
        "other CUDA graphs are captured than by cuda-graph-max-bs-decode and cuda-graph-max-bs-prefill",
    ),
    **dict.fromkeys(
        ("cuda-graph-prefill-max-context", "context-bucket"), "the graphs of prefills have buffers of this context"
    ),
    **dict.fromkeys(
        ("remote-instance-weight-loader-backend", "remote-instance-weight-loader-start-seed-via-transfer-engine"),
        "weights are sent through buffers of a transfer engine",
    ),
    "forward-hooks": "hooks run code of their own in each layer",
    "enable-response-store": "answers are kept in host memory without bound",
    **dict.fromkeys(
        ("enable-return-hidden-states", "return-hidden-states-mode", "enable-return-aux-hidden-states"),
        "hidden states are kept until they are returned",
    ),
    "speculative-token-map": "the draft's head is cut to fewer words",
    "speculative-use-rejection-sampling": "the draft's probabilities of all words are kept",
    **dict.fromkeys(
        (
            "speculative-ngram-capacity",
            "speculative-ngram-external-corpus-path",
            "speculative-ngram-external-corpus-max-tokens",
        ),
        "the corpus takes host memory",
    ),
}
