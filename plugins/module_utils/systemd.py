# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of one unit as C(systemctl show) prints it. No I/O."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

PROPERTIES = (
    "Id",
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "InvocationID",
    "MainPID",
    "NRestarts",
    "ExecMainCode",
    "ExecMainStatus",
    "ExecMainStartTimestampMonotonic",
    "ActiveEnterTimestampMonotonic",
    "InactiveEnterTimestampMonotonic",
    "ControlGroup",
    "NeedDaemonReload",
    "LimitMEMLOCK",
    "MemoryMax",
    "LogNamespace",
    "UnitFileState",
    "Job",
)

# With a job to start: the start has not begun.
_NOT_BEGUN = ("inactive", "failed", "maintenance", "deactivating")
# waitid(2), CLD_*: what ExecMainCode counts.
_EXIT_CODES = {1: "exited", 2: "killed", 3: "dumped"}


@dataclass(frozen=True)
class UnitStatus:
    """Times in microseconds of CLOCK_MONOTONIC, as systemd gives them; None where it has none."""

    name: str
    load_state: str
    active_state: str
    sub_state: str
    result: str | None
    invocation_id: str | None
    main_pid: int | None
    n_restarts: int
    exec_main_code: str | None
    exec_main_status: int | None
    exec_main_start_monotonic: int | None
    active_enter_monotonic: int | None
    inactive_enter_monotonic: int | None
    control_group: str | None
    need_daemon_reload: bool
    # None where there is no limit.
    limit_memlock_bytes: int | None = None
    memory_max_bytes: int | None = None
    # Of the journal; None is the one that most units have.
    log_namespace: str | None = None
    # Type of the job that systemd has queued or under way for it (systemctl list-jobs).
    job: str | None = None
    # As systemctl is-enabled says it.
    unit_file_state: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def runs(self) -> bool:
        return self.active_state in ("active", "activating", "reloading") and self.sub_state != "auto-restart"

    @property
    def awaits_start(self) -> bool:
        """Whether a start was asked for that systemd has yet to make; what is told of the unit is of the one before.

        A job to restart becomes one to start when the old server has ended (job.c, job_finish_and_invalidate). The
        restart that systemd decides on by itself is a job as well, and belongs to the start that has ended.
        """
        if "auto-restart" in self.sub_state:
            return False
        return self.job == "restart" or (self.job == "start" and self.active_state in _NOT_BEGUN)

    @property
    def signal_name(self) -> str | None:
        """Name of the signal that ended the main process."""
        if self.exec_main_code not in ("killed", "dumped") or self.exec_main_status is None:
            return None
        return signal_name(self.exec_main_status)


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def show_command(unit: str) -> list[str]:
    return ["systemctl", "show", f"--property={','.join(PROPERTIES)}", "--", unit]


def job_id(output: str) -> str | None:
    """Number of the unit's job out of the output of C(show_command); only C(jobs_command) tells its type."""
    found = next((line[4:] for line in output.splitlines() if line.startswith("Job=")), "")
    return found if found.isdigit() and int(found) > 0 else None


def jobs_command(unit: str) -> list[str]:
    return ["systemctl", "list-jobs", "--no-legend", "--no-pager", "--plain", "--full", "--", unit]


def parse_job(output: str, job: str) -> str | None:
    """Type of a job out of lines of number, unit, type and state."""
    rows = (line.split() for line in output.splitlines())
    return next((row[2] for row in rows if len(row) >= 4 and row[0] == job), None)


def _number(text: str | None) -> int | None:
    """0 and "[not set]" stand for none."""
    return int(text) if text and text.isdigit() and int(text) > 0 else None


def parse_show(output: str, unit: str) -> UnitStatus:
    """Key=value lines. A unit that systemd does not know is C(not-found), which is a state and no error."""
    fields = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
    code = _number(fields.get("ExecMainCode"))
    status = fields.get("ExecMainStatus", "")
    return UnitStatus(
        name=fields.get("Id") or unit,
        load_state=fields.get("LoadState") or "not-found",
        active_state=fields.get("ActiveState") or "inactive",
        sub_state=fields.get("SubState") or "dead",
        result=fields.get("Result") or None,
        invocation_id=fields.get("InvocationID") or None,
        main_pid=_number(fields.get("MainPID")),
        n_restarts=_number(fields.get("NRestarts")) or 0,
        exec_main_code=_EXIT_CODES.get(code) if code else None,
        exec_main_status=int(status) if code and status.isdigit() else None,
        exec_main_start_monotonic=_number(fields.get("ExecMainStartTimestampMonotonic")),
        active_enter_monotonic=_number(fields.get("ActiveEnterTimestampMonotonic")),
        inactive_enter_monotonic=_number(fields.get("InactiveEnterTimestampMonotonic")),
        control_group=fields.get("ControlGroup") or None,
        need_daemon_reload=fields.get("NeedDaemonReload") == "yes",
        limit_memlock_bytes=_number(fields.get("LimitMEMLOCK")),
        memory_max_bytes=_number(fields.get("MemoryMax")),
        log_namespace=fields.get("LogNamespace") or None,
        unit_file_state=fields.get("UnitFileState") or None,
    )


def unit_from_dict(data: Mapping[str, Any]) -> UnitStatus:
    """The inverse of C(UnitStatus.as_dict); keys that it does not know are left out."""
    fields: dict[str, Any] = {name: data.get(name) for name in UnitStatus.__dataclass_fields__}
    return UnitStatus(**fields)
