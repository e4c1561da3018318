# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lines from the first process to the weights, as rows of the grammar."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.rows import (
    INTEGER,
    NUMBER,
    SIGNED,
    SIZE,
    Row,
    row,
)

# How a progress bar goes on behind its words: tqdm's own form, and the one for shards (model_loader/weight_utils.py,
# BAR_FORMAT).
BAR = (
    r":\s{1,4}\d{1,3}%(?: Completed \||\|[^|]{0,400}\|) "
    rf"(?P<done_count>{INTEGER})/(?P<total_count>{INTEGER})"
)
# Up to 0.4.3 some of these lines end before it.
AVAILABLE = rf"(?:.*?avail mem=(?P<available_gb>{SIGNED}) GB)?"
_LOADER = "model_loader/weight_utils.py"
_BOOTSTRAP = "distributed/bootstrap.py"
_GATE = "distributed/gated_launch.py"
_RUNNER = "model_executor/model_runner.py"

LOAD_ROWS: tuple[Row, ...] = (
    row("stage_begin", r"Init torch distributed begin\.", "boot", "distributed", until="0.5.21", source=_BOOTSTRAP),
    row("stage_begin", r"Init parallel begin\.", "boot", "distributed", since="0.5.21", source=_BOOTSTRAP),
    row(
        "stage_end",
        rf"Init torch distributed ends\.(?: elapsed=(?P<seconds>{NUMBER}) s,)?"
        rf"(?: mem usage=(?P<usage_gb>{SIGNED}) GB)?",
        "boot",
        "distributed",
        until="0.5.21",
        source=_BOOTSTRAP,
    ),
    row(
        "stage_end",
        rf"Init parallel ends\.(?: elapsed=(?P<seconds>{NUMBER}) s)?",
        "boot",
        "distributed",
        since="0.5.21",
        source=_BOOTSTRAP,
    ),
    row(
        "progress",
        rf"Memory baseline taken\. mem usage=(?P<usage_gb>{SIGNED}) GB",
        "boot",
        "memory_baseline",
        since="0.5.21",
        source=_BOOTSTRAP,
    ),
    # --gated-launch-port: every rank waits here, before anything large is allocated, until it is told to go on.
    row(
        "progress",
        r"Gated launch waiting for activation\. rank=",
        "boot",
        "gate_closed",
        since="0.5.19",
        source=_GATE,
    ),
    row(
        "progress",
        rf"Gated launch still waiting for activation\. rank={INTEGER} elapsed=(?P<seconds>{NUMBER}) s",
        "boot",
        "gate_closed",
        since="0.5.19",
        source=_GATE,
    ),
    row(
        "progress",
        rf"Gated launch activated\. elapsed=(?P<seconds>{NUMBER}) s",
        "boot",
        "gate_open",
        since="0.5.19",
        source=_GATE,
    ),
    # A draft loads by the same words, after the target or, from 0.5.14 on, before its pools.
    row("stage_begin", rf"Load weight begin\.{AVAILABLE}", "load", source=_RUNNER),
    row(
        "stage_end",
        rf"Load weight end\.(?! Committed)(?: elapsed=(?P<seconds>{NUMBER}) s,)?(?: type=(?P<architecture>\w+),)?"
        rf"{AVAILABLE}(?:.*?mem usage={SIZE} GB)?",
        "load",
        source=_RUNNER,
    ),
    # Where loading overlaps capturing, weights follow at the end of both; no stage of its own begins or ends with it.
    row(
        "progress",
        rf"Load weight end\. Committed real weights after CUDA graph capture in (?P<seconds>{NUMBER}) s",
        "load",
        "overlapped",
        since="0.5.18",
        source="model_executor/model_runner_components/startup_weight_load.py",
    ),
    row("progress", rf"Loading (?:safetensors|pt|np_cache) checkpoint shards{BAR}", "load", "shards", source=_LOADER),
    row("progress", rf"Loading safetensors using Runai Model Streamer{BAR}", "load", "shards", source=_LOADER),
    row(
        "progress",
        rf"Multi-thread loading (?:pt checkpoint )?shards{BAR}",
        "load",
        "shards",
        since="0.4.9",
        source=_LOADER,
    ),
    # Into the page cache, beside the loading itself and past its end; from 0.5.20 on for debugging only.
    row(
        "progress",
        rf"Rank {INTEGER}: prefetching checkpoint files: \d{{1,3}}% "
        rf"\((?P<done_count>{INTEGER})/(?P<total_count>{INTEGER})\)",
        "load",
        "prefetch",
        since="0.5.11",
        until="0.5.20",
        source=_LOADER,
    ),
)
