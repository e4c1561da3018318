# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from ansible import context
from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.audience import (
    live_lines_choice,
    shows_live_lines,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.cadence import (
    Shown,
    is_due,
    with_sign_of_life,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.options import SNAPSHOT_OPTIONS, WAITING_OPTIONS
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.progress import (
    Meter,
    advance,
    closing_line,
    live_line,
    look_of,
)
from ansible_collections.gpufleet.sglang.plugins.plugin_utils.live_lines import audience_of, write_lines_at_once
from ansible_collections.gpufleet.sglang.plugins.plugin_utils.patient_call import (
    GaveUp,
    Means,
    call_patiently,
    drop_connection,
)
from ansible_collections.gpufleet.sglang.plugins.plugin_utils.time_limit import at_most

# How long an answer may take beyond what it was to wait for: the first call starts the worker, or links a revision.
ANSWER_SECONDS = 180.0
# A worker that ends without a word is started again: so often in a row where it brings nothing, and so often in all.
MOST_LOST = 3
MOST_ENDS = 20
AFTERWARDS = "The worker on the node goes on by itself; run the play again to follow it to its end."

# Plugins are loaded by the main process before its workers are made, so this is the place to ask for it.
write_lines_at_once()


class ActionModule(ActionBase):
    """Repeats the module until the worker on the node has ended; each call waits there for news."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    # A test replaces these; time in a play is always measured on the controller's monotonic clock.
    clock: Callable[[], float] = staticmethod(time.monotonic)
    sleep: Callable[[float], None] = staticmethod(time.sleep)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _unused, arguments = self.validate_argument_spec(argument_spec=SNAPSHOT_OPTIONS)
        try:
            show = self._voice(arguments, task_vars or {})
        except Refusal as refusal:
            return {**result, **refusal.as_result()}
        asked = {name: value for name, value in arguments.items() if name not in WAITING_OPTIONS and value is not None}
        result.update(self._follow(asked, arguments, task_vars or {}, show))
        return result

    def _follow(
        self,
        asked: dict[str, Any],
        arguments: dict[str, Any],
        task_vars: dict[str, Any],
        show: Callable[[str], None],
    ) -> dict[str, Any]:
        meter = Meter(self.clock())
        last: Shown | None = None
        lost = ends = 0
        joined = False
        controller = os.getppid()
        while True:
            if os.getppid() != controller:
                # A worker has a session of its own and outlives a controller that was killed.
                raise AnsibleError("The controller is gone.")
            answer = self._ask(asked, arguments, task_vars)
            state = answer.get("worker")
            if state is None:
                if last is not None and not answer.get("failed") and not answer.get("unreachable"):
                    show(closing_line(answer, self.clock() - meter.began_at))
                return {**answer, "joined": joined or answer.get("joined", False)} if "joined" in answer else answer
            joined = joined or answer["joined"]
            meter = advance(meter, look_of(state), self.clock())
            asked = {**asked, "run_id": answer["run_id"]}
            if state["lost"]:
                lost, ends = (0 if meter.look.fetched_bytes else lost + 1), ends + 1
                if lost >= MOST_LOST or ends >= MOST_ENDS:
                    refused = Refusal(
                        "store_worker_lost",
                        f"The worker ({state['unit']}) ended without a word {ends} times.",
                        f"Look at `journalctl -u {state['unit']}` and at the kernel's log of the node.",
                        {"unit": state["unit"]},
                    )
                    return refused.as_result()
                show("the worker is gone; starting it again where it ended")
                self.sleep(1.0 * (lost + 1))
                del asked["run_id"]
                continue
            now, text = self.clock(), live_line(meter)
            if is_due(last, text, now, meter.began_at):
                show(with_sign_of_life(text, last, now - meter.began_at))
                last = Shown(now, text)

    def _voice(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> Callable[[str], None]:
        """Where lines go: the same places as those of a start, named in the same way."""
        choice = live_lines_choice(arguments["live_lines"], os.environ)
        if not shows_live_lines(choice, audience_of(self._task, context.CLIARGS)):
            return lambda text: Display().vvv(text)
        names = f"{task_vars.get('inventory_hostname', '')}  {arguments['name']}"
        return lambda text: Display().display(f"{names}  {text}")

    def _ask(self, asked: dict[str, Any], arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """One call on the node, repeated for a while when the connection breaks."""

        def call() -> dict[str, Any]:
            with at_most(arguments["poll_seconds"] + ANSWER_SECONDS):
                answer: dict[str, Any] = self._execute_module(
                    module_name="gpufleet.sglang.model_snapshot", module_args=asked, task_vars=task_vars
                )
            return answer

        def reconnect() -> None:
            drop_connection(self._connection)

        def tell(trouble: str, lasted_seconds: float | None) -> None:
            Display().vv(f"gpufleet.sglang.model_snapshot: {trouble}", host=task_vars.get("inventory_hostname"))

        means = Means(call, reconnect, tell, self.clock, self.sleep, AFTERWARDS)
        try:
            return call_patiently(means, arguments["reconnect_seconds"])
        except GaveUp as gave_up:
            ended = {"unreachable": True} if gave_up.unreachable else {"failed": True}
            return {**ended, "msg": str(gave_up), "failure": gave_up.as_dict()}
