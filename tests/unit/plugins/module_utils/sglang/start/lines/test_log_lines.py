# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import (
    LogEvent,
    event_from_dict,
    is_rank_scoped,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.log_lines import parse_line

P = "[2026-11-29 14:20:15 TP1] "
GIB = 1 << 30


@pytest.mark.parametrize(
    ("version", "line", "kind", "stage", "rank", "size", "tokens", "label"),
    [
        ("0.5.23", P + "Init parallel begin.", "stage_begin", "boot", "TP1", None, None, "distributed"),
        ("0.5.9", P + "Init torch distributed begin.", "stage_begin", "boot", "TP1", None, None, "distributed"),
        ("0.5.23", P + "Load weight begin. avail mem=18.30 GB", "stage_begin", "load", "TP1", None, None, None),
        (
            "0.5.23",
            P + "Load weight end. elapsed=0.05 s, type=LlamaForCausalLM, avail mem=18.30 GB, mem usage=1.50 GB.",
            "stage_end",
            "load",
            "TP1",
            3 * GIB // 2,
            None,
            None,
        ),
        (
            "0.5.9",
            P
            + "Load weight end. elapsed=31.20 s, type=DeepseekV3ForCausalLM, dtype=torch.bfloat16, avail mem=21.89 GB, "
            "mem usage=72.88 GB.",
            "stage_end",
            "load",
            "TP1",
            round(72.88 * GIB),
            None,
            None,
        ),
        (
            "0.4.7",
            P + "Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=63.65 GB",
            "stage_end",
            "load",
            "TP1",
            None,
            None,
            None,
        ),
        (
            "0.5.9",
            P + "KV Cache is allocated. #tokens: 159277, KV size: 10.42 GB",
            "progress",
            "device_pool",
            "TP1",
            round(10.42 * GIB),
            159277,
            "kv",
        ),
        (
            "0.5.9",
            P + "KV Cache is allocated. #tokens: 4096, K size: 0.25 GB, V size: 0.50 GB",
            "progress",
            "device_pool",
            "TP1",
            3 * GIB // 4,
            4096,
            "kv",
        ),
        (
            "0.5.23",
            P + "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 400000, K size: 0.05 GB, V size: 0.05 GB",
            "progress",
            "device_pool",
            "TP1",
            round(0.10 * GIB),
            400000,
            "kv",
        ),
        (
            "0.5.23",
            P + "Full KV Cache is allocated. dtype: torch.bfloat16, #tokens: 4096, K size: 0.25 GB, V size: 0.50 GB",
            "progress",
            "device_pool",
            "TP1",
            3 * GIB // 4,
            4096,
            "kv",
        ),
        (
            "0.5.23",
            P + "SWA KV Cache is allocated. dtype: torch.bfloat16, #tokens: 3276, K size: 0.25 GB, V size: 0.25 GB",
            "progress",
            "device_pool",
            "TP1",
            GIB // 2,
            3276,
            "swa",
        ),
        (
            "0.5.23",
            P + "Allocating 0.25 GB host memory for MiniMax sparse index-K (layout=layer_first).",
            "stage_begin",
            "host_pool",
            "TP1",
            250_000_000,
            None,
            "indexer",
        ),
        ("0.5.23", P + "Memory pool end. avail mem=18.06 GB", "stage_end", "device_pool", "TP1", None, None, None),
        (
            "0.5.9",
            P + "Capture cuda graph begin. This can take up to several minutes. avail mem=9.04 GB",
            "stage_begin",
            "capture",
            "TP1",
            None,
            None,
            "cuda graph",
        ),
        (
            "0.5.9",
            P + "Capture draft extend cuda graph end. Time elapsed: 3.10 s. mem usage=0.20 GB. avail mem=8.10 GB.",
            "stage_end",
            "capture",
            "TP1",
            None,
            None,
            "draft extend cuda graph",
        ),
        (
            "0.5.23",
            P + "Capture target decode CUDA graph begin. backend=full, num_tokens_per_req=1, avail mem=9.04 GB",
            "stage_begin",
            "capture",
            "TP1",
            None,
            None,
            "target decode CUDA graph",
        ),
        (
            "0.5.23",
            P + "max_total_num_tokens=400000, chunked_prefill_size=4096, max_prefill_tokens=16384",
            "capacity",
            None,
            "TP1",
            None,
            400000,
            "max_total_num_tokens",
        ),
        (
            "0.5.9",
            P + "Allocating 44.77 GB host memory for hierarchical KV cache.",
            "stage_begin",
            "host_pool",
            "TP1",
            44_770_000_000,
            None,
            "kv",
        ),
        (
            "0.5.23",
            P + "Allocating kv hierarchical KV host pool: 1600001 tokens, 0.41 GB host memory.",
            "stage_begin",
            "host_pool",
            "TP1",
            410_000_000,
            1600001,
            "kv",
        ),
        (
            "0.5.23",
            P + "Allocating kv hierarchical KV host pool: 8193 tokens, 4.00 GB host memory, packed MTP KV layers: "
            "target_layers=61, draft_layers=1, total_layers=62.",
            "stage_begin",
            "host_pool",
            "TP1",
            4_000_000_000,
            8193,
            "kv",
        ),
        (
            "0.5.13",
            P + "Allocating 19.32 GB host memory for DSA indexer (layout=page_first).",
            "stage_begin",
            "host_pool",
            "TP1",
            19_320_000_000,
            None,
            "indexer",
        ),
        (
            "0.5.23",
            P + "Tree cache initialized: source=default impl=UnifiedRadixCache hybrid_swa=False hybrid_ssm=False "
            "hicache_attached=True",
            "stage_end",
            "host_pool",
            "TP1",
            None,
            None,
            "tree_cache",
        ),
        (
            "0.5.23",
            "[2026-11-29 14:20:18] Engine startup timings (s): load_weight=0.05, scheduler_e2e=6.04",
            "stage_begin",
            "warm_up",
            None,
            None,
            None,
            None,
        ),
        (
            "0.5.9",
            "[2026-11-29 14:20:18] INFO:     Started server process [11280]",
            "stage_begin",
            "warm_up",
            None,
            None,
            None,
            None,
        ),
        (
            "0.5.23",
            "[2026-11-29 14:20:47] The server is fired up and ready to roll!",
            "ready",
            "ready",
            None,
            None,
            None,
            None,
        ),
        (
            "0.5.23",
            "[2026-11-29 14:20:47] SIGTERM received. signum=None frame=None. Draining requests and shutting down...",
            "consequence",
            None,
            None,
            None,
            None,
            "sigterm",
        ),
    ],
)
def test_line(version: str, line: str, kind: str, stage: str, rank: str, size: int, tokens: int, label: str) -> None:
    event = parse_line(line, version)
    assert event is not None
    assert (event.kind, event.stage, event.rank) == (kind, stage, rank)
    assert (event.bytes, event.tokens, event.label) == (size, tokens, label)


