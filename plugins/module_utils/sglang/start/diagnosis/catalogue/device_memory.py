# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Failures of GPU memory."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.failure import (
    RAISED,
    Failure,
    Pattern,
)

DEVICE_MEMORY = (
    Failure(
        "kv_pool_too_small",
        "The loaded weights leave no memory for the KV cache under this mem_fraction_static.",
        "Raise mem_fraction_static in steps of 0.02, or use more GPUs or a smaller quantisation.",
        (
            Pattern(
                r"Not enough memory\. Please try to increase --mem-fraction-static\."
                r"(?:.*mem_fraction_static=(?P<fraction>\d?\.\d+))?",
                "SGLang model_executor/model_runner.py (0.4.7), model_runner_kv_cache_mixin.py (0.5.9), "
                "pool_configurator.py (0.5.13 on)",
                "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: "
                "mem_fraction_static=0.75",
            ),
        ),
        "device_pool",
        fatal=True,
    ),
    # Which of the moves it needs, says the stage of the rank (remedies/device_memory.py).
    Failure(
        "gpu_out_of_memory",
        "A GPU has no memory left.",
        "See which processes hold memory of that GPU (`nvidia-smi "
        "--query-compute-apps=gpu_uuid,pid,used_memory --format=csv`). End them if they are not "
        "this server's, else lower mem_fraction_static in steps of 0.02.",
        (
            Pattern(
                r"^(?:\w+\.)*OutOfMemoryError: |^(?:\w+\.)*\w*(?:Error|Exception): (?:Capture \w+ graph failed: )?"
                r"(?:CUDA|HIP) (?:error: )?out of memory",
                "PyTorch c10/cuda/CUDACachingAllocator.cpp, c10/cuda/CUDAException.cpp; SGLang "
                "model_executor/cuda_graph_runner.py, runner/decode_cuda_graph_runner.py",
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
                "79.15 GiB of which 1.12 GiB is free. Including non-PyTorch memory, this process has 78.02 GiB memory "
                "in use. Of the allocated memory 76.50 GiB is allocated by PyTorch",
            ),
            Pattern(
                RAISED + r".*\b(?:CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED)\b",
                "PyTorch aten/src/ATen/cuda/CUDABlas.cpp, Exceptions.cpp",
                "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
            ),
        ),
    ),
    Failure(
        "gpu_memory_unbalanced",
        "One GPU of the server has less free memory than the others before anything is loaded.",
        "See which process holds memory of that GPU (`nvidia-smi "
        "--query-compute-apps=gpu_uuid,pid,used_memory --format=csv`), and end it.",
        (
            Pattern(
                RAISED + r"The memory capacity is unbalanced\. Some GPUs may be occupied by other processes\."
                r"(?:.*?\b(?:pre_model_load_memory|min_per_gpu_memory)=(?P<least_gib>\d+(?:\.\d+)?), "
                r"local_gpu_memory=(?P<local_gib>\d+(?:\.\d+)?))?",
                "SGLang model_executor/model_runner.py, distributed/bootstrap.py from 0.5.21; a warning where "
                "SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK is off",
                "RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. "
                "pre_model_load_memory=61.27, local_gpu_memory=78.95, local_gpu_memory * 0.9=71.055",
            ),
        ),
        "boot",
        fatal=True,
    ),
    # What the lines above turn out to be by the stage, the plan and the other numbers.
    Failure(
        "weights_leave_no_room",
        "The loaded weights leave no memory for the KV cache under any mem_fraction_static.",
        "Use more GPUs (tensor_parallel_size) or weights of a smaller quantisation; no mem_fraction_static helps.",
    ),
    Failure(
        "weights_do_not_fit",
        "A GPU has less memory than its share of the weights.",
        "Use more GPUs (tensor_parallel_size) or weights of a smaller quantisation; no mem_fraction_static helps.",
    ),
    Failure(
        "capture_out_of_memory",
        "The pools leave too little of a GPU to capture the graphs.",
        "Lower mem_fraction_static in steps of 0.02, or capture graphs of smaller batches "
        "(cuda-graph-max-bs in extra_arguments).",
    ),
    Failure(
        "pool_out_of_memory",
        "A GPU has less memory than its pools were to take.",
        "Lower mem_fraction_static in steps of 0.02.",
    ),
    Failure(
        "runtime_out_of_memory",
        "The pools leave too little of a GPU to run a batch.",
        "Lower mem_fraction_static in steps of 0.02, or prefill smaller chunks "
        "(chunked-prefill-size in extra_arguments).",
    ),
    Failure(
        "gpu_memory_held_by_others",
        "Another process holds the memory of a GPU that the server lacks.",
        "See what the process is (`ps -fp PID`), end it if it is no longer needed, and wait until "
        "`nvidia-smi` shows its memory as free.",
    ),
    Failure(
        "gpu_memory_leaked",
        "Memory of a GPU that the server lacks is held by no process that can be seen.",
        "See who keeps the device open (`fuser -v /dev/nvidia*`) and end that. If nobody does, "
        "stop every server of the node and reset the GPU (`nvidia-smi --gpu-reset -i INDEX`), or "
        "reboot.",
    ),
)
