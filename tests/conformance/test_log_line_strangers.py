# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lines of others that run in the same unit: none of them is a line of the server's start, in whatever release.

Forms as PyTorch, transformers, flashinfer, Triton, NCCL, uvicorn, tqdm, systemd and the kernel print them.
"""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import EXAMINED
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.log_lines import parse_line
from ansible_collections.gpufleet.sglang.tests.conformance.log_renderings import TEXTS, lines_of

P = "[2026-11-29 14:20:47 TP0] "
STRANGERS = (
    # uvicorn and httpx
    '[2026-11-29 14:20:47] INFO:     127.0.0.1:36800 - "POST /generate HTTP/1.1" 200 OK',
    '[2026-11-29 14:20:47] INFO:     10.0.0.1:36800 - "GET /health?text=Load%20weight%20begin. HTTP/1.1" 200 OK',
    '[2026-11-29 14:20:47] INFO:     10.0.0.1:1 - "GET /The server is fired up and ready to roll! HTTP/1.1" 404',
    "[2026-11-29 14:20:47] INFO:     Waiting for application startup.",
    "[2026-11-29 14:20:47] INFO:     Shutting down",
    '2026-11-29 14:20:47,120 - httpx - INFO - HTTP Request: GET http://127.0.0.1:30000/model_info "HTTP/1.1 200 OK"',
    # Serving
    P + "Prefill batch, #new-seq: 1, #new-token: 28, #cached-token: 0, token usage: 0.00, #running-req: 0",
    P + "Decode batch, #running-req: 1, #token: 61, token usage: 0.00, cuda graph: True, gen throughput: 8.07",
    P + "Cache flushed successfully!",
    P + "Received sampling seeds. max_total_num_tokens=7 was asked for",
    "[2026-11-29 14:20:47] Receive: obj=Req(text='Allocating 9.00 GB host memory for hierarchical KV cache.')",
    "[2026-11-29 14:20:47] Finish: out={'text': 'The server is fired up and ready to roll!', 'meta_info': {}}",
    # PyTorch, transformers, accelerate, safetensors
    "[rank0]:[W1129 14:20:15.123 ProcessGroupNCCL.cpp:4843] using GPU 0 to perform barrier as devices used by this",
    "`torch_dtype` is deprecated! Use `dtype` instead!",
    "Loading checkpoint shards: 100%|##########| 4/4 [00:02<00:00,  1.85it/s]",
    "Loading checkpoint shards:  25% Completed | 1/4 [00:00<00:02,  1.85it/s]",
    "Some weights of the model checkpoint at x were not used when initializing Y: ['a.weight']",
    "/opt/x/torch/cuda/graphs.py:12: UserWarning: The CUDA Graph is empty. Capture cuda graph end. was not reached",
    # flashinfer, Triton, DeepGEMM, cutlass
    "2026-11-29 14:20:15,123 - INFO - flashinfer.jit: Loading JIT ops: batch_decode_with_kv_cache",
    "2026-11-29 14:20:15,123 - INFO - autotuner.py:256 - flashinfer.jit: [Autotuner]: Autotuning process starts ...",
    "Capturing:  45%|####5     | 45/100 [00:10<00:12,  4.4it/s]",
    "  0%|          | 0/8 [00:00<?, ?it/s]",
    "Compiling: 100%|##########| 3/3 [00:10<00:00,  4.4it/s]",
    # NCCL, Gloo, NVSHMEM, Mooncake
    "gpu-01:1234:1300 [0] NCCL INFO Channel 00/24 : 0 1 2 3 4 5 6 7",
    "gpu-01:1234:1300 [0] NCCL INFO Init COMPLETE - Init timings - ncclCommInitRank: rank 0 nranks 8 total 1.37",
    "[Gloo] Rank 0 is connected to 7 peer ranks. Expected number of connected peer ranks is : 7",
    "I20261129 14:20:15.123456 4321 transfer_engine.cpp:91] Transfer Engine parseHostNameWithPort. server_name: x",
    # systemd and the kernel
    "Started sglang-main.service - SGLang inference server main.",
    "sglang-main.service: Consumed 3min 2.112s CPU time, 61.2G memory peak.",
    "sglang-main.service: Main process exited, code=killed, status=9/KILL",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.86.15",
    # A unit of another kind beside it.
    "Server is up: Load weight begin. avail mem=1.00 GB",
    "test says: The server is fired up and ready to roll!",
    "# Load weight begin. avail mem=1.00 GB",
    "",
    " ",
)
STARTS = ("settings", "stage_begin", "stage_end", "progress", "capacity", "ready")


@pytest.mark.parametrize("line", STRANGERS)
def test_line_of_a_stranger_is_no_line_of_a_start(line: str) -> None:
    for release in (None, *map(str, EXAMINED), "0.9.0"):
        event = parse_line(line, release)
        assert event is None or event.kind not in STARTS, (release, event)


def test_no_line_of_the_server_is_read_when_another_quotes_it() -> None:
    quotes = ("{}", "I read '{}' in a log", "text={!r}", "> {}", "user: {}", "see: {} for more")
    read = 0
    for text in TEXTS:
        for line in lines_of(text):
            if text.is_bar or parse_line(P + line.words, None) is None:
                continue
            own, *quoted = [parse_line(quote.format(line.words), None) for quote in quotes]
            read += own is not None
            for event in quoted:
                assert event is None or event.kind not in STARTS, (line.words, event)
    print(f"{read} lines of the server in {len(quotes) - 1} quotations each: none is taken for the server's own")
    assert read > 150
