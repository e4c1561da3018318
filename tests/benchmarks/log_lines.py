#!/usr/bin/env python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What it costs to read the log of a server: lines for each second of one processor, for several kinds of logs.

Noise is what a server and its libraries write beside the lines of a start, a line each of many kinds. Printed, never
judged.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.grammar import grammar_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.log_lines import parse_line
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.prefix import split_prefix

P = "[2026-11-29 14:20:47 TP0] "
NOISE = (
    P
    + "Prefill batch, #new-seq: 1, #new-token: 28, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0",
    P
    + "Decode batch, #running-req: 1, #token: 61, token usage: 0.00, cuda graph: True, gen throughput (token/s): 8.07",
    '[2026-11-29 14:20:47] INFO:     127.0.0.1:36800 - "POST /generate HTTP/1.1" 200 OK',
    "gpu-01:1234:1300 [0] NCCL INFO Channel 00/24 : 0 1 2 3 4 5 6 7",
    "/opt/x/site-packages/torch/foo.py:123: UserWarning: something happened here that is long enough to be a line",
    "2026-11-29 14:20:15,123 - INFO - flashinfer.jit: Loading JIT ops: batch_decode_with_kv_cache",
)
START = (
    P + "Load weight end. elapsed=31.20 s, type=LlamaForCausalLM, avail mem=21.89 GB, mem usage=72.88 GB.",
    P + "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 400000, K size: 0.05 GB, V size: 0.05 GB",
    P + "Capture target decode CUDA graph begin. backend=full, num_tokens_per_req=1, avail mem=9.04 GB",
    P + "Allocating kv hierarchical KV host pool: 1600001 tokens, 0.41 GB host memory.",
    "Capturing batches (bs=16 avail_mem=9.04 GB):  50%|#####     | 4/8 [00:01<00:01,  3.30it/s]",
)


def lines_a_second(lines: Sequence[str], version: str | None, seconds: float) -> float:
    began, count = time.process_time(), 0
    while time.process_time() - began < seconds:
        for line in lines:
            parse_line(line, version)
        count += len(lines)
    return count / (time.process_time() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--version", default="0.5.23", help="release whose grammar is used")
    parser.add_argument("--seconds", type=float, default=1.0, help="of the processor, for each kind of log")
    asked = parser.parse_args()
    grammar = grammar_of(asked.version)
    print(f"{asked.version}: {len(grammar.rows)} rows, {len(grammar.places)} anchors in {len(grammar.groups)} groups")
    for name, lines in (("noise", NOISE), ("lines of a start", START), ("100 kB in one line", ("x" * 100_000,))):
        tried = sum(len(grammar.candidates(split_prefix(line)[2])) for line in lines) / len(lines)
        rate = lines_a_second(lines, asked.version, asked.seconds)
        print(f"{name}: {rate:,.0f} lines a second of one processor, {tried:.1f} rows tried a line")


if __name__ == "__main__":
    main()
