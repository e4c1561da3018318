# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.diagnosis import diagnose
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.result import Diagnosis
from ansible_collections.gpufleet.sglang.plugins.module_utils.systemd import UnitStatus
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import (
    FAILED,
    GUARD,
    PLAN,
    after,
    pinning,
    raw_events,
    seen,
    start,
)

REFUSED = "sglang-main.service: Start request repeated too quickly."
STOPPED = "[2026-11-29 14:49:22] SIGTERM received. signum=None frame=None. Draining requests and shutting down..."
HIT = replace(FAILED, result="start-limit-hit")
RESET = "`systemctl reset-failed sglang-main.service` and start it again"


def told(*lines: str, unit: UnitStatus = HIT) -> Diagnosis:
    return diagnose(after(pinning(), seen(4.0, events=raw_events(lines), unit=unit), seen(12.0, unit=unit)), PLAN)


def test_refused_start_is_told_with_the_cause_of_the_last_failure() -> None:
    found = told(GUARD)
    assert (found.code, found.evidence["last_failure"]) == ("start_limit", "host_memory_guard")
    assert "Its last start failed (host_memory_guard): SGLang refused to allocate a host pool" in found.message
    assert found.remedy.startswith("Set hicache.ratio to") or "hicache" in found.remedy
    assert RESET in found.remedy


def test_systemd_keeps_the_result_of_the_last_failure_and_its_line_tells() -> None:
    assert told(GUARD, REFUSED, unit=FAILED).code == "start_limit"
    assert told(GUARD, unit=FAILED).code == "host_memory_guard"


def test_refused_start_after_restarts_is_no_stop() -> None:
    found = told(STOPPED)
    assert (found.code, found.evidence["last_failure"]) == ("start_limit", "stopped_meanwhile")
    assert "did not fail: it was stopped or restarted" in found.message
    assert RESET in found.remedy


def test_refused_start_of_which_nothing_is_known() -> None:
    unit = replace(HIT, exec_main_code=None, exec_main_status=None, invocation_id=None)
    found = diagnose(after(start(), seen(4.0, unit=unit), seen(12.0, unit=unit)), PLAN)
    assert (found.code, found.rank) == ("start_limit", None)
    assert "`journalctl --unit=sglang-main.service`" in found.remedy
    assert RESET in found.remedy
