# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What SGLang says while it starts, as a grammar by version.

A row of C(GRAMMAR) holds from the release it begins with up to, not including, the one it ends with. A release newer
than those that were read keeps the open rows: what still matches is used, the rest of the watch rests on bytes and
readiness. Read from the wheels; the files are named beside the rows (0.5.9 and 0.5.23 line by line).

Units: device lines print GiB (2^30) under the letters GB, host lines print GB (1e9). Both are rounded to two decimals.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB, GIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import Version, parse_version

# The order in which both 0.5.9 and 0.5.23 really go through them: graphs are captured before the host pool is pinned
# (managers/scheduler.py: init_model_worker, then the tree cache).
STAGES = ("boot", "load", "device_pool", "capture", "host_pool", "warm_up", "ready")

# Rank of a server that has only one; its lines carry no rank part.
SOLE_RANK = "TP0"

_RANK_PART = r"(?:ATTN_CP|MOE_DP|DP|PP|TP|EP)\d+"
# utils/common.py configure_logger; `SGLANG_LOG_MS` adds the milliseconds.
_PREFIX = re.compile(rf"^\[\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{{3}})?((?: {_RANK_PART})*)\] (.*)$", re.DOTALL)
# managers/scheduler.py setproctitle; spaces of the prefix become underscores.
_TITLE = re.compile(rf"^sglang::scheduler((?:_{_RANK_PART})*)\s*$")
_PART = re.compile(_RANK_PART)


@dataclass(frozen=True)
class LogEvent:
    """One line that means something.

    C(kind): settings, stage_begin, stage_end, progress, capacity, ready, failure, exception or consequence.
    C(label) refines it: name of a pool, of a captured graph, or the code of a failure.
    C(values) holds further numbers, bytes under names ending in _bytes; C(available_bytes) is free memory of a GPU.
    C(timestamp) (UNIX seconds, from the journal) and C(pid) are not of the line; the reader of the journal adds them.
    """

    kind: str
    text: str
    stage: str | None = None
    rank: str | None = None
    bytes: int | None = None
    tokens: int | None = None
    label: str | None = None
    seconds: float | None = None
    values: tuple[tuple[str, Any], ...] = ()
    timestamp: float | None = None
    pid: int | None = None

    def value(self, name: str) -> Any:
        return dict(self.values).get(name)

    def as_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "stage": self.stage,
            "rank": self.rank,
            "label": self.label,
            "bytes": self.bytes,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "values": dict(self.values),
            "text": self.text,
            "timestamp": self.timestamp,
            "pid": self.pid,
        }


def event_from_dict(data: Mapping[str, Any]) -> LogEvent:
    """The inverse of C(LogEvent.as_dict), for events that came over the wire."""
    values = data.get("values") or {}
    return LogEvent(
        kind=str(data["kind"]),
        text=str(data.get("text") or ""),
        stage=data.get("stage"),
        rank=data.get("rank"),
        bytes=data.get("bytes"),
        tokens=data.get("tokens"),
        label=data.get("label"),
        seconds=data.get("seconds"),
        values=tuple(sorted(values.items())),
        timestamp=data.get("timestamp"),
        pid=data.get("pid"),
    )


@dataclass(frozen=True)
class Row:
    """C(unit) is the number of bytes that one "GB" of the line stands for."""

    kind: str
    pattern: re.Pattern[str]
    stage: str | None = None
    label: str | None = None
    unit: int = GIB
    since: Version = Version(0, 0, 0)
    until: Version | None = None

    def holds(self, version: Version) -> bool:
        return self.since <= version and (self.until is None or version < self.until)


def _row(
    kind: str,
    pattern: str,
    stage: str | None = None,
    label: str | None = None,
    unit: int = GIB,
    since: str = "0.4.0",
    until: str | None = None,
) -> Row:
    return Row(
        kind=kind,
        pattern=re.compile(pattern),
        stage=stage,
        label=label,
        unit=unit,
        since=parse_version(since),
        until=parse_version(until) if until else None,
    )


_N = r"(\d+(?:\.\d+)?)"
_SIZE = rf"(?P<size>{_N})"
# Up to 0.4.3 some of these lines end before it.
_AVAILABLE = rf"(?:.*?avail mem=(?P<available>{_N}) GB)?"