@pytest.mark.parametrize(
    ("line", "label", "values"),
    [
        (
            "ValueError: Not enough host memory available. Requesting 100.00 GB but only have 9.38 GB free. Please "
            "reduce the size of the hierarchical cache.",
            "host_memory_guard",
            {"requested_bytes": 100_000_000_000, "available_bytes": 9_380_000_000},
        ),
        (
            "ValueError: Not enough host memory available. Requesting 44.77 GB but only have -3.10 GB free. Please",
            "host_memory_guard",
            {"requested_bytes": 44_770_000_000, "available_bytes": -3_100_000_000},
        ),
        (
            "RuntimeError: cudaHostRegister failed (rc=2, out of memory) at offset=0 size=1000000512 (total=1000000512,"
            " chunk_limit=274877906944); host buffer is not pinned",
            "registration_failed",
            {"rc": 2, "reason": "out of memory", "requested_bytes": 1_000_000_512},
        ),
        (
            "RuntimeError: Rank 1 scheduler died during initialization (exit code: -9).",
            "scheduler_died",
            {"index": 1, "exit_code": -9},
        ),
        (
            "[2026-11-29 14:48:26] Subprocess scheduler_0 (pid=20542) crashed with exit code -9.",
            "scheduler_died",
            {"index": 0, "dead_pid": 20542, "exit_code": -9},
        ),
        (
            "torch._inductor.exc.InductorError: InvalidCxxCompiler: No working C++ compiler found in",
            "missing_compiler",
            {},
        ),
        (
            "RuntimeError: Failed to find C compiler. Please specify via CC environment variable.",
            "missing_compiler",
            {},
        ),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "gpu_out_of_memory", {}),
        (
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
            "kv_pool_too_small",
            {},
        ),
        ("AssertionError: Torch not compiled with CUDA enabled", "no_cuda", {}),
        (
            "[2026-11-29 14:20:47] Initialization failed. warmup error: Traceback (most recent call last):",
            "warm_up_failed",
            {},
        ),
        ("sglang-main.service: A process of this unit has been killed by the OOM killer.", "oom_killer", {}),
    ],
)
def test_failure(line: str, label: str, values: dict[str, object]) -> None:
    event = parse_line(line, "0.5.23")
    assert event is not None
    assert (event.kind, event.label) == ("failure", label)
    assert dict(event.values) == values


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[2026-11-29 14:19:46] server_args={'model_path': '/models/tiny', 'api_key': 'k'}",
        P + "multimem all-gather disabled (Torch not compiled with CUDA enabled)",
        '[2026-11-29 14:20:47] INFO:     127.0.0.1:36800 - "POST /generate HTTP/1.1" 200 OK',
        P + "Prefill batch, #new-seq: 1, #new-token: 28, #cached-token: 0, token usage: 0.00",
        P + "He said: The server is fired up and ready to roll!",
        "UserWarning: Only CUDA, HIP and XPU support AWQ currently.",
        "The argument is an error: nothing",
    ],
)
def test_line_without_meaning(line: str) -> None:
    assert parse_line(line, "0.5.23") is None


