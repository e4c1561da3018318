# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether what is in force on a node is what was rendered, and what it means if not. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# What the role writes. Schema 1 has neither measured figures nor the settings of the plan; it proves all the same.
LEDGER_SCHEMA = 2
READABLE_SCHEMAS = (1, LEDGER_SCHEMA)


@dataclass(frozen=True)
class Change:
    """C(reasons) is empty when what is in force is what was rendered; C(proven) tells whether it has been proven."""

    reasons: tuple[str, ...]
    proven: bool

    @property
    def changed(self) -> bool:
        return bool(self.reasons)


def read_ledger(text: str) -> dict[str, Any]:
    """The ledger in C(text); empty if there is none or it is of a schema to come, as a half-written one is."""
    try:
        ledger = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(ledger, dict) or ledger.get("schema") not in READABLE_SCHEMAS:
        return {}
    return ledger if isinstance(ledger.get("plan"), dict) else {}


def is_in_force(unit: Mapping[str, Any], ledger: Mapping[str, Any]) -> bool:
    """Whether the start that the ledger records is the one that runs."""
    running = unit.get("main_pid") is not None and unit.get("active_state") == "active"
    return bool(running and ledger and unit.get("invocation_id") == ledger.get("invocation_id"))


def compare(
    unit: Mapping[str, Any], ledger: Mapping[str, Any], generation: str, further_reasons: Sequence[str] = ()
) -> Change:
    """Compares the unit's state as M(gpufleet.sglang.startup_status_info) gives it with the rendered generation.

    C(further_reasons) are those that were found elsewhere.
    """
    reasons = []
    state = unit.get("active_state")
    if unit.get("load_state") == "not-found":
        reasons.append("the unit does not exist yet")
    elif unit.get("sub_state") == "auto-restart":
        reasons.append("the unit waits to be started again after a failure")
    elif state not in ("active", "activating", "reloading"):
        reasons.append(f"the unit is {state or 'in an unknown state'}, expected active")
    elif unit.get("generation") is None and unit.get("main_pid"):
        reasons.append("the running process names no generation: it was not started from files of this collection")
    elif unit.get("generation") != generation and unit.get("main_pid"):
        reasons.append("the running process was started from other files, packages or model files than are rendered")
    reasons += further_reasons
    proven = (
        not reasons
        and ledger.get("generation") == generation
        and bool(unit.get("invocation_id"))
        and ledger.get("invocation_id") == unit.get("invocation_id")
        # Taken out of its routers for a restart that never came: it comes back by a proof, as any other.
        and not ledger.get("left_routers")
    )
    return Change(reasons=tuple(reasons), proven=proven)