# Groups with a meaning: size (in the row's unit), size2 to size4 (added to it), available (in the row's unit), tokens,
# seconds, label.
GRAMMAR: tuple[Row, ...] = (
    # model_executor/model_runner.py; distributed/bootstrap.py from 0.5.21.
    _row("stage_begin", r"Init torch distributed begin\.", "boot", "distributed", until="0.5.21"),
    _row("stage_begin", r"Init parallel begin\.", "boot", "distributed", since="0.5.21"),
    _row("stage_end", r"Init torch distributed ends\.", "boot", "distributed", until="0.5.21"),
    _row("stage_end", r"Init parallel ends\.", "boot", "distributed", since="0.5.21"),
    # model_executor/model_runner.py
    _row("stage_begin", rf"Load weight begin\.{_AVAILABLE}", "load"),
    _row("stage_end", rf"Load weight end\.{_AVAILABLE}(?:.*?mem usage={_SIZE} GB)?", "load"),
    # mem_cache/memory_pool.py; `dtype:` from 0.5.13; K and V apart, or one size (MLA).
    _row(
        "progress",
        rf"(?:Full )?KV Cache is allocated\. (?:dtype: [\w.]+, )?#tokens: (?P<tokens>\d+), "
        rf"K size: {_SIZE} GB, V size: (?P<size2>{_N}) GB",
        "device_pool",
        "kv",
    ),
    # The two pools of a model with window layers have names from 0.5.17 on (Full, SWA), as the log of a server shows.
    _row(
        "progress",
        rf"SWA KV Cache is allocated\. dtype: [\w.]+, #tokens: (?P<tokens>\d+), "
        rf"K size: {_SIZE} GB, V size: (?P<size2>{_N}) GB",
        "device_pool",
        "swa",
    ),
    _row(
        "progress",
        rf"KV Cache is allocated\. (?:dtype: [\w.]+, )?#tokens: (?P<tokens>\d+), KV size: {_SIZE} GB",
        "device_pool",
        "kv",
    ),
    _row(
        "progress",
        rf"Mamba Cache is allocated\.(?:.*?conv_state size: {_SIZE} ?GB, ssm_state size: (?P<size2>{_N}) ?GB)?"
        rf"(?: intermediate_ssm_state_cache size: (?P<size3>{_N}) ?GB"
        rf" intermediate_conv_window_cache size: (?P<size4>{_N}) ?GB)?",
        "device_pool",
        "mamba",
    ),
    _row("stage_end", rf"Memory pool end\.{_AVAILABLE}", "device_pool"),
    # model_executor/model_runner.py, speculative/*.py; components/cuda_graph_setup.py from 0.5.14.
    _row("stage_begin", r"Capture (?P<label>[\w -]+?)(?: \(step \d+\))? begin\b", "capture"),
    _row("stage_end", rf"Capture (?P<label>[\w -]+?)(?: \(step \d+\))? end\b{_AVAILABLE}", "capture"),
    # managers/scheduler.py; only the first rank of a tensor parallel group says it.
    _row(
        "capacity",
        rf"max_total_num_tokens=(?P<tokens>\d+), (?:.*?available_gpu_mem=(?P<available>{_N}) GB)?",
        None,
        "max_total_num_tokens",
    ),
    # mem_cache/memory_pool_host.py to 0.5.16; mem_cache/pool_host/*.py. Printed before the memory is allocated.
    _row("stage_begin", rf"Allocating {_SIZE} GB host memory for hierarchical KV cache", "host_pool", "kv", GB),
    _row(
        "stage_begin",
        rf"Allocating (?P<label>[\w -]+?) hierarchical KV host pool: (?P<tokens>\d+) tokens, {_SIZE} GB host memory",
        "host_pool",
        unit=GB,
        since="0.5.17",
    ),
    _row(
        "stage_begin",
        rf"Allocating {_SIZE} GB host memory for hierarchical Mamba cache",
        "host_pool",
        "mamba",
        GB,
        since="0.5.10",
    ),
    _row(
        "stage_begin",
        rf"Allocating {_SIZE} GB host memory for (?:NSA|DSA) indexer",
        "host_pool",
        "indexer",
        GB,
        since="0.5.11",
    ),
    _row(
        "stage_begin",
        rf"Allocating {_SIZE} GB host memory for MiniMax sparse index-K",
        "host_pool",
        "indexer",
        GB,
        since="0.5.15",
    ),
    # mem_cache/hicache_auto_size.py
    _row("progress", r"HiCache auto-sizing: ratio ", "host_pool", "auto_size", since="0.5.21"),
    # mem_cache/hybrid_cache/hybrid_pool_assembler.py, mem_cache/registry.py. Before 0.5.11 nothing marks the end.
    _row("stage_end", r"Attached hybrid pool stack to UnifiedRadixCache: ", "host_pool", since="0.5.11"),
    _row("stage_end", r"Tree cache initialized: .*hicache_attached=True", "host_pool", since="0.5.13"),
    # entrypoints/engine.py; said once every rank has reported to the main process.
    _row("stage_begin", r"Engine startup timings \(s\): ", "warm_up", since="0.5.17"),
    _row("stage_begin", r"(?:INFO:\s+)?Started server process \[\d+\]", "warm_up"),
    # entrypoints/http_server.py, after the server's own warm-up request.
    _row("ready", r"The server is fired up and ready to roll!", "ready"),
    #
    # Failures whose line tells the cause. The prefix of the exception is part of the line, hence no anchor.
    _row(
        "failure",
        rf"Not enough host memory available\. Requesting (?P<requested>{_N}) GB but only have "
        rf"(?P<available>-?{_N}) GB free",
        "host_pool",
        "host_memory_guard",
        GB,
    ),
    _row("failure", r"Not enough host memory for ", "host_pool", "host_memory_guard", GB),
    _row("failure", r"No host memory is left for HiCache", "host_pool", "host_memory_guard", GB, since="0.5.21"),
    _row(
        "failure",
        r"The host memory should be larger than the device memory",
        "host_pool",
        "host_pool_smaller_than_device",
        until="0.5.15",
    ),
    # mem_cache/pool_host/common.py; the return code is checked from 0.5.13 on.
    _row(
        "failure",
        r"cudaHostRegister(?:\([^)]*\))? failed(?: \(rc=(?P<rc>-?\d+), (?P<reason>[^)]*)\) at offset=\d+ "
        r"size=(?P<raw_bytes>\d+))?",
        "host_pool",
        "registration_failed",
    ),
    _row("failure", r"^AssertionError: Torch not compiled with CUDA enabled", None, "no_cuda"),
    _row("failure", r"(?:torch\.)?(?:cuda\.)?OutOfMemoryError: |CUDA out of memory", None, "gpu_out_of_memory"),
    _row("failure", r"Not enough memory\. Please try to increase --mem-fraction-static", None, "kv_pool_too_small"),
    # Python's argparse, and the launcher's own checks.
    _row("failure", r"^[\w./-]+(?: \w+)?: error: (?P<reason>.*)$", "boot", "bad_argument"),
    _row(
        "failure",
        r"error while attempting to bind on address .*(?:address already in use)|Address already in use"
        r"|\bat (?P<port>\d+) is not available in \d+ seconds|^\w*Error: Port is already in use",
        None,
        "port_in_use",
    ),
    _row(
        "failure",
        r"Cannot find any model weights with|is not a local folder and is not a valid model identifier"
        r"|HFValidationError: |Repo id must be in the form"
        r"|FileNotFoundError: .*(?:\.safetensors|config\.json|tokenizer)"
        r"|(?:OSError|EnvironmentError): .*does not appear to have a file named"
        r"|SafetensorError: ",
        "load",
        "model_files",
    ),
    _row(
        "failure",
        r"No working C\+\+ compiler found|Failed to find C compiler|fatal error: Python\.h: No such file"
        r"|Could not find nvcc|FileNotFoundError: .*'(?:ninja|nvcc|gcc|g\+\+|c\+\+|cc)'",
        None,
        "missing_compiler",
    ),
    _row("failure", r"Initialization failed\. warmup error:", "warm_up", "warm_up_failed"),
    _row("failure", r"watchdog timeout \(", None, "watchdog_timeout"),
    # entrypoints/engine.py; the exit code is Python's, so negative is a signal.
    _row(
        "failure",
        r"Rank (?P<index>\d+) scheduler died during initialization \(exit code: (?P<exit_code>-?\d+)\)",
        None,
        "scheduler_died",
        since="0.5.10",
    ),
    _row("failure", r"Rank (?P<index>\d+) scheduler is dead\.", None, "scheduler_died", until="0.5.21"),
    # utils/watchdog.py; once the server runs.
    _row(
        "failure",
        r"Subprocess scheduler_(?P<index>\d+) \(pid=(?P<dead_pid>\d+)\) crashed with exit code (?P<exit_code>-?\d+)",
        None,
        "scheduler_died",
        since="0.5.10",
    ),
    # systemd's own words about the unit (src/core/unit.c).
    _row("failure", r"A process of this unit has been killed by the OOM killer", None, "oom_killer"),
    # An exception reached the top of a scheduler; the cause follows as a traceback in the same record or process.
    _row("consequence", r"Scheduler hit an exception: ", None, "scheduler_exception"),
    _row("consequence", r"Received sigquit from a child process|SIGQUIT received\.", None, "sigquit"),
    _row("consequence", r"SIGTERM received\.", None, "sigterm"),
    # The last line of a traceback.
    _row(
        "exception",
        r"^(?P<label>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit))(?:: (?P<reason>.*))?$",
    ),
)


