# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from typing import Any

from ansible import context
from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.given_plan import check_plan
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.needs import (
    GPU_IDLE_BYTES,
    gpus_of_plan,
    needs_of_plan,
    time_limit_seconds,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.waiting import (
    BELOW_PLAN,
    IDLE,
    Limits,
    WaitState,
    advance,
    given_back,
    initial,
    observation_from_result,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.words import (
    below_plan_problem,
    live_line,
    message_of,
    refusal_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.audience import (
    CHOICES,
    live_lines_choice,
    shows_live_lines,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.cadence import (
    Shown,
    is_due,
    with_sign_of_life,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.interpreters import PYTHON_CANDIDATES
from ansible_collections.gpufleet.sglang.plugins.plugin_utils.live_lines import (
    audience_of,
    write_lines_at_once,
)
from ansible_collections.gpufleet.sglang.plugins.plugin_utils.patient_call import (
    GaveUp,
    Means,
    call_patiently,
    drop_connection,
)
from ansible_collections.gpufleet.sglang.plugins.plugin_utils.time_limit import at_most

# What a unit that is still stopping may take where no plan says it: systemd's default is 90 s, SGLang's drain more.
STOP_SECONDS = 600.0
# A node that cannot be reached is asked again for this long.
RECONNECT_SECONDS = 120.0
# How long an answer may take beyond what it was to wait for, and what NVML may take, before it counts as lost.
ANSWER_SECONDS = 60.0
AFTERWARDS = "Nothing was started; run the play again."

# Plugins are loaded by the main process before its workers are made, so this is the place to ask for it.
write_lines_at_once()


class ActionModule(ActionBase):
    """Asks memory_holders_info until the memory is given back; each call waits on the node."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    # A test replaces these; time in a play is always measured on the controller's monotonic clock.
    clock: Callable[[], float] = staticmethod(time.monotonic)
    sleep: Callable[[float], None] = staticmethod(time.sleep)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _unused, arguments = self.validate_argument_spec(
            argument_spec={
                "unit": {"type": "str"},
                "control_group": {"type": "str"},
                "generations": {"type": "list", "elements": "str", "default": []},
                "plan": {"type": "dict", "default": {}},
                "gpus": {"type": "list", "elements": "str"},
                "gpu_idle_bytes": {"type": "int", "default": GPU_IDLE_BYTES},
                "timeout_seconds": {"type": "float"},
                "stall_seconds": {"type": "float", "default": 30},
                "poll_seconds": {"type": "float", "default": 3},
                "live_lines": {"type": "str", "choices": list(CHOICES), "default": "auto"},
                "nvml_library": {"type": "path"},
                "nvml_timeout_seconds": {"type": "float", "default": 60},
                "python_candidates": {"type": "list", "elements": "path", "default": PYTHON_CANDIDATES},
            }
        )
        result["changed"] = False
        try:
            _check(arguments)
        except Refusal as refusal:
            return {**result, **refusal.as_result()}
        plan = arguments["plan"] or {}
        limits = _limits(plan, arguments)
        needs = needs_of_plan(plan, arguments["gpu_idle_bytes"])
        gpus = arguments["gpus"] if arguments["gpus"] is not None else gpus_of_plan(plan)
        if self._task.check_mode:
            # Nothing is stopped, so nothing comes back; the node is not asked.
            result["would_wait"] = {
                "unit": arguments["unit"],
                "gpus": gpus,
                "needs": needs.as_dict(),
                "timeout_seconds": limits.timeout_seconds,
                "stall_seconds": limits.stall_seconds,
            }
            result["outcome"] = None
            return result
        asked = {
            name: arguments[name]
            for name in ("unit", "control_group", "generations", "nvml_library", "nvml_timeout_seconds")
        }
        asked.update(gpus=gpus, needs=needs.as_dict(), python_candidates=arguments["python_candidates"])
        asked = {name: value for name, value in asked.items() if value is not None}
        asked["needs"] = {name: value for name, value in asked["needs"].items() if value is not None}
        state = initial(limits, self.clock())
        state, last = self._wait(state, asked, arguments, task_vars or {})
        result.update(_report(state, last))
        if last.get("failed") or last.get("unreachable"):
            return {
                **result,
                **{name: last[name] for name in ("failed", "unreachable", "msg", "failure") if name in last},
            }
        if state.verdict != IDLE:
            # Only now is it worth a look at every process of the node.
            details = self._ask({**asked, "wait_seconds": 0, "details": True}, task_vars or {})
            why = refusal_of(state, arguments["unit"], plan, details)
            result.update(why.as_result(), msg=message_of(why))
            result["holders"] = _holders(last, details)
        return result

    def _wait(
        self, state: WaitState, asked: dict[str, Any], arguments: dict[str, Any], task_vars: dict[str, Any]
    ) -> tuple[WaitState, dict[str, Any]]:
        show = self._voice(arguments, task_vars)
        last: Shown | None = None
        controller = os.getppid()
        while True:
            if os.getppid() != controller:
                # A worker has a session of its own and outlives a controller that was killed.
                raise AnsibleError("The controller is gone.")
            look = self._ask({**asked, "wait_seconds": arguments["poll_seconds"], "details": False}, task_vars)
            if look.get("failed") or look.get("unreachable"):
                return state, look
            state = advance(state, observation_from_result(look, self.clock()))
            text = live_line(state)
            if state.verdict is not None:
                # A node that is idle at the first look has nothing to show.
                if state.looks > 1 or state.verdict != IDLE:
                    show(text)
                return state, look
            if is_due(last, text, state.now, state.started_at):
                show(with_sign_of_life(text, last, state.elapsed_seconds))
                last = Shown(state.now, text)

    def _voice(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> Callable[[str], None]:
        """Where lines go: the same places as those of a start, named in the same way."""
        choice = live_lines_choice(arguments["live_lines"], os.environ)
        if not shows_live_lines(choice, audience_of(self._task, context.CLIARGS)):
            return lambda text: Display().vvv(text)
        unit = (arguments["unit"] or arguments["control_group"] or "").removesuffix(".service").removeprefix("sglang-")
        # Containers are named by 64 digits, and told apart by the first of them.
        unit = re.sub(r"([0-9a-f]{12})[0-9a-f]{52}", r"\1", unit)
        names = "  ".join(name for name in (task_vars.get("inventory_hostname", ""), unit) if name)
        return lambda text: Display().display(f"{names}  {text}")

    def _ask(self, module_args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """One call on the node, repeated for a while when the connection breaks."""

        def call() -> dict[str, Any]:
            with at_most(module_args["wait_seconds"] + module_args["nvml_timeout_seconds"] + ANSWER_SECONDS):
                answer: dict[str, Any] = self._execute_module(
                    module_name="gpufleet.sglang.memory_holders_info", module_args=module_args, task_vars=task_vars
                )
            return answer

        def reconnect() -> None:
            drop_connection(self._connection)

        def tell(trouble: str, lasted_seconds: float | None) -> None:
            Display().vv(f"gpufleet.sglang.memory_holders_info: {trouble}", host=task_vars.get("inventory_hostname"))

        try:
            return call_patiently(Means(call, reconnect, tell, self.clock, self.sleep, AFTERWARDS), RECONNECT_SECONDS)
        except GaveUp as gave_up:
            ended = {"unreachable": True} if gave_up.unreachable else {"failed": True}
            return {**ended, "msg": str(gave_up), "failure": gave_up.as_dict()}


def _check(arguments: dict[str, Any]) -> None:
    live_lines_choice(arguments["live_lines"], os.environ)
    bounds = (("poll_seconds", 0.1, 10.0), ("stall_seconds", 1.0, 86400.0), ("timeout_seconds", 0.1, 86400.0))
    for name, least, most in bounds:
        value = arguments[name]
        if value is not None and not least <= value <= most:
            raise Refusal("out_of_range", f"{name} is {value:g}.", f"Expected {least:g} to {most:g}.", {name: value})
    if arguments["gpu_idle_bytes"] < 0:
        raise Refusal(
            "out_of_range",
            f"gpu_idle_bytes is {arguments['gpu_idle_bytes']}.",
            "Expected 0 bytes or more.",
            {"gpu_idle_bytes": arguments["gpu_idle_bytes"]},
        )
    check_plan(arguments["plan"] or {})


def _limits(plan: dict[str, Any], arguments: dict[str, Any]) -> Limits:
    given = arguments["timeout_seconds"]
    return Limits(
        timeout_seconds=time_limit_seconds(plan) if given is None else given,
        stop_seconds=(plan.get("unit") or {}).get("timeout_stop_seconds") or STOP_SECONDS,
        stall_seconds=arguments["stall_seconds"],
        whole=given is not None,
    )


def _report(state: WaitState, last: dict[str, Any]) -> dict[str, Any]:
    host, gpu = given_back(state)
    problems = list(last.get("problems") or [])
    if state.reason == BELOW_PLAN:
        problems.append(below_plan_problem(state.holds).as_dict())
    return {
        "outcome": state.verdict,
        "idle_seconds": round(state.elapsed_seconds, 3),
        "given_back_bytes": host + gpu,
        "given_back_host_bytes": host,
        "given_back_gpu_bytes": gpu,
        "memory_available_bytes": state.samples[-1].available_bytes if state.samples else None,
        "gpu_memory_used_bytes": state.samples[-1].gpu_used_bytes if state.samples else None,
        "problems": problems,
    }


def _holders(last: dict[str, Any], details: dict[str, Any]) -> dict[str, Any]:
    """Who holds what, in full; the look that decided where the node cannot be asked any more."""
    names = ("processes", "gpus", "host", "numa_nodes", "memory_users", "files", "segments", "blocked")
    found = last if details.get("failed") or details.get("unreachable") else details
    return {name: found.get(name) for name in names}
