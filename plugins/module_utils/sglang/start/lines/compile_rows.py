# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lines about compiling and tuning kernels, as rows of the grammar.

It happens wherever a kernel is first needed: after the weights, before or while graphs are captured, in the warm-up. No
stage begins or ends with it, but a server that does it may say and allocate nothing for a quarter of an hour.
"""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.load_rows import BAR
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.rows import INTEGER, NUMBER, Row, row

_DEEP_GEMM = "layers/deep_gemm_wrapper/compile_utils.py"
_TUNER = "model_executor/runner/flashinfer_autotune.py"


def _begun(words: str, since: str | None, until: str | None, source: str) -> Row:
    return row("progress", words, None, "compiling", since=since, until=until, source=source)


def _done(words: str, since: str | None, until: str | None, source: str) -> Row:
    return row("progress", words, None, "compiled", since=since, until=until, source=source)


COMPILE_ROWS: tuple[Row, ...] = (
    _begun(r"Entering DeepGEMM JIT Pre-Compile session\.", None, None, _DEEP_GEMM),
    _begun(r"Try DeepGEMM JIT Compiling for <", None, None, _DEEP_GEMM),
    _begun(r"DeepGEMM JIT Compiling for <", None, "0.5.2", "layers/quantization/deep_gemm_wrapper/compile_utils.py"),
    _begun(rf"DeepGEMM warmup{BAR}", "0.5.2", None, _DEEP_GEMM),
    _begun(r"PP-parallel DeepGEMM warmup start \(", "0.5.13", None, _DEEP_GEMM),
    _done(rf"PP-parallel DeepGEMM warmup done in (?P<seconds>{NUMBER})s", "0.5.13", None, _DEEP_GEMM),
    _begun(r"Running FlashInfer autotune\.\.\.", "0.5.6", "0.5.12", "model_executor/model_runner.py"),
    _begun(r"Running FlashInfer autotune with cache: ", "0.5.12", None, _TUNER),
    _begun(r"Running FlashInfer autotune \(cache reuse DISABLED ", "0.5.13", None, _TUNER),
    _done(r"FlashInfer autotune completed\.", "0.5.6", None, _TUNER),
    _begun(
        rf"Compiling num tokens \(num_tokens={INTEGER}\){BAR}",
        "0.5.7",
        None,
        "model_executor/runner_backend/tc_piecewise_cuda_graph_backend.py",
    ),
    _done(
        rf"Compiling a graph for (?:dynamic shape|shape .{{1,60}}?) takes (?P<seconds>{NUMBER}) s",
        "0.5.4",
        None,
        "compilation/backend.py",
    ),
    _done(
        rf"DeepSeek V4 MHC (?:prenorm )?prewarm at load: compile (?P<seconds>{NUMBER})s",
        "0.5.15",
        None,
        "models/deepseek_v4.py",
    ),
    _begun(r"Building the PTX KDA prefill extension \(", "0.5.17", None, "layers/attention/linear/kernels/kda_ptx.py"),
)
