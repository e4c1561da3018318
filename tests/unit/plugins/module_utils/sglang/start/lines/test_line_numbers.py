# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Further numbers of a line: bytes, shares, seconds and counts beside those that every event has."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.log_lines import parse_line

P = "[2026-11-29 14:20:15 TP1] "
GIB = 1 << 30


@pytest.mark.parametrize(
    ("line", "version", "kind", "stage", "label", "values"),
    [
        (
            P + "HiCache auto-sizing: ratio 2.000 -> 1.417; 94.3 GiB host memory per rank (fraction 0.80, 8 ranks on "
            "this host), host pools 89.6 GiB.",
            "0.5.21",
            "progress",
            "host_pool",
            "auto_size",
            {
                "requested_ratio": 2.0,
                "ratio": 1.417,
                "budget_bytes": round(94.3 * GIB),
                "host_memory_fraction": 0.8,
                "ranks_count": 8,
                "pools_bytes": round(89.6 * GIB),
            },
        ),
        (
            P + "HiCache memory headroom: host 18.0 GiB, cgroup 8.5 GiB",
            "0.5.23",
            "progress",
            "host_pool",
            "headroom",
            {"host_bytes": 18 * GIB, "cgroup_bytes": 17 * GIB // 2},
        ),
        # No limit is as many pages as a number can hold.
        (
            P + "HiCache memory headroom: host 18.0 GiB, cgroup 8589934586.7 GiB",
            "0.5.23",
            "progress",
            "host_pool",
            "headroom",
            {"host_bytes": 18 * GIB},
        ),
        (
            P + "MLATokenToKVPoolHost dummy mode: allocator-only, size=9000 tokens, saving 44.77 GB host memory",
            "0.5.23",
            "progress",
            "host_pool",
            "none_of_its_own",
            {"saved_bytes": 44_770_000_000},
        ),
        (
            "[2026-11-29 14:20:18] Engine startup timings (s): load_weight=41.20, kv_cache_allocation=0.31, "
            "scheduler_e2e=95.04, cuda_graph={decode=11.02, draft_decode=3.50}, tokenizer_e2e=101.77",
            "0.5.23",
            "stage_begin",
            "warm_up",
            None,
            {
                "load_weight_seconds": 41.2,
                "kv_cache_allocation_seconds": 0.31,
                "scheduler_seconds": 95.04,
                "cuda_graph_decode_seconds": 11.02,
                "cuda_graph_draft_decode_seconds": 3.5,
                "tokenizer_seconds": 101.77,
            },
        ),
        (
            P + "Gated launch still waiting for activation. rank=1 elapsed=20 s",
            "0.5.19",
            "progress",
            "boot",
            "gate_closed",
            {},
        ),
        (P + "Gated launch activated. elapsed=61.20 s", "0.5.19", "progress", "boot", "gate_open", {}),
        (
            "Loading safetensors checkpoint shards:  25% Completed | 1/4 [00:01<00:03,  1.10s/it]",
            "0.4.7",
            "progress",
            "load",
            "shards",
            {"done_count": 1, "total_count": 4},
        ),
        (
            "Multi-thread loading shards: 100% Completed | 61/61 [00:31<00:00,  1.95it/s]",
            "0.5.9",
            "progress",
            "load",
            "shards",
            {"done_count": 61, "total_count": 61},
        ),
        (
            "Capturing batches (bs=16 avail_mem=9.04 GB):  50%|#####     | 4/8 [00:01<00:01,  3.30it/s]",
            "0.5.23",
            "progress",
            "capture",
            "batches",
            {"done_count": 4, "total_count": 8, "available_bytes": round(9.04 * GIB)},
        ),
        (
            P
            + "Capture draft extend cuda graph begin (step 2). This can take up to several minutes. avail mem=8.50 GB",
            "0.5.7",
            "stage_begin",
            "capture",
            "draft extend cuda graph",
            {"step_index": 2, "available_bytes": 17 * GIB // 2},
        ),
        (
            P + "Entering DeepGEMM JIT Pre-Compile session. It may take a long time (typically 10-20 mins) if you have",
            "0.5.9",
            "progress",
            None,
            "compiling",
            {},
        ),
        (
            "DeepGEMM warmup:  45%|####5     | 45/100 [00:10<00:12,  4.4it/s]",
            "0.5.9",
            "progress",
            None,
            "compiling",
            {"done_count": 45, "total_count": 100},
        ),
        (P + "FlashInfer autotune completed.", "0.5.6", "progress", None, "compiled", {}),
        (
            P + "Parallel private host allocation failed ([Errno 12] Cannot allocate memory); falling back to the "
            "shared prefaulted mmap.",
            "0.5.23",
            "progress",
            "host_pool",
            "as_shared_memory",
            {},
        ),
        (
            P + "Post-capture KV sizing: KV cache allocated. dtype: torch.bfloat16, #tokens: 4096, KV size: 2.00 GB, "
            "avail mem=7.50 GB",
            "0.5.17",
            "progress",
            "device_pool",
            "kv",
            {"available_bytes": 15 * GIB // 2},
        ),
        (
            "[2026-11-29 14:20:18] Dummy health check server started in background thread at 0.0.0.0:30000",
            "0.5.23",
            "progress",
            "warm_up",
            "worker_node",
            {},
        ),
    ],
)
def test_line_with_further_numbers(
    line: str, version: str, kind: str, stage: str | None, label: str, values: dict[str, object]
) -> None:
    event = parse_line(line, version)
    assert event is not None
    assert (event.kind, event.stage, event.label, dict(event.values)) == (kind, stage, label, values)
