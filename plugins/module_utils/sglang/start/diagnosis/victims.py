# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which of several dead ranks a start failed of. Pure.

A rank that dies takes the others with it: the main process ends them (SGLang utils/common.py, kill_process_tree), or
they leave when a collective breaks. So a crash counts before a kill, a kill before an abort, and each of them before an
exit or a signal that asks to leave. Among equals the main process's own word decides; without one, all are named.
"""

from __future__ import annotations

import signal
from dataclasses import replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.troubles import first, rank_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import (
    RankState,
    StartupState,
    dead_ranks,
)

_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
_WEIGHTS: dict[int, int] = {**{-one: 0 for one in _CRASHES}, -signal.SIGKILL: 1, -signal.SIGABRT: 2}
# Signals by which processes are asked to leave.
_ASKED = (-signal.SIGQUIT, -signal.SIGTERM, -signal.SIGINT)
_LEFT, _LEFT_WHEN_ASKED = 3, 4


def _weight(code: int | None) -> int:
    """The less, the more it is a cause and not a consequence."""
    if code in _ASKED or code == 0:
        return _LEFT_WHEN_ASKED
    return _LEFT if code is None else _WEIGHTS.get(code, _LEFT)


def victims(state: StartupState) -> tuple[RankState, ...]:
    """The rank that died first; several where nothing tells them apart; none where none died before its server."""
    said = first(state, lambda line: line.label == "scheduler_died" and line.kind == "failure")
    told = rank_of(state, said) if said is not None else None
    found = {rank.rank: rank for rank in dead_ranks(state)}
    if said is not None and told is not None:
        code = said.value("exit_code")
        known = found.get(told) or state.rank(told) or RankState(rank=told)
        found[told] = known if code is None else replace(known, exit_code=code)
    elif state.unit is not None and not state.unit.runs:
        # Of a unit that has ended every rank is gone; systemd kills all that its main process left behind.
        ended = {name: rank for name, rank in found.items() if _weight(rank.exit_code) < _LEFT}
        swept = len(ended) == len(state.ranks) > 1 and {rank.exit_code for rank in ended.values()} == {-signal.SIGKILL}
        found = {} if swept else ended
    least = min((_weight(rank.exit_code) for rank in found.values()), default=None)
    best = tuple(rank for rank in found.values() if _weight(rank.exit_code) == least)
    return tuple(rank for rank in best if rank.rank == told) or best


def victim(state: StartupState) -> str | None:
    """The one rank that died first, None where that is not known."""
    found = victims(state)
    return found[0].rank if len(found) == 1 else None
