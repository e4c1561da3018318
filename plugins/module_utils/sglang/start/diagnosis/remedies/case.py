# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a remedy is computed from, and what comes of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.catalogue import (
    CATALOGUE,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import LogEvent
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.startup_view import WORDS
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import RankState, StartupState


@dataclass(frozen=True)
class Case:
    """One failure as it happened. C(line): the line that told, None where the state alone did."""

    code: str
    state: StartupState
    plan: Mapping[str, Any]
    line: LogEvent | None
    rank: str | None

    @property
    def text(self) -> str:
        return self.line.text if self.line is not None else ""

    def value(self, name: str) -> Any:
        return self.line.value(name) if self.line is not None else None

    @property
    def who(self) -> str:
        return f"rank {self.rank}" if self.rank else "the server"

    @property
    def rank_state(self) -> RankState | None:
        return self.state.rank(self.rank) if self.rank else None

    @property
    def stage(self) -> str:
        """The stage of the rank it is about, or of the whole server."""
        return self.rank_state.stage if self.rank_state is not None else self.state.stage

    @property
    def doing(self) -> str:
        return WORDS[self.stage]

    @property
    def host(self) -> Mapping[str, Any]:
        return self.plan.get("host") or {}

    @property
    def device(self) -> Mapping[str, Any]:
        return self.plan.get("device") or {}

    def memory(self, name: str) -> int | None:
        """Free memory of a GPU by the ranks' own lines (watch/state.py): the least of all ranks, as SGLang takes it."""
        found = [dict(rank.memory)[name] for rank in self.state.ranks if name in dict(rank.memory)]
        return min(found) if found else None


@dataclass(frozen=True)
class Finding:
    """C(values): the computed numbers; C(facts): the evidence beside the line. C(code) where it is another one's."""

    message: str
    remedy: str
    values: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    code: str | None = None


def plain(case: Case) -> Finding:
    """What the catalogue says, with the line."""
    failure = CATALOGUE[case.code]
    who = case.who[0].upper() + case.who[1:]
    said = f" {who}: {case.text.rstrip('.: ')}." if case.text else ""
    return Finding(f"{failure.cause}{said}", failure.remedy, dict(case.line.values) if case.line is not None else {})


def known(**values: Any) -> dict[str, Any]:
    """Without what is not known."""
    return {name: value for name, value in values.items() if value is not None}
