# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The words of SGLang's releases from 0.4.7 to 0.5.23, read from the wheels' own format strings."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.scenario import version_of

STDERR = 2


class Form(NamedTuple):
    """What is said at one point, from a release on up to, not including, another. C(text) is for str.format_map."""

    name: str
    text: str
    since: str = "0.4.0"
    until: str = "99.0.0"


FORMS = (
    # entrypoints/engine.py
    Form(
        "settings",
        "server_args=ServerArgs(model_path='{model}', tokenizer_path='{model}', host='{host}', port={port}, "
        "mem_fraction_static={fraction}, tp_size={ranks}, enable_hierarchical_cache={hicache})",
        until="0.5.19",
    ),
    Form(
        "settings",
        "server_args={{'model_path': '{model}', 'tokenizer_path': '{model}', 'host': '{host}', 'port': {port}, "
        "'mem_fraction_static': {fraction}, 'tp_size': {ranks}, 'enable_hierarchical_cache': {hicache}}}",
        since="0.5.19",
    ),
    Form("template", "Using default HuggingFace chat template with detected content format: string"),
    # model_executor/model_runner.py; distributed/bootstrap.py
    Form("distributed_begin", "Init torch distributed begin.", until="0.5.21"),
    Form("distributed_begin", "Init parallel begin.", since="0.5.21"),
    Form("distributed_end", "Init torch distributed ends. mem usage=0.32 GB", until="0.5.9"),
    Form(
        "distributed_end",
        "Init torch distributed ends. elapsed={elapsed:.2f} s, mem usage=0.32 GB",
        since="0.5.9",
        until="0.5.21",
    ),
    Form("distributed_end", "Init parallel ends. elapsed={elapsed:.2f} s", since="0.5.21"),
    Form("baseline", "Memory baseline taken. mem usage=0.32 GB", since="0.5.21"),
    Form("load_begin", "Load weight begin. avail mem={before_load:.2f} GB"),
    Form(
        "load_end",
        "Load weight end. type={type}, dtype=torch.bfloat16, avail mem={after_load:.2f} GB, "
        "mem usage={weights:.2f} GB.",
        until="0.5.9",
    ),
    Form(
        "load_end",
        "Load weight end. elapsed={elapsed:.2f} s, type={type}, dtype=torch.bfloat16, avail mem={after_load:.2f} GB, "
        "mem usage={weights:.2f} GB.",
        since="0.5.9",
        until="0.5.10",
    ),
    Form(
        "load_end",
        "Load weight end. elapsed={elapsed:.2f} s, type={type}, avail mem={after_load:.2f} GB, "
        "mem usage={weights:.2f} GB.",
        since="0.5.10",
    ),
    # model_loader/weight_utils.py: a progress bar, which goes back to the beginning of its line.
    Form(
        "shards",
        "\rLoading safetensors checkpoint shards:   0% Completed | 0/2 [00:00<?, ?it/s]"
        "\rLoading safetensors checkpoint shards: 100% Completed | 2/2 [00:00<00:00, 269.76it/s]\n",
        until="0.5.10",
    ),
    Form(
        "shards",
        "\rMulti-thread loading shards:   0% Completed | 0/2 [00:00<?, ?it/s]"
        "\rMulti-thread loading shards: 100% Completed | 2/2 [00:00<00:00, 269.76it/s]\n",
        since="0.5.10",
    ),
    # mem_cache/memory_pool.py
    Form(
        "kv",
        "KV Cache is allocated. #tokens: {tokens}, K size: {half:.2f} GB, V size: {half:.2f} GB",
        until="0.5.13",
    ),
    Form(
        "kv",
        "KV Cache is allocated. dtype: torch.bfloat16, #tokens: {tokens}, K size: {half:.2f} GB, V size: {half:.2f} GB",
        since="0.5.13",
    ),
    Form("pool_end", "Memory pool end. avail mem={after_pool:.2f} GB"),
    # model_executor/model_runner.py; model_runner_components/cuda_graph_setup.py
    Form(
        "capture_begin",
        "Capture cuda graph begin. This can take up to several minutes. avail mem={after_pool:.2f} GB",
        until="0.5.14",
    ),
    Form(
        "capture_begin",
        "Capture target decode CUDA graph begin. backend=full, num_tokens_per_req=1, avail mem={after_pool:.2f} GB",
        since="0.5.14",
    ),
    Form(
        "capture_end",
        "Capture cuda graph end. Time elapsed: {elapsed:.2f} s. mem usage={capture:.2f} GB. "
        "avail mem={after_capture:.2f} GB.",
        until="0.5.14",
    ),
    Form(
        "capture_end",
        "Capture target decode CUDA graph end. bs=[1, 2, 4, 8], elapsed={elapsed:.2f} s, mem usage={capture:.2f} GB, "
        "avail mem={after_capture:.2f} GB.",
        since="0.5.14",
    ),
    # managers/scheduler.py
    Form(
        "capacity",
        "max_total_num_tokens={tokens}, chunked_prefill_size=8192, max_prefill_tokens=16384, "
        "max_running_requests=2048, context_len={context}, {available}={at_end:.2f} GB",
    ),
    # mem_cache/memory_pool_host.py, mem_cache/pool_host/base.py, mem_cache/pool_host/mamba.py
    Form("pool_kv", "Allocating {gb:.2f} GB host memory for hierarchical KV cache.", until="0.5.17"),
    Form(
        "pool_kv",
        "Allocating {label} hierarchical KV host pool: {pool_tokens} tokens, {gb:.2f} GB host memory.",
        since="0.5.17",
    ),
    Form("pool_mamba", "Allocating {gb:.2f} GB host memory for hierarchical Mamba cache (layout=page_first)."),
    Form("pool_indexer", "Allocating {gb:.2f} GB host memory for NSA indexer (layout=page_first).", until="0.5.13"),
    Form("pool_indexer", "Allocating {gb:.2f} GB host memory for DSA indexer (layout=page_first).", since="0.5.13"),
    # mem_cache/hybrid_cache/hybrid_pool_assembler.py, mem_cache/registry.py
    Form(
        "attached",
        "Attached hybrid pool stack to UnifiedRadixCache: pools=KV, transfer_layer_num=32",
        since="0.5.11",
        until="0.5.21",
    ),
    Form(
        "attached",
        "Attached hybrid pool stack to UnifiedRadixCache: pools=KV, transfer_layer_id_max=32",
        since="0.5.21",
    ),
    Form(
        "tree_cache",
        "Tree cache initialized: source=default impl=UnifiedRadixCache hybrid_swa=False hybrid_ssm=False "
        "hicache_attached={hicache}",
        since="0.5.13",
    ),
    # entrypoints/engine.py
    Form(
        "timings",
        "Engine startup timings (s): load_weight={elapsed:.2f}, kv_cache_allocation=0.53, scheduler_e2e=19.80, "
        "cuda_graph={{prefill=0.00, decode=0.00}}, tokenizer_e2e=34.10",
        since="0.5.17",
    ),
    # uvicorn, under the log configuration of entrypoints/http_server.py
    Form("started", "INFO:     Started server process [{pid}]"),
    Form("waiting", "INFO:     Waiting for application startup."),
    Form("complete", "INFO:     Application startup complete."),
    Form("running", "INFO:     Uvicorn running on http://{host}:{port} (Press CTRL+C to quit)"),
    Form("ready", "The server is fired up and ready to roll!"),
    # What the main process says of a rank that died: entrypoints/engine.py, utils/watchdog.py
    Form("dead_rank", "Rank {index} scheduler is dead. Please check if there are relevant logs.", until="0.5.10"),
    Form("dead_rank_code", "Exit code: {code}", until="0.5.10"),
    Form(
        "dead_rank_error",
        "RuntimeError: Rank {index} scheduler died during initialization (exit code: {code}). If exit code is -9 "
        "(SIGKILL), a common cause is the OS OOM killer. Run `dmesg -T | grep -i oom` to check.",
        since="0.5.10",
    ),
    Form("dead_rank_error", "EOFError", until="0.5.10"),
    Form(
        "crashed_rank",
        "Subprocess scheduler_{index} (pid={dead_pid}) crashed with exit code {code}. Triggering SIGQUIT for "
        "cleanup...",
        since="0.5.10",
    ),
    Form("sigquit_serving", "SIGQUIT received. signum=None, frame=None. It usually means one child failed."),
    Form("sigquit", "Received sigquit from a child process. It usually means the child failed."),
    Form("sigterm", "SIGTERM received. signum=None frame=None. Draining requests and shutting down..."),
    Form("drained", "Gracefully exiting... Remaining number of requests 0. Remaining requests remaining_rids=[]."),
)


def form(name: str, release: str, **values: object) -> str | None:
    """What the release says at this point, None where it says nothing."""
    version = version_of(release)
    for row in FORMS:
        if row.name == name and version_of(row.since) <= version < version_of(row.until):
            return row.text.format_map(values)
    return None


def prefix(rank: str | None, at: float | None = None) -> str:
    """utils/common.py, configure_logger."""
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time.time() if at is None else at))
    return f"[{stamp}{' ' + rank if rank else ''}] "


def write(data: bytes) -> None:
    """One record of the journal for each line; in one piece, so that lines of several processes do not mix."""
    while data:
        data = data[os.write(STDERR, data) :]


def write_line(text: str) -> None:
    write(text.encode("utf-8", "surrogateescape") + b"\n")