def is_rank_scoped(event: LogEvent) -> bool:
    """Whether a scheduler says it; such a line without a rank part is of a server that has only one rank."""
    return event.kind in ("stage_begin", "stage_end", "progress") and event.stage != "warm_up"


def rank_from_title(title: str) -> str | None:
    """C(sglang::scheduler_DP0_TP1) -> C(DP0 TP1); C(sglang::scheduler) -> C(TP0); None for any other process."""
    match = _TITLE.match(title)
    if match is None:
        return None
    return " ".join(_PART.findall(match.group(1))) or SOLE_RANK


def pipeline_stage(rank: str) -> int:
    """C(PP1 TP0) -> 1; 0 for a rank of a server without stages."""
    return next((int(part[2:]) for part in rank.split() if part.startswith("PP")), 0)


def split_prefix(message: str) -> tuple[bool, str | None, str]:
    """(has SGLang's prefix, rank label, rest of the line)."""
    match = _PREFIX.match(message)
    if match is None:
        return False, None, message
    return True, match.group(1).strip() or None, match.group(2)


_GRAMMARS: dict[Version, tuple[Row, ...]] = {}


def _grammar(version: Version) -> tuple[Row, ...]:
    if version not in _GRAMMARS:
        _GRAMMARS[version] = tuple(row for row in GRAMMAR if row.holds(version))
    return _GRAMMARS[version]


