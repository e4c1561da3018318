# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A rank that ended, by a signal, a status or an exception. Pure."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.catalogue import (
    CATALOGUE,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.remedies.case import Case, Finding
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.victims import victims
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import RankState
from ansible_collections.gpufleet.sglang.plugins.module_utils.systemd import signal_name

# SIGSEGV, SIGBUS, SIGABRT, SIGILL.
_SEGV, _BUS, _ABRT, _ILL = -11, -7, -6, -4
_KILL = -9


def exit_of(case: Case) -> int | None:
    """The exit code of the dead rank: by the line, else as its process told."""
    code = case.value("exit_code")
    dead = case.rank_state
    return code if code is not None else (dead.exit_code if dead is not None else None)


def _ended(code: int | None) -> str:
    if code is None:
        return "vanished; its exit status is not known"
    if code < 0:
        return f"was killed by {signal_name(-code)}"
    return f"ended with exit status {code}"


def _doing(case: Case) -> str:
    dead = case.rank_state
    if case.stage == "host_pool" and dead is not None and dead.pinned_bytes:
        return f"{case.doing} (it had {format_gb(dead.pinned_bytes)})"
    return case.doing


def died(case: Case) -> Finding:
    found = victims(case.state)
    if case.rank is None and case.line is None and len(found) > 1:
        return _several(case, found)
    code, dead = exit_of(case), case.rank_state
    who = f"Rank {case.rank}" if case.rank else f"The scheduler number {case.value('index')}"
    facts = {
        "exit_code": code,
        "signal": signal_name(-code) if code is not None and code < 0 else None,
        "pid": case.value("dead_pid") or (dead.pid if dead is not None else None),
        "stage": case.stage,
        "pinned_bytes": dead.pinned_bytes if dead is not None else None,
    }
    return Finding(
        f"{who} vanished while {_doing(case)}; its exit status is not known."
        if code is None
        else f"{who} {_ended(code)} while {_doing(case)}.",
        _remedy(case, code),
        facts=facts,
        code="bus_error" if code == _BUS else None,
    )


def _several(case: Case, found: tuple[RankState, ...]) -> Finding:
    """Ranks that were found dead together, and nothing tells which of them began it."""
    told = ", ".join(f"{one.rank} {_ended(one.exit_code)}" for one in found)
    codes = {one.exit_code for one in found}
    same = next(iter(codes)) if len(codes) == 1 else None
    facts = {"ranks": [one.rank for one in found], "exit_codes": [one.exit_code for one in found], "stage": case.stage}
    return Finding(
        f"{len(found)} ranks were found dead at the same time while {case.doing}, and nothing tells which of them "
        f"died first: {told}.",
        _remedy(case, same),
        facts=facts,
        code="bus_error" if same == _BUS else None,
    )


def _remedy(case: Case, code: int | None) -> str:
    if code == _KILL:
        return (
            "SIGKILL comes from the kernel when memory runs out, or from a person. Run `journalctl -k --since=-10min "
            "--grep='oom-kill|Killed process'`; if it names the process, compare the plan with what `free -g` shows."
        )
    if code == _BUS:
        return CATALOGUE["bus_error"].remedy
    if code in (_SEGV, _ABRT, _ILL):
        return f"The process crashed in native code. {CATALOGUE['native_crash'].remedy}"
    return CATALOGUE["scheduler_died"].remedy


def exception(case: Case) -> Finding:
    name = case.line.label if case.line is not None else None
    return Finding(
        f"An exception ended {case.who}: {case.text.rstrip('.: ')}.",
        CATALOGUE[case.code].remedy,
        facts={"exception": name},
    )