def test_rows_hold_for_their_releases_only() -> None:
    new = P + "Allocating kv hierarchical KV host pool: 8193 tokens, 0.10 GB host memory."
    assert parse_line(new, "0.5.16") is None
    assert parse_line(P + "Init torch distributed begin.", "0.5.23") is None
    assert parse_line(P + "Tree cache initialized: hicache_attached=True", "0.5.9") is None


def test_end_of_the_host_tier_in_the_words_of_its_release() -> None:
    end = P + "Tree cache initialized: source=default impl=HiRadixCache hybrid_swa=False hybrid_ssm=False {}={}"
    assert parse_line(end.format("hierarchical", True), "0.5.17") is not None
    assert parse_line(end.format("hierarchical", True), "0.5.18") is None
    assert parse_line(end.format("hicache_attached", True), "0.5.18") is not None
    assert parse_line(end.format("hicache_attached", False), "0.5.18") is None


def test_memory_is_there_when_the_line_of_a_deepseek_v4_pool_is_printed() -> None:
    after = parse_line(
        P + "Allocating 3.20 GB host memory for V4 paged pool 'c4' (layers=30, pages=100, item_bytes=8192).", "0.5.12"
    )
    before = parse_line(P + "Allocating 3.20 GB host memory for hierarchical KV cache.", "0.5.12")
    assert after is not None and before is not None
    assert (after.after_allocating, before.after_allocating) == (True, False)
    assert (after.label, after.value("pool"), after.bytes) == ("v4_paged", "c4", before.bytes)
    assert event_from_dict(after.as_dict()).after_allocating is True


def test_weights_that_come_after_the_graphs_end_no_stage() -> None:
    event = parse_line(
        P
        + "Load weight end. Committed real weights after CUDA graph capture in 12.00 s (capture overlap window 9.00 s, "
        "startup overlap total 21.00 s)",
        "0.5.18",
    )
    assert event is not None
    assert (event.kind, event.seconds) == ("progress", 12.0)


