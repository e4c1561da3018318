# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lines about capturing graphs, as rows of the grammar."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.load_rows import BAR
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.rows import (
    INTEGER,
    NUMBER,
    SIGNED,
    Row,
    row,
)

# "cuda graph", "draft extend cuda graph", "piecewise CUDA graph", "target verify NPU graph", "single-CG draft extend"
_GRAPH = r"(?P<label>[\w][\w -]{0,60}?)"
_STEP = rf"(?: \(step (?P<step_index>{INTEGER})\))?"
# Which of the two comes first has changed, and one form has neither.
_FREE = rf"(?:(?=.*?avail mem=(?P<available_gb>{SIGNED}) GB)|)"
_USED = rf"(?:(?=.*?mem usage=(?P<usage_gb>{SIGNED}) GB)|)"
_TIME = rf"(?:(?=.*?(?:Time elapsed: |elapsed=)(?P<seconds>{NUMBER}) s)|)"
_DECODE = "model_executor/runner/decode_cuda_graph_runner.py"
_PREFILL = "model_executor/runner/prefill_cuda_graph_runner.py"
_SETUP = "model_executor/model_runner_components/cuda_graph_setup.py"
_MEM = rf"avail_mem=(?P<available_gb>{SIGNED}) GB\){BAR}"

CAPTURE_ROWS: tuple[Row, ...] = (
    row("stage_begin", rf"Capture {_GRAPH} begin{_STEP}\.{_FREE}", "capture", source=_SETUP),
    row("stage_end", rf"Capture {_GRAPH} end\.{_TIME}{_USED}{_FREE}", "capture", source=_SETUP),
    row(
        "progress",
        r"Capture cuda graph bs \[",
        "capture",
        "sizes",
        until="0.5.14",
        source="model_executor/cuda_graph_runner.py",
    ),
    row(
        "progress",
        r"Capture cpu graph bs \[",
        "capture",
        "sizes",
        since="0.5.2",
        source="model_executor/cpu_graph_runner.py",
    ),
    row(
        "progress",
        r"Capture cuda graph num tokens \[",
        "capture",
        "sizes",
        since="0.5.4",
        until="0.5.14",
        source="model_executor/piecewise_cuda_graph_runner.py",
    ),
    # Bars.
    row(
        "progress",
        rf"Capturing batches \({_MEM}",
        "capture",
        "batches",
        until="0.4.9",
        source="model_executor/cuda_graph_runner.py",
    ),
    row("progress", rf"Capturing batches \(bs={INTEGER} {_MEM}", "capture", "batches", since="0.4.9", source=_DECODE),
    row(
        "progress",
        rf"Capturing num tokens \(num_tokens={INTEGER} {_MEM}",
        "capture",
        "num_tokens",
        since="0.5.4",
        until="0.5.21",
        source=_PREFILL,
    ),
    row(
        "progress",
        rf"Capturing prefill shape \(num_tokens={INTEGER} {_MEM}",
        "capture",
        "num_tokens",
        since="0.5.21",
        source=_PREFILL,
    ),
    row(
        "progress",
        rf"\[BCG\] Capturing \(num_tokens={INTEGER} {_MEM}",
        "capture",
        "num_tokens",
        since="0.5.11",
        until="0.5.14",
        source="model_executor/breakable_cuda_graph_runner.py",
    ),
)
