# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_seconds
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import parse_version
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.diagnosis import (
    diagnose,
    last_lines,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.startup_figures import figures
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.startup_view import (
    LiveLines,
    ranks_as_dicts,
    timeline,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import (
    observation_from_result,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.startup import (
    StartupState,
    advance,
    expectation_from_plan,
    initial,
    pinned_bytes,
    planned_bytes,
    wants_probe,
)

# A node that cannot be reached is tried again for this long; the start goes on without us meanwhile.
RECONNECT_SECONDS = 120.0
RECONNECT_PAUSES = (1.0, 2.0, 4.0, 8.0)
# So much of the journal is kept for the message of a failure.
LINES = 60


class ActionModule(ActionBase):
    """Polls startup_status_info on the node and feeds what it sees to the pure state machine."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    # A test replaces these; time in a play is always measured on the controller's monotonic clock.
    clock: Callable[[], float] = staticmethod(time.monotonic)
    sleep: Callable[[float], None] = staticmethod(time.sleep)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _unused, arguments = self.validate_argument_spec(
            argument_spec={
                "unit": {"type": "str", "required": True},
                "invocation_id": {"type": "str"},
                "sglang_version": {"type": "str", "required": True},
                "plan": {"type": "dict", "default": {}},
                "ready_url": {"type": "str"},
                "timeout_seconds": {"type": "float"},
                "stall_seconds": {"type": "float", "default": 120},
                "poll_seconds": {"type": "float", "default": 2},
            }
        )
        result["changed"] = False
        try:
            parse_version(arguments["sglang_version"])
            _check(arguments)
        except Refusal as refusal:
            return {**result, "failed": True, "msg": str(refusal), "failure": refusal.as_dict()}
        expected = expectation_from_plan(
            arguments["plan"] or {}, arguments["timeout_seconds"], arguments["stall_seconds"]
        )
        if self._task.check_mode:
            # The unit may not exist yet and is not started; nothing on the node is asked.
            result["would_wait"] = {
                "unit": arguments["unit"],
                "invocation_id": arguments["invocation_id"],
                "ranks": expected.ranks,
                "planned_bytes": expected.bytes_total,
                "meter": expected.meter,
                "timeout_seconds": expected.timeout_seconds,
                "stall_seconds": expected.stall_seconds,
            }
            result["outcome"] = None
            return result
        state = initial(expected, self.clock(), arguments["invocation_id"])
        state, unreachable = self._watch(state, arguments, task_vars or {})
        result.update(_report(state))
        if unreachable is not None:
            result.update(unreachable)
            return result
        if state.verdict != "ready":
            result.update(_failure(state, arguments))
        return result

    def _watch(
        self, state: StartupState, arguments: dict[str, Any], task_vars: dict[str, Any]
    ) -> tuple[StartupState, dict[str, Any] | None]:
        host = task_vars.get("inventory_hostname", "")
        name = arguments["unit"].removesuffix(".service").removeprefix("sglang-")
        lines = LiveLines()
        cursor: str | None = None
        known: list[dict[str, Any]] = []
        while state.verdict is None:
            asked = self.clock()
            look = self._look(state, arguments, cursor, known, task_vars)
            if look.get("failed") or look.get("unreachable"):
                return state, look
            cursor, known = look["cursor"], look["ranks"]
            state = advance(state, observation_from_result(look, self.clock()))
            text = lines.due(state)
            if text is not None:
                Display().display(f"{host}  {name}  {text}")
            if state.verdict is None and not look["more"]:
                # The node returns early on news; news that never ends must not keep it busy.
                self._pause(arguments["poll_seconds"] / 4 - (self.clock() - asked))
        return state, None

    def _pause(self, seconds: float) -> None:
        if seconds > 0:
            self.sleep(seconds)

    def _look(
        self,
        state: StartupState,
        arguments: dict[str, Any],
        cursor: str | None,
        known: list[dict[str, Any]],
        task_vars: dict[str, Any],
    ) -> dict[str, Any]:
        """One call on the node, repeated for a while when the connection breaks."""
        module_args = {
            "unit": arguments["unit"],
            "invocation_id": state.invocation_id,
            "cursor": cursor,
            "sglang_version": arguments["sglang_version"],
            "meter": state.expected.meter,
            "known_ranks": known,
            "ready_url": arguments["ready_url"] if wants_probe(state) else None,
            # The first look is for what is already there.
            "wait_seconds": arguments["poll_seconds"] if state.unit is not None else 0,
            "max_lines": LINES,
        }
        module_args = {name: value for name, value in module_args.items() if value is not None}
        lost_since = self.clock()
        attempt = 0
        while True:
            try:
                look: dict[str, Any] = self._execute_module(
                    module_name="gpufleet.sglang.startup_status_info", module_args=module_args, task_vars=task_vars
                )
                trouble = str(look.get("msg", "")) if look.get("unreachable") else None
            except AnsibleConnectionFailure as error:
                look, trouble = {}, str(error)
            if trouble is None:
                return look
            pause = RECONNECT_PAUSES[min(attempt, len(RECONNECT_PAUSES) - 1)]
            if self.clock() + pause - lost_since > RECONNECT_SECONDS:
                return {
                    "unreachable": True,
                    "msg": f"Lost the node for {format_seconds(self.clock() - lost_since)} while waiting for "
                    f"{arguments['unit']}: {trouble} The start goes on; run the play again to follow it.",
                }
            attempt += 1
            Display().vv(f"connection lost ({trouble.strip()}), attempt {attempt}")
            self.sleep(pause)
            self._reconnect()

    def _reconnect(self) -> None:
        reset = getattr(self._connection, "reset", None)
        if reset is None:
            return
        try:
            reset()
        except Exception as error:  # a broken connection cannot always be closed; the next attempt tells
            Display().vvv(f"reset of the connection: {error}")


def _check(arguments: dict[str, Any]) -> None:
    for name, least, most in (("poll_seconds", 0.1, 10.0), ("stall_seconds", 1.0, 86400.0)):
        if not least <= arguments[name] <= most:
            raise Refusal(
                "out_of_range",
                f"{name} is {arguments[name]:g}.",
                f"Expected {least:g} to {most:g}.",
                {name: arguments[name]},
            )
    if arguments["timeout_seconds"] is not None and arguments["timeout_seconds"] <= 0:
        raise Refusal(
            "out_of_range",
            f"timeout_seconds is {arguments['timeout_seconds']:g}.",
            "Expected more than 0.",
            {"timeout_seconds": arguments["timeout_seconds"]},
        )


def _report(state: StartupState) -> dict[str, Any]:
    return {
        "outcome": state.verdict,
        "stages": timeline(state),
        "invocation_id": state.invocation_id,
        "main_pid": state.unit.main_pid if state.unit is not None else None,
        "pinned_bytes": pinned_bytes(state),
        "planned_bytes": planned_bytes(state),
        "ranks": ranks_as_dicts(state),
        "max_total_num_tokens": state.max_total_num_tokens,
        "host_tokens": state.host_tokens,
        "figures": figures(state),
        "elapsed_seconds": round(state.elapsed_seconds, 3),
    }


def _failure(state: StartupState, arguments: dict[str, Any]) -> dict[str, Any]:
    found = diagnose(state, arguments["plan"] or {})
    lines = last_lines(state)
    message = f"{arguments['unit']} {state.verdict}: {found.message} {found.remedy}"
    if lines:
        message += "\nLast lines:\n" + "\n".join(f"  {line}" for line in lines)
    return {"failed": True, "msg": message, "failure": found.as_dict(), "last_lines": lines}
