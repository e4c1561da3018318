# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which of a start's troubles is the cause, and which rank it is about. Pure.

The first that names a cause counts, and not what followed from it. What was said and survived, so that its process went
on to a later stage, counts only when nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.catalogue import (
    CATALOGUE,
    FATAL,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.failure import (
    CAUSE,
    GENERAL,
    HINT,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.xids import is_hardware
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import LogEvent
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import StartupState

# Exceptions of a process whose peer or parent went away before it.
FOLLOW_UPS = ("BrokenPipeError", "ConnectionResetError", "ConnectionRefusedError", "EOFError", "DistNetworkError")
_CLOSED = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "terminated or timed out",
    "remote process exited or there was a network error",
)
# Of what only says that something failed, these are said of another failure.
_LATE = frozenset(("scheduler_died", "warm_up_failed"))
# A stage that begins so long after a line was not begun by the same breath.
SURVIVED_SECONDS = 1.0


def rank_of(state: StartupState, line: LogEvent) -> str | None:
    """The rank a line is about: named in it, by number, or by the process that said it."""
    for pid in (line.value("dead_pid"), line.pid):
        found = next((rank.rank for rank in state.ranks if pid is not None and rank.pid == pid), None)
        if found is not None:
            return found
    if line.rank is not None:
        return line.rank
    index = line.value("index")
    if index is None:
        return None
    # Schedulers are numbered in the order of their ranks (entrypoints/engine.py).
    return state.ranks[index].rank if index < len(state.ranks) else f"TP{index}"


def first(state: StartupState, wanted: Callable[[LogEvent], bool]) -> LogEvent | None:
    """The earliest such line."""
    return _earliest(line for line in state.troubles if wanted(line))


def _earliest(lines: Iterable[LogEvent]) -> LogEvent | None:
    """The journal's order decides between equal times."""
    return min(lines, key=lambda line: line.timestamp or 0.0, default=None)


def standing(line: LogEvent) -> str | None:
    """How much a line says (catalogue/failure.py); None for what is no failure of the catalogue."""
    if line.kind != "failure" or line.label not in CATALOGUE:
        return None
    if line.label == "gpu_error" and is_hardware(line.value("xid")):
        return CAUSE
    if _is_closed(line):
        return None
    return CATALOGUE[line.label].standing


def survived(state: StartupState, line: LogEvent) -> bool:
    """Whether the process that said it went on to another stage afterwards."""
    if line.label in FATAL or line.timestamp is None:
        return False
    rank, said_at = rank_of(state, line), line.timestamp
    return any(
        span.began is not None
        and span.began > said_at + SURVIVED_SECONDS
        and (rank is None or span.rank in (rank, None))
        for span in state.spans
    )


def named_cause(state: StartupState) -> LogEvent | None:
    """The first line that names a cause and was not survived.

    Of several accounts of one out-of-memory kill (the control group's, systemd's, the kernel's) that which names the
    process.
    """
    found = first(state, lambda line: standing(line) == CAUSE and not survived(state, line))
    if found is None or found.label != "oom_killer":
        return found
    named = first(state, lambda line: line.label == "oom_killer" and line.value("dead_pid") is not None)
    return named or found


def survived_cause(state: StartupState) -> LogEvent | None:
    return first(state, lambda line: standing(line) == CAUSE)


def general_cause(state: StartupState) -> LogEvent | None:
    """The first line or exception that says what failed, if not why."""
    return first(
        state,
        lambda line: (
            (standing(line) == GENERAL and line.label not in _LATE)
            or (line.kind == "exception" and not is_follow_up(line) and not _rewords(line))
        ),
    )


def hint(state: StartupState) -> LogEvent | None:
    return first(state, lambda line: standing(line) == HINT)


def _is_closed(line: LogEvent) -> bool:
    return any(words in line.text for words in _CLOSED)


def is_follow_up(line: LogEvent) -> bool:
    name = (line.label or "").rsplit(".", 1)[-1]
    return name in FOLLOW_UPS or _is_closed(line)


def _rewords(line: LogEvent) -> bool:
    """The launcher's own exception about a rank that failed before it."""
    return "Please see the error messages above" in line.text


def speaker(state: StartupState) -> str | None:
    """The rank that first reported an exception; its traceback is made of lines that name no rank."""
    report = first(state, lambda line: line.label == "scheduler_exception")
    if report is None:
        return None
    return rank_of(state, report) or (state.ranks[0].rank if len(state.ranks) == 1 else None)


def said_by_main(line: LogEvent) -> bool:
    """What concerns the whole server, whoever reports an exception beside it."""
    return line.stage == "boot" and line.label in ("port_in_use", "bad_argument", "address_not_local", "port_forbidden")
