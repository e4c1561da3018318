# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.systemd import (
    parse_show,
    show_command,
    signal_name,
    unit_from_dict,
)

RUNNING = """Id=sglang-main.service
LoadState=loaded
ActiveState=active
SubState=running
Result=success
InvocationID=5f1c0a6a4d9e4a6f8f0d3e1b2c7a9d10
MainPID=2211
NRestarts=0
ExecMainCode=0
ExecMainStatus=0
ExecMainStartTimestampMonotonic=4711000000
ActiveEnterTimestampMonotonic=4711100000
InactiveEnterTimestampMonotonic=0
ControlGroup=/system.slice/sglang-main.service
NeedDaemonReload=no
"""


def test_running_unit() -> None:
    unit = parse_show(RUNNING, "sglang-main.service")
    assert (unit.active_state, unit.sub_state, unit.main_pid, unit.n_restarts) == ("active", "running", 2211, 0)
    assert (unit.exec_main_code, unit.exec_main_status, unit.signal_name) == (None, None, None)
    assert unit.exec_main_start_monotonic == 4_711_000_000
    assert unit.inactive_enter_monotonic is None
    assert unit.runs and not unit.need_daemon_reload


def test_unit_killed_and_waiting_to_be_restarted() -> None:
    text = RUNNING.replace("ActiveState=active", "ActiveState=activating").replace("=running", "=auto-restart")
    text = text.replace("ExecMainCode=0", "ExecMainCode=2").replace("ExecMainStatus=0", "ExecMainStatus=9")
    unit = parse_show(text.replace("MainPID=2211", "MainPID=0").replace("NRestarts=0", "NRestarts=3"), "x")
    assert (unit.exec_main_code, unit.exec_main_status, unit.signal_name) == ("killed", 9, "SIGKILL")
    assert (unit.main_pid, unit.n_restarts, unit.runs) == (None, 3, False)


def test_clean_exit_is_status_zero_and_not_unknown() -> None:
    unit = parse_show(RUNNING.replace("ExecMainCode=0", "ExecMainCode=1"), "x")
    assert (unit.exec_main_code, unit.exec_main_status) == ("exited", 0)


@pytest.mark.parametrize("output", ["Id=x.service\nLoadState=not-found\nActiveState=inactive\nSubState=dead\n", ""])
def test_unknown_unit_is_a_state(output: str) -> None:
    unit = parse_show(output, "x.service")
    assert (unit.name, unit.load_state, unit.active_state, unit.invocation_id) == (
        "x.service",
        "not-found",
        "inactive",
        None,
    )


def test_unset_numbers_are_unknown() -> None:
    unit = parse_show(RUNNING.replace("MainPID=2211", "MainPID=[not set]"), "x")
    assert unit.main_pid is None


def test_command_asks_for_the_properties_in_one_go() -> None:
    command = show_command("sglang-main.service")
    assert command[:2] == ["systemctl", "show"] and command[-2:] == ["--", "sglang-main.service"]
    assert "InvocationID" in command[2]


def test_unit_survives_the_wire_with_keys_of_others() -> None:
    unit = parse_show(RUNNING, "x")
    assert unit_from_dict({**unit.as_dict(), "generation": "g", "started_at": 1.0}) == unit


def test_signal_without_a_name() -> None:
    assert signal_name(11) == "SIGSEGV"
    assert signal_name(250) == "signal 250"


def test_limits_that_are_not_set_are_none() -> None:
    found = parse_show("Id=a.service\nLimitMEMLOCK=infinity\nMemoryMax=infinity\n", "a.service")
    assert (found.limit_memlock_bytes, found.memory_max_bytes) == (None, None)
    limited = parse_show("Id=a.service\nLimitMEMLOCK=8388608\nMemoryMax=419430400\n", "a.service")
    assert (limited.limit_memlock_bytes, limited.memory_max_bytes) == (8388608, 419430400)
