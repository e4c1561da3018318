# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The unit: its state, when it began, and which generation it runs."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import environment_value
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.node import Node
from ansible_collections.gpufleet.sglang.plugins.module_utils.systemd import (
    UnitStatus,
    job_id,
    jobs_command,
    parse_job,
    parse_show,
    show_command,
)

GENERATION = "GPUFLEET_GENERATION"


def read_unit(node: Node, unit: str) -> UnitStatus:
    code, output, errors = node.run(show_command(unit))
    if code != 0:
        raise Refusal(
            "systemctl_failed",
            f"`systemctl show {unit}` failed: {errors.strip() or output.strip() or code}.",
            "The node has to run systemd.",
            {"returncode": code},
        )
    status, job = parse_show(output, unit), job_id(output)
    if job is None:
        return status
    code, output, _errors = node.run(jobs_command(unit))
    # Gone already where it is not listed any more.
    return replace(status, job=parse_job(output, job) if code == 0 else None)


def read_generation(node: Node, unit: UnitStatus) -> str | None:
    data = node.data(f"proc/{unit.main_pid}/environ") if unit.main_pid else None
    return environment_value(data, GENERATION) if data else None


def read_started_at(node: Node, unit: UnitStatus) -> float | None:
    """UNIX seconds by the present clock, so that a clock that was set meanwhile does no harm."""
    # While ExecStartPre runs, the main process is that of the start before, where systemd still knows it.
    if unit.exec_main_start_monotonic is None or (unit.sub_state == "start-pre" and unit.main_pid is None):
        return None
    return node.wall() - (node.uptime() - unit.exec_main_start_monotonic / 1e6)


def has_ended(unit: UnitStatus) -> bool:
    """Whether this start is over; a unit that waits to be restarted has ended as well."""
    return unit.active_state in ("failed", "inactive") or unit.sub_state == "auto-restart"