# Groups that become fields of the event; the others go into its values.
_SIZES = ("size", "size2", "size3", "size4")
_FIELDS = (*_SIZES, "tokens", "seconds", "label")


def _values(row: Row, groups: Mapping[str, str | None]) -> tuple[tuple[str, Any], ...]:
    values: dict[str, Any] = {}
    for name, text in groups.items():
        if name in _FIELDS or text is None:
            continue
        if name in ("requested", "available"):
            values[f"{name}_bytes"] = round(float(text) * row.unit)
        elif name == "raw_bytes":
            values["requested_bytes"] = int(text)
        elif name in ("index", "exit_code", "dead_pid", "rc", "port"):
            values[name] = int(text)
        else:
            values[name] = text
    return tuple(sorted(values.items()))


def _event(row: Row, match: re.Match[str], rank: str | None, text: str) -> LogEvent:
    groups = match.groupdict()
    sizes = [float(groups[name]) for name in _SIZES if groups.get(name) is not None]
    return LogEvent(
        kind=row.kind,
        text=text,
        stage=row.stage,
        rank=rank,
        bytes=round(sum(sizes) * row.unit) if sizes else None,
        tokens=int(groups["tokens"]) if groups.get("tokens") else None,
        label=groups.get("label") or row.label,
        seconds=float(groups["seconds"]) if groups.get("seconds") else None,
        values=_values(row, groups),
    )


def parse_line(message: str, version: str) -> LogEvent | None:
    """The event behind one line of the journal, None if it means nothing for a start.

    A record may hold several lines (a traceback in one write); the first line that means something beyond a mere
    consequence speaks for it.
    """
    prefixed, rank, rest = split_prefix(message)
    first: LogEvent | None = None
    for number, line in enumerate(rest.splitlines() or [""]):
        event = _parse_one(line.rstrip(), rank, version, anchored=prefixed and number == 0)
        if event is None:
            continue
        if event.kind not in ("consequence", "exception"):
            return event
        # Of several lines the last exception is the one that was not handled.
        if first is None or first.kind == "consequence" or event.kind == "exception":
            first = event
    return first


# entrypoints/engine.py: the arguments as the server resolved them, a dataclass' words to 0.5.22 and a mapping since. It
# holds keys and paths, so nothing but numbers is taken out of it.
_FRACTION = re.compile(r"\bmem_fraction_static'?\s*[=:]\s*(?P<fraction>0?\.\d+)")


def _settings(line: str) -> LogEvent | None:
    found = _FRACTION.search(line)
    if found is None:
        return None
    values = (("mem_fraction_static", float(found.group("fraction"))),)
    return LogEvent(kind="settings", text=f"server_args: mem_fraction_static={found.group('fraction')}", values=values)


def _parse_one(line: str, rank: str | None, version: str, anchored: bool) -> LogEvent | None:
    if line.startswith(("server_args=", "ServerArgs(")):
        return _settings(line)
    if not line:
        return None
    for row in _grammar(parse_version(version)):
        # Behind SGLang's own prefix the words stand first; failures are quoted inside other text.
        found = row.pattern.match(line) if anchored and row.kind != "failure" else row.pattern.search(line)
        if found is not None:
            return _event(row, found, rank, line)
    return None
