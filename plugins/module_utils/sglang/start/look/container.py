# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A container as podman and Docker describe it with C(inspect), in the terms of a unit. No I/O.

Both print the same fields of State (podman libpod/define/container_inspect.go, moby api/types/container). The identity
of a start is the container's together with the time at which it was started; RestartCount counts restarts by the
engine's own policy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.line_times import parse_stamp
from ansible_collections.gpufleet.sglang.plugins.module_utils.systemd import UnitStatus

ENGINES = ("podman", "docker")

# State.Status -> what systemd calls a unit in that state: (ActiveState, SubState).
_STATES = {
    "created": ("activating", "start-pre"),
    "configured": ("activating", "start-pre"),
    "initialized": ("activating", "start-pre"),
    "running": ("active", "running"),
    "paused": ("active", "paused"),
    "restarting": ("activating", "auto-restart"),
    "stopping": ("deactivating", "stop-sigterm"),
    "removing": ("deactivating", "stop-post"),
}
# A shell and both engines report a process that a signal ended as 128 and the signal.
_SIGNAL_BASE = 128


@dataclass(frozen=True)
class Container:
    """C(log_driver): k8s-file, json-file, journald, passthrough, local, none. C(started_at) in UNIX seconds."""

    container_id: str
    status: str
    pid: int | None
    exit_code: int
    oom_killed: bool
    started_at: float | None
    started_text: str
    finished_at: float | None
    restarts: int
    log_driver: str
    log_path: str | None

    @property
    def start(self) -> str | None:
        """Identity of the present or last start, None if there was none."""
        return f"{self.container_id[:12]}@{self.started_text}" if self.started_at is not None else None


def inspect_command(engine: str, name: str) -> list[str]:
    return [engine, "container", "inspect", "--", name]


def _map(data: Any) -> Mapping[str, Any]:
    return data if isinstance(data, Mapping) else {}


def _int(data: Any) -> int:
    return data if isinstance(data, int) else 0


def parse_inspect(output: str) -> Container | None:
    """None for what is no description of a container."""
    try:
        data = json.loads(output)
    except ValueError:
        return None
    if isinstance(data, list):
        data = data[0] if data else None
    state = _map(_map(data).get("State"))
    if not isinstance(data, Mapping) or not data.get("Id") or not state:
        return None
    log = _map(_map(data.get("HostConfig")).get("LogConfig"))
    started = str(state.get("StartedAt") or "")
    return Container(
        container_id=str(data["Id"]),
        status=str(state.get("Status") or "").lower(),
        pid=_int(state.get("Pid")) or None,
        exit_code=_int(state.get("ExitCode")),
        oom_killed=state.get("OOMKilled") is True,
        started_at=parse_stamp(started),
        started_text=started,
        finished_at=parse_stamp(str(state.get("FinishedAt") or "")),
        restarts=_int(data.get("RestartCount")),
        log_driver=str(log.get("Type") or ""),
        # Docker names it at the top, podman beside the driver.
        log_path=str(log.get("Path") or data.get("LogPath") or "") or None,
    )


def _ended(container: Container) -> tuple[str, str, str, str, int]:
    """(ActiveState, SubState, Result, ExecMainCode, ExecMainStatus) of one that runs no more."""
    by_signal = container.exit_code > _SIGNAL_BASE
    code = "killed" if by_signal else "exited"
    status = container.exit_code - _SIGNAL_BASE if by_signal else container.exit_code
    if container.oom_killed:
        return "failed", "failed", "oom-kill", code, status
    if container.exit_code:
        return "failed", "failed", "signal" if by_signal else "exit-code", code, status
    return "inactive", "dead", "success", code, status


def _monotonic(moment: float | None, wall: float, uptime: float) -> int | None:
    """UNIX seconds -> microseconds since the boot."""
    return None if moment is None else max(0, round((uptime - (wall - moment)) * 1e6)) or None


def missing_container(name: str) -> UnitStatus:
    return _status(name, "not-found", "inactive", "dead")


def _status(name: str, load_state: str, active_state: str, sub_state: str, **others: Any) -> UnitStatus:
    fields: dict[str, Any] = {
        "result": None,
        "invocation_id": None,
        "main_pid": None,
        "n_restarts": 0,
        "exec_main_code": None,
        "exec_main_status": None,
        "exec_main_start_monotonic": None,
        "active_enter_monotonic": None,
        "inactive_enter_monotonic": None,
        "control_group": None,
        "need_daemon_reload": False,
        **others,
    }
    return UnitStatus(name=name, load_state=load_state, active_state=active_state, sub_state=sub_state, **fields)


def unit_of_container(
    name: str, container: Container, control_group: str | None, wall: float, uptime: float
) -> UnitStatus:
    began = _monotonic(container.started_at, wall, uptime)
    common = {
        "invocation_id": container.start,
        "n_restarts": container.restarts,
        "exec_main_start_monotonic": began,
        "active_enter_monotonic": began,
        "control_group": control_group,
    }
    if container.status in _STATES:
        active, sub = _STATES[container.status]
        return _status(name, "loaded", active, sub, result="success", main_pid=container.pid, **common)
    active, sub, result, code, number = _ended(container)
    return _status(
        name,
        "loaded",
        active,
        sub,
        result=result,
        exec_main_code=code,
        exec_main_status=number,
        inactive_enter_monotonic=_monotonic(container.finished_at, wall, uptime),
        **common,
    )


def parse_group(cgroup: str) -> str | None:
    """The control group in /proc/PID/cgroup: of version 2, else of the memory controller, else systemd's."""
    found: dict[str, str] = {}
    for line in cgroup.splitlines():
        _number, _colon, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if colon:
            for controller in controllers.split(","):
                found.setdefault(controller, path)
    ordered = [found.get(name) for name in ("", "memory", "name=systemd")]
    return next((path for path in ordered if path and path != "/"), None)
