# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf
from typing import Any

from ansible import constants, context
from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_seconds
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import METERS
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.given_plan import check_plan
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.diagnosis import (
    diagnose,
    last_lines,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.result import Diagnosis
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.request import LOG_TYPES, request_from
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.audience import (
    CHOICES,
    live_lines_choice,
    shows_live_lines,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.closing import (
    closing_line,
    given_up_line,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.pace import least_seconds, wait_seconds
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.result import (
    failure_message,
    given_up_message,
    joined,
    release_problems,
    report_of,
    would_wait_for,
    would_wait_line,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.expectation import (
    Expectation,
    expectation_from_plan,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import (
    observation_from_result,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.startup import advance
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import (
    StartupState,
    initial,
    log_is_trusted,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.verdict import wants_probe
from ansible_collections.gpufleet.sglang.plugins.plugin_utils.live_lines import (
    LiveLines,
    Voice,
    audience_of,
    uninterrupted,
    write_lines_at_once,
)
from ansible_collections.gpufleet.sglang.plugins.plugin_utils.patient_call import (
    GaveUp,
    Means,
    call_patiently,
    drop_connection,
)
from ansible_collections.gpufleet.sglang.plugins.plugin_utils.time_limit import at_most

MODULE = "gpufleet.sglang.startup_status_info"
ARGUMENTS: dict[str, dict[str, Any]] = {
    "unit": {"type": "str"},
    "log": {
        "type": "dict",
        "options": {
            "type": {"type": "str", "choices": list(LOG_TYPES), "default": "journal"},
            "path": {"type": "path"},
            "container": {"type": "str"},
        },
    },
    "invocation_id": {"type": "str"},
    "sglang_version": {"type": "str", "required": True},
    "plan": {"type": "dict", "default": {}},
    "ranks": {"type": "int"},
    "planned_bytes": {"type": "int"},
    "meter": {"type": "str", "choices": list(METERS)},
    "ready_url": {"type": "str"},
    "timeout_seconds": {"type": "float"},
    "stall_seconds": {"type": "float", "default": 120},
    "poll_seconds": {"type": "float"},
    "reconnect_seconds": {"type": "float", "default": 120},
    "live_lines": {"type": "str", "choices": list(CHOICES), "default": "auto"},
}
RANGES = {
    "poll_seconds": (0.1, 30.0),
    "stall_seconds": (1.0, 86400.0),
    "reconnect_seconds": (0.0, 86400.0),
    "ranks": (1.0, 4096.0),
    "planned_bytes": (1.0, 1e18),
}
REBOOTED = Diagnosis(
    code="node_rebooted",
    message="The node was rebooted while its server started.",
    remedy="Find out why (`last -x`, `journalctl -b -1` on the node), then run the play again.",
)
AFTERWARDS = "The start goes on without a watch; run the play again to follow it."
# So many lines of the log are kept for the message of a failure.
LINES = 60
# A node that is short of memory takes its time to start a module; after this long it is taken for out of reach. Less
# where little patience was asked for.
ANSWER_SECONDS = (15.0, 60.0)


# Plugins are loaded by the main process before its workers are made, so this is the place to ask for it.
write_lines_at_once()


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
            argument_spec=ARGUMENTS, required_by={"planned_bytes": "ranks"}
        )
        result["changed"] = False
        try:
            _check(arguments)
            request_from({**arguments, "wait_seconds": 0})
        except Refusal as refusal:
            return {**result, **refusal.as_result()}
        expected, problems = _expected(arguments), release_problems(arguments["sglang_version"])
        if self._task.check_mode:
            # The unit may not exist yet and is not started; nothing on the node is asked.
            watched = {name: arguments[name] for name in ("unit", "log", "invocation_id")}
            would = would_wait_for(expected, arguments["plan"] or {}, arguments["sglang_version"], watched)
            if self._is_shown(arguments):
                host = (task_vars or {}).get("inventory_hostname", "")
                Display().display(f"{host}  {_instance(arguments)}  {would_wait_line(would)}")
            return {**result, "outcome": None, "would_wait": would, "problems": problems}
        return {**result, **self._watched(expected, problems, arguments, task_vars or {})}

    def _watched(
        self,
        expected: Expectation,
        problems: list[dict[str, str]],
        arguments: dict[str, Any],
        task_vars: dict[str, Any],
    ) -> dict[str, Any]:
        """Follows the start to its end, shows it, and returns the result."""
        host = str(task_vars.get("inventory_hostname", ""))
        state = initial(expected, self.clock(), arguments["invocation_id"])
        live = self._live(host, state, arguments, task_vars)
        look: dict[str, Any] = {}
        boot_id: str | None = None
        unread = bool(problems)
        controller = os.getppid()
        while state.verdict is None:
            if os.getppid() != controller:
                # A worker has a session of its own and outlives a controller that was killed.
                raise AnsibleError("The controller is gone.")
            asked = self.clock()
            blind = unread or not log_is_trusted(state)
            wait = wait_seconds(state, live.watched, blind, arguments["poll_seconds"])
            pending = live.due_in_seconds(state)
            wait = wait if pending is None else min(wait, max(pending, least_seconds(live.watched)))
            try:
                look = self._look(state, arguments, look, wait, live, task_vars)
            except GaveUp as gave_up:
                state = replace(state, now=self.clock())
                live.end(state, given_up_line(state, gave_up.code), lost=True)
                message = given_up_message(host, _subject(arguments), state, gave_up.message, gave_up.remedy)
                # An unreachable host has not failed for Ansible, and it is told apart so in the recap.
                ended = {"unreachable": True} if gave_up.unreachable else {"failed": True}
                return {**report_of(state, problems), **ended, "msg": message, "failure": gave_up.as_dict()}
            if look.get("failed"):
                return {**report_of(state, problems), **look}
            problems = joined(problems, look["problems"])
            boot_id = boot_id or look.get("boot_id")
            if look.get("boot_id") not in (None, boot_id):
                state = replace(state, now=self.clock(), verdict="failed", reason=REBOOTED.code)
            else:
                state = advance(state, observation_from_result(look, self.clock()))
            if state.verdict is None:
                live.update(state, state.now)
                if not look["more"]:
                    # The node returns early on news; news that never ends must not keep it busy.
                    self._pause(least_seconds(live.watched) - (self.clock() - asked))
        report = report_of(state, problems)
        if state.verdict == "ready":
            live.end(state, closing_line(state, report["figures"]["start_seconds"]))
            return report
        found = REBOOTED if state.reason == REBOOTED.code else diagnose(state, arguments["plan"] or {})
        lines = last_lines(state)
        live.end(
            state, closing_line(state, None, found.code if found.rank is None else f"{found.code} of {found.rank}")
        )
        message = failure_message(host, _subject(arguments), state, f"{found.message} {found.remedy}", lines)
        return {**report, "failed": True, "msg": message, "failure": found.as_dict(), "last_lines": lines}

    def _is_shown(self, arguments: Mapping[str, Any]) -> bool:
        choice = live_lines_choice(arguments["live_lines"], os.environ)
        return shows_live_lines(choice, audience_of(self._task, context.CLIARGS))

    def _live(
        self, host: str, state: StartupState, arguments: Mapping[str, Any], task_vars: Mapping[str, Any]
    ) -> LiveLines:
        shown = self._is_shown(arguments)
        display = Display()
        show = uninterrupted(display.display)
        return LiveLines(
            Voice(show if shown else None, show if shown and display.verbosity > 0 else None),
            root=constants.DEFAULT_LOCAL_TMP,
            together=str(self._task._uuid),
            batch=task_vars.get("ansible_play_batch") or (),
            host=host,
            instance=_instance(arguments),
            state=state,
        )

    def _pause(self, seconds: float) -> None:
        if seconds > 0:
            self.sleep(seconds)

    def _look(
        self,
        state: StartupState,
        arguments: dict[str, Any],
        before: Mapping[str, Any],
        wait: float,
        live: LiveLines,
        task_vars: dict[str, Any],
    ) -> dict[str, Any]:
        """One call on the node, from where the last one ended."""
        module_args = {
            "unit": arguments["unit"],
            "log": arguments["log"],
            "invocation_id": state.invocation_id,
            "cursor": before.get("cursor"),
            "sglang_version": arguments["sglang_version"],
            "meter": state.expected.meter,
            "known_ranks": before.get("ranks"),
            "ready_url": arguments["ready_url"] if wants_probe(state) else None,
            "wait_seconds": round(wait, 2),
            "max_lines": LINES,
        }
        module_args = {name: value for name, value in module_args.items() if value is not None}

        least, most = ANSWER_SECONDS
        patience = min(max(least, arguments["reconnect_seconds"] / 2), most)

        def call() -> dict[str, Any]:
            with at_most(wait + patience):
                answer: dict[str, Any] = self._execute_module(
                    module_name=MODULE, module_args=dict(module_args), task_vars=task_vars
                )
            return answer

        def tell(trouble: str, lasted_seconds: float | None) -> None:
            Display().vv(f"{MODULE}: {trouble}", host=task_vars.get("inventory_hostname"))
            if lasted_seconds is not None:
                live.update(state, self.clock(), f"for {format_seconds(lasted_seconds)} ({trouble})")

        def reconnect() -> None:
            drop_connection(self._connection)

        means = Means(call, reconnect, tell, self.clock, self.sleep, AFTERWARDS)
        return call_patiently(means, arguments["reconnect_seconds"])


def _subject(arguments: Mapping[str, Any]) -> str:
    """What is followed, by its name."""
    return str(arguments["unit"] or (arguments["log"] or {}).get("container") or "")


def _instance(arguments: Mapping[str, Any]) -> str:
    return _subject(arguments).removesuffix(".service").removeprefix("sglang-")


def _check(arguments: dict[str, Any]) -> None:
    for name, (least, most) in RANGES.items():
        value = arguments[name]
        if value is not None and not least <= value <= most:
            raise Refusal("out_of_range", f"{name} is {value:g}.", f"Expected {least:g} to {most:g}.", {name: value})
    live_lines_choice(arguments["live_lines"], os.environ)
    limit = arguments["timeout_seconds"]
    if limit is not None and not 0 < limit < inf:
        raise Refusal(
            "out_of_range",
            f"timeout_seconds is {limit:g}.",
            "Expected more than 0. It has to have an end.",
            {"timeout_seconds": f"{limit:g}"},
        )
    check_plan(arguments["plan"] or {})


def _expected(arguments: dict[str, Any]) -> Expectation:
    """Out of the plan; what was given beside it comes before it."""
    expected = expectation_from_plan(
        arguments["plan"] or {},
        arguments["timeout_seconds"],
        arguments["stall_seconds"],
        sglang_version=arguments["sglang_version"],
    )
    if arguments["ranks"] is not None:
        expected = replace(expected, ranks=arguments["ranks"])
    if arguments["planned_bytes"] is not None:
        expected = replace(expected, bytes_by_stage=(arguments["planned_bytes"] // arguments["ranks"],))
    if arguments["meter"] is not None:
        expected = replace(expected, meter=arguments["meter"])
    return expected