def test_bar_is_of_no_rank() -> None:
    progress = parse_line("Capturing batches (bs=16 avail_mem=9.04 GB):  50%|#####     | 4/8 [00:01<00:01]", "0.5.23")
    pool = parse_line(P + "Memory pool end. avail mem=18.06 GB", "0.5.23")
    assert progress is not None and pool is not None
    assert (is_rank_scoped(progress), is_rank_scoped(pool)) == (False, True)


def test_line_behind_a_bar_that_was_not_ended() -> None:
    event = parse_line(
        "Capturing batches (bs=1 avail_mem=9.04 GB):  88%|####| 7/8 [00:02<00:00,  3.3it/s]"
        + P
        + "Capture cuda graph end. Time elapsed: 2.19 s. mem usage=0.20 GB. avail mem=8.84 GB.",
        "0.5.8",
    )
    assert event is not None
    assert (event.kind, event.rank, event.seconds) == ("stage_end", "TP1", 2.19)


def test_last_state_of_a_bar_speaks_for_it() -> None:
    states = (f"Capturing batches (bs=1 avail_mem=9.04 GB):  0%|#| {done}/8 [00:02<00:00]" for done in (1, 5, 8))
    event = parse_line("\r".join(states), "0.5.23")
    assert event is not None
    assert event.value("done_count") == 8


def test_release_newer_than_all_that_were_read_keeps_the_open_rows() -> None:
    event = parse_line("[2027-01-01 00:00:00] The server is fired up and ready to roll!", "0.9.0")
    assert event is not None and event.kind == "ready"


def test_release_that_is_not_known_is_read_in_the_forms_of_all() -> None:
    old = parse_line(P + "Allocating 44.77 GB host memory for hierarchical KV cache.", None)
    new = parse_line(P + "Allocating kv hierarchical KV host pool: 8193 tokens, 0.10 GB host memory.", None)
    assert old is not None and new is not None
    assert (old.bytes, new.bytes) == (44_770_000_000, 100_000_000)


def test_version_that_is_none_is_refused() -> None:
    with pytest.raises(Refusal, match="not a version number"):
        parse_line("[2027-01-01 00:00:00] The server is fired up and ready to roll!", "latest")


def test_other_logging_setup_than_the_servers_own_is_still_understood() -> None:
    event = parse_line(
        "2026-08-31T18:05:32.831330Z  INFO memory_pool_host.__init__: Allocating 96.00 GB host memory for hierarchical "
        "KV cache.",
        "0.5.13",
    )
    assert event is not None
    assert (event.stage, event.bytes, event.rank) == ("host_pool", 96_000_000_000, None)


def test_traceback_in_one_record_tells_its_cause() -> None:
    event = parse_line(
        "[2026-11-29 14:45:30 TP1] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "scheduler.py", line 6362, in run_scheduler_process\n'
        "ValueError: Not enough host memory available. Requesting 8.00 GB but only have 1.00 GB free. Please reduce\n",
        "0.5.23",
    )
    assert event is not None
    assert (event.kind, event.label, event.rank) == ("failure", "host_memory_guard", "TP1")


def test_last_exception_of_a_record_is_the_one_that_was_not_handled() -> None:
    event = parse_line(
        "[2026-11-29 14:45:30] Scheduler hit an exception: Traceback (most recent call last):\n"
        "KeyError: 'a'\n\nDuring handling of the above exception, another exception occurred:\n\n"
        "RuntimeError: b",
        "0.5.23",
    )
    assert event is not None
    assert (event.kind, event.label) == ("exception", "RuntimeError")


def test_event_survives_the_wire() -> None:
    event = LogEvent("failure", "text", "host_pool", "TP1", 1, 2, "x", 1.5, (("a_bytes", 1), ("reason", "r")), 12.5, 7)
    assert event_from_dict(event.as_dict()) == event
