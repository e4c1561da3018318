# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What systemd says of a unit that ended without a line that tells why. Pure."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.catalogue import (
    CATALOGUE,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.failure import Failure
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.unit_results import (
    EXEC_STATUSES,
    OTHER_STATUS,
    RESULTS,
    START_LIMIT_HIT,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.result import Diagnosis
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.startup_view import WORDS
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import StartupState
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.verdict import SETUP_STATUSES
from ansible_collections.gpufleet.sglang.plugins.module_utils.systemd import UnitStatus


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
    if unit.exec_main_code != "exited" or status is None or status not in SETUP_STATUSES:
        return None
    return EXEC_STATUSES.get(status, OTHER_STATUS)


def is_start_limited(state: StartupState) -> bool:
    """Whether systemd refused to start the unit; what is known of it then is of its last start."""
    unit = state.unit
    if unit is None or unit.runs:
        return False
    return unit.result == START_LIMIT_HIT or any(line.label == "start_limit" for line in state.troubles)


def start_limited(state: StartupState, unit: UnitStatus, last: Diagnosis | None) -> Diagnosis:
    """C(last): why the last start ended, by its own journal."""
    again = f"`systemctl reset-failed {unit.name}` and start it again; without that systemd refuses every start."
    said = f"systemd no longer starts {unit.name}, as it was started too often in too short a time."
    if last is None:
        see = f"journalctl _SYSTEMD_INVOCATION_ID={state.invocation_id}" if state.invocation_id else "journalctl"
        return Diagnosis(
            "start_limit",
            f"{said} Nothing tells why its last start ended.",
            f"See `{see} --unit={unit.name}`, correct what ended it, then {again}",
            evidence=unit_evidence(unit),
        )
    if last.code == "stopped_meanwhile":
        return Diagnosis(
            "start_limit",
            f"{said} Its last start did not fail: it was stopped or restarted.",
            f"See with `journalctl --unit={unit.name}` who restarts it, then {again}",
            evidence={**unit_evidence(unit), "last_failure": last.code},
        )
    return Diagnosis(
        "start_limit",
        f"{said} Its last start failed ({last.code}): {last.message}",
        f"{last.remedy} Then {again}",
        last.rank,
        {**last.evidence, **unit_evidence(unit), "last_failure": last.code},
        last.values,
        last.causes,
    )


def by_unit(state: StartupState) -> Diagnosis | None:
    unit = state.unit
    if unit is None or state.reason == "restarted_meanwhile":
        return None
    prepared = exec_failure(unit)
    if prepared is not None:
        return _told(unit, prepared)
    evidence = unit_evidence(unit)
    doing = WORDS[state.stage]
    if any(line.label == "sigterm" for line in state.troubles) or (
        # Up to 0.5.18 systemd counts SIGKILL as success, as these releases end themselves by it.
        state.reason == "unit_stopped" and unit.signal_name != "SIGKILL"
    ):
        return Diagnosis(
            "stopped_meanwhile",
            f"{unit.name} was stopped while it was {doing}.",
            CATALOGUE["stopped_meanwhile"].remedy,
            evidence=evidence,
        )
    if unit.result in RESULTS:
        return _told(unit, RESULTS[unit.result])
    if unit.signal_name is not None:
        return Diagnosis(
            "server_killed",
            f"The main process of {unit.name} was killed by {unit.signal_name} while it was {doing}.",
            CATALOGUE["server_killed"].remedy,
            evidence=evidence,
        )
    if unit.exec_main_status == 2:
        return Diagnosis(
            "bad_argument",
            f"SGLang rejected its arguments (exit status 2 of {unit.name}).",
            CATALOGUE["bad_argument"].remedy,
            evidence=evidence,
        )
    if unit.exec_main_status:
        return Diagnosis(
            "server_exited",
            f"The main process of {unit.name} ended with exit status {unit.exec_main_status} while it was {doing}.",
            CATALOGUE["server_exited"].remedy,
            evidence=evidence,
        )
    return None
