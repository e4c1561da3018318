# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lines of the main process once every rank has reported to it, as rows of the grammar."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.rows import NUMBER, Row, row

_HTTP = "entrypoints/http_server.py"
# uvicorn/server.py and uvicorn/lifespan/on.py, not SGLang's own; by its formatter with the level in front.
_UVICORN = r"(?:INFO:\s{1,9})?"


def _step(words: str, label: str, since: str | None = None, until: str | None = None, source: str = _HTTP) -> Row:
    return row("progress", words, "warm_up", label, since=since, until=until, source=source)


SERVE_ROWS: tuple[Row, ...] = (
    row(
        "stage_begin",
        rf"Engine startup timings \(s\): load_weight=(?P<load_weight_seconds>{NUMBER}), "
        rf"(?:kv_cache_allocation=(?P<kv_cache_allocation_seconds>{NUMBER}), )?"
        rf"scheduler_e2e=(?P<scheduler_seconds>{NUMBER})"
        r"(?:, cuda_graph=\{(?P<cuda_graph_phases>[^}]{0,400})\})?"
        rf"(?:, tokenizer_e2e=(?P<tokenizer_seconds>{NUMBER}))?",
        "warm_up",
        since="0.5.17",
        source="entrypoints/engine.py",
    ),
    row("stage_begin", rf"{_UVICORN}Started server process \[\d{{1,10}}\]", "warm_up"),
    row("progress", rf"{_UVICORN}Application startup complete\.", "warm_up", "application"),
    row("progress", rf"{_UVICORN}Uvicorn running on http", "warm_up", "listening"),
    _step(r"Uvicorn running on .{1,100}? with \d{1,6} SO_REUSEPORT workers", "listening", "0.5.23"),
    _step(r"Starting Granian HTTP/2 server on ", "listening", "0.5.11", "0.5.14"),
    _step(r"Starting embedded Granian HTTP/2 server on ", "listening", "0.5.14"),
    # A node that is not the first of several serves nothing; this is all that it says when its ranks are there.
    _step(r"Starting dummy health check server at ", "worker_node", until="0.5.5", source="utils/common.py"),
    _step(
        r"Dummy health check server started in background thread at ",
        "worker_node",
        "0.5.5",
        source="utils/common.py",
    ),
    _step(r"Running warmup ", "warm_up_request", source="entrypoints/warmup.py"),
    _step(r"Start of prefill warmup \.\.\.", "warm_up_request", until="0.5.0rc2"),
    _step(r"Start of pd disaggregation warmup \.\.\.", "warm_up_request", "0.5.0rc2"),
    # After the server's own warm-up request.
    row("ready", r"The server is fired up and ready to roll!", "ready", source=_HTTP),
)
