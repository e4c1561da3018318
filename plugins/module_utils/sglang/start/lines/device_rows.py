# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lines about the pools in the memory of the GPUs and what is free of it, as rows of the grammar. All sizes are GiB."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.load_rows import AVAILABLE
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.rows import (
    INTEGER,
    NUMBER,
    SIGNED,
    SIZE,
    TOKENS,
    Row,
    row,
)

# K and V apart, or one size (latent caches).
_K_AND_V = rf"#tokens: {TOKENS}, K size: {SIZE} GB, V size: (?P<size2>{NUMBER}) GB"
_ONE = rf"#tokens: {TOKENS}, KV size: {SIZE} GB"
_DTYPE = r"dtype: [\w.]{1,60}, "
_POOL = "mem_cache/memory_pool.py"
_SPLIT = "model_executor/pool_configurator.py"
_RUNTIME = "model_executor/model_runner_components/kv_pool_runtime.py"


def _pool(words: str, label: str | None, since: str | None = None, until: str | None = None) -> Row:
    return row("progress", words, "device_pool", label, since=since, until=until, after_allocating=True, source=_POOL)


DEVICE_ROWS: tuple[Row, ...] = (
    # A model with window layers: how many tokens each of its two pools will have.
    row(
        "progress",
        rf"Use Sliding window memory pool\. full_layer_tokens={TOKENS}, swa_layer_tokens=(?P<swa_tokens>{INTEGER})",
        "device_pool",
        "split",
        since="0.4.10",
        until="0.5.7",
        source="model_executor/model_runner.py",
    ),
    row(
        "progress",
        rf"Use sliding window memory pool\. full_layer_tokens={TOKENS}, swa_layer_tokens=(?P<swa_tokens>{INTEGER})",
        "device_pool",
        "split",
        since="0.5.7",
        source=_SPLIT,
    ),
    row(
        "progress",
        rf"Use sliding window memory pool \(all SWA\)\. swa_layer_tokens=(?P<swa_tokens>{INTEGER})",
        "device_pool",
        "split",
        since="0.5.9",
        source=_SPLIT,
    ),
    row(
        "progress",
        rf"DSV4 pool sizes: full={TOKENS}, swa=(?P<swa_tokens>{INTEGER}), c4=(?P<c4_tokens>{INTEGER}), "
        rf"c128=(?P<c128_tokens>{INTEGER}), c4_state=(?P<c4_state_count>{INTEGER}), "
        rf"c128_state=(?P<c128_state_count>{INTEGER})",
        "device_pool",
        "split",
        since="0.5.12",
        source=_SPLIT,
    ),
    # The token count came with 0.4.4.
    _pool(rf"KV Cache is allocated\. K size: {SIZE} GB, V size: (?P<size2>{NUMBER}) GB", "kv", until="0.4.7"),
    _pool(rf"KV Cache is allocated\. {_K_AND_V}", "kv", until="0.5.13"),
    _pool(rf"KV Cache is allocated\. {_ONE}", "kv", until="0.5.13"),
    _pool(rf"KV Cache is allocated\. {_DTYPE}{_K_AND_V}", "kv", "0.5.13"),
    _pool(rf"KV Cache is allocated\. {_DTYPE}{_ONE}", "kv", "0.5.13"),
    # Named pools: Full and SWA of a model with window layers, and those of MiniMax's own kinds of attention. Where
    # graphs are captured before the pools get their final size, "VA upper bound" stands there instead: nothing is
    # allocated by then.
    _pool(rf"Full KV Cache is allocated\. {_DTYPE}{_K_AND_V}", "kv", "0.5.17"),
    _pool(rf"Full KV Cache is allocated\. {_DTYPE}{_ONE}", "kv", "0.5.17"),
    _pool(rf"SWA KV Cache is allocated\. {_DTYPE}{_K_AND_V}", "swa", "0.5.17"),
    _pool(rf"SWA KV Cache is allocated\. {_DTYPE}{_ONE}", "swa", "0.5.17"),
    _pool(rf"(?P<label>[\w][\w .-]{{0,60}}?) KV Cache is allocated\. {_DTYPE}{_K_AND_V}", None, "0.5.17"),
    _pool(rf"(?P<label>[\w][\w .-]{{0,60}}?) KV Cache is allocated\. {_DTYPE}{_ONE}", None, "0.5.17"),
    _pool(
        rf"Mamba Cache is allocated\.(?: max_mamba_cache_size: (?P<slots_count>{INTEGER}),)?"
        rf"(?:.{{0,20}}?conv_state size: {SIZE} ?GB, ssm_state size: (?P<size2>{NUMBER}) ?GB)?"
        rf"(?: intermediate_ssm_state_cache size: (?P<size3>{NUMBER}) ?GB"
        rf" intermediate_conv_window_cache size: (?P<size4>{NUMBER}) ?GB)?",
        "mamba",
        "0.5.2",
    ),
    _pool(
        rf"GDN ReplaySSM ring buffers allocated \([^)]{{0,80}}\): d={SIZE}GB, k=(?P<size2>{NUMBER})GB, "
        rf"g=(?P<size3>{NUMBER})GB(?: rawv=(?P<size4>{NUMBER})GB, rawk=(?P<size5>{NUMBER})GB,"
        rf"(?: beta=(?P<size6>{NUMBER})GB)?)?",
        "replay",
        "0.5.15",
    ),
    row(
        "progress",
        rf"int8 mamba checkpoint pool: (?P<slots_count>{INTEGER}) slots, {SIZE}GB",
        "device_pool",
        "mamba_checkpoint",
        since="0.5.14",
        source="mem_cache/mamba_checkpoint_pool.py",
    ),
    # Sized after the graphs: the pools that got their memory only now.
    row(
        "progress",
        rf"Post-capture KV sizing: max_total_num_tokens={TOKENS}, free memory=(?P<available_gb>{SIGNED}) GB",
        "device_pool",
        "resized",
        since="0.5.16",
        until="0.5.17",
        after_allocating=True,
        source=_RUNTIME,
    ),
    row(
        "progress",
        rf"Post-capture KV sizing: KV cache allocated\. {_DTYPE}{_ONE}{AVAILABLE}",
        "device_pool",
        "kv",
        since="0.5.17",
        after_allocating=True,
        source=_RUNTIME,
    ),
    row(
        "progress",
        rf"Post-capture KV sizing: draft KV cache allocated\. {_DTYPE}{_ONE}",
        "device_pool",
        "draft",
        since="0.5.22",
        after_allocating=True,
        source=_RUNTIME,
    ),
    row(
        "stage_end",
        rf"Memory pool end\.{AVAILABLE}",
        "device_pool",
        after_allocating=True,
        source="mem_cache/kv_cache_configurator.py",
    ),
    # Only the first rank of a tensor parallel group says it. On a CPU the memory is the host's.
    row(
        "capacity",
        rf"max_total_num_tokens={TOKENS}, (?:chunked_prefill_size=(?P<chunked_prefill_tokens>{INTEGER}), )?"
        rf"(?:.*?max_running_requests=(?P<running_requests_count>{INTEGER}))?"
        rf"(?:, context_len=(?P<context_tokens>{INTEGER}))?"
        rf"(?:.*?available_gpu_mem=(?P<available_gb>{SIGNED}) GB)?"
        rf"(?:.*?available_cpu_mem=(?P<cpu_available_gb>{SIGNED}) GB)?",
        None,
        "max_total_num_tokens",
        source="managers/scheduler.py",
    ),
)
