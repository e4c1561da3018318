# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What systemd says of a unit that ended without a line that tells why. Pure."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.failure import Failure
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.unit_results import (
    EXEC_STATUSES,
    OTHER_STATUS,
    RESULTS,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.result import Diagnosis
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.startup_view import WORDS
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import StartupState
from ansible_collections.gpufleet.sglang.plugins.module_utils.systemd import UnitStatus

# exit-status.c: systemd's own statuses.
_FIRST_STATUS, _LAST_STATUS = 200, 245


def unit_evidence(unit: UnitStatus) -> dict[str, Any]:
    return {
        "result": unit.result,
        "exit_status": unit.exec_main_status,
        "signal": unit.signal_name,
        "n_restarts": unit.n_restarts,
    }


def _told(unit: UnitStatus, failure: Failure, name: str | None = None) -> Diagnosis:
    cause = failure.cause.replace("The unit", unit.name, 1) if failure.cause.startswith("The unit") else failure.cause
    return Diagnosis(
        name or failure.code,
        f"{unit.name}: {cause}" if cause == failure.cause else cause,
        failure.remedy,
        evidence=unit_evidence(unit),
    )


def exec_failure(unit: UnitStatus) -> Failure | None:
    """The step before the program that failed; None where the program itself ended."""
    status = unit.exec_main_status
    if unit.exec_main_code != "exited" or status is None or not _FIRST_STATUS <= status <= _LAST_STATUS:
        return None
    return EXEC_STATUSES.get(status, OTHER_STATUS)


def by_unit(state: StartupState) -> Diagnosis | None:
    unit = state.unit
    if unit is None or state.reason == "restarted_meanwhile":
        return None
    prepared = exec_failure(unit)
    if prepared is not None:
        return _told(unit, prepared)
    evidence = unit_evidence(unit)
    doing = WORDS[state.stage]
    if any(line.label == "sigterm" for line in state.troubles) or state.reason == "unit_stopped":
        return Diagnosis(
            "stopped_meanwhile",
            f"{unit.name} was stopped while it was {doing}.",
            "See who stopped it (`journalctl -u`), then run the play again.",
            evidence=evidence,
        )
    if unit.result in RESULTS:
        return _told(unit, RESULTS[unit.result])
    if unit.signal_name is not None:
        return Diagnosis(
            "server_killed",
            f"The main process of {unit.name} was killed by {unit.signal_name} while it was {doing}.",
            "See the last lines below; SIGKILL is also what SGLang does to itself after an error.",
            evidence=evidence,
        )
    if unit.exec_main_status == 2:
        return Diagnosis(
            "bad_argument",
            f"SGLang rejected its arguments (exit status 2 of {unit.name}).",
            "Correct the variables of the role; this is not a matter of memory or time.",
            evidence=evidence,
        )
    if unit.exec_main_status:
        return Diagnosis(
            "server_exited",
            f"The main process of {unit.name} ended with exit status {unit.exec_main_status} while it was {doing}.",
            "See the last lines below.",
            evidence=evidence,
        )
    return None
