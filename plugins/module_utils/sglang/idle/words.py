# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a person is told of the wait: the live line, and of a failure who holds what and what to do. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import (
    GB,
    format_gb,
    format_rate,
    format_seconds,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.holders import BY_UNIT
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.judge import (
    GPU,
    HOST,
    HUGE_PAGES,
    NODE,
    PROCESS,
    Hold,
    missing_host_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.remedies import remedies_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.waiting import (
    TIMEOUT,
    UNIT_ACTIVE,
    WaitState,
    eta_seconds,
    given_back,
    left,
    quiet_limit_seconds,
    rate_bytes_per_second,
)

# Further holders are counted and not named.
NAMED = 3
# A time left beyond this is none.
LONGEST_ETA_SECONDS = 3600.0
_SHORT_STATES = {"D": "waits in the kernel", "Z": "is dead and not yet looked after", "T": "is stopped by a signal"}


def who(hold: Hold) -> str:
    """The holder in a few words."""
    if hold.pid is None:
        return "no process that is named"
    parts = [f"pid {hold.pid}"]
    if hold.user:
        parts.append(f"user {hold.user}")
    if hold.container:
        parts.append(f"container {hold.container}")
    elif hold.unit:
        parts.append(hold.unit)
    return f"{hold.name or 'a process'} ({', '.join(parts)})"


def sentence(hold: Hold, unit: str | None = None) -> str:
    """One hold as a sentence, every number with its unit."""
    size = format_gb(hold.bytes) if hold.bytes is not None else "an unknown amount"
    if hold.kind == PROCESS:
        state = f" and {_SHORT_STATES[hold.state]}" if hold.state in _SHORT_STATES else ""
        where = f"in {unit or 'its control group'}" if hold.belongs == BY_UNIT else f"outside of {unit or 'its unit'}"
        return f"{who(hold)} of the old server is still there, {where}{state}; it holds {size} of host memory."
    if hold.kind == GPU:
        return f"{size} of GPU {hold.gpu} {'is' if hold.bytes is None else 'are'} held by {who(hold)}."
    where = {
        HOST: "Host memory",
        NODE: f"NUMA node {hold.numa_node}",
        HUGE_PAGES: "Huge pages" if hold.numa_node is None else f"Huge pages of NUMA node {hold.numa_node}",
    }[hold.kind]
    return (
        f"{where}: {format_gb(hold.available_bytes or 0)} available, the plan counts on "
        f"{format_gb(hold.required_bytes or 0)}, {size} are missing."
    )


def live_line(state: WaitState) -> str:
    """What goes on now, in one line; sizes in GB (1e9)."""
    if state.verdict is not None:
        back = sum(given_back(state))
        words = "memory is free" if state.verdict == "idle" else f"memory is not free ({state.verdict})"
        tail = f", {back / GB:.2f} GB given back" if back else ""
        return f"{words} after {format_seconds(state.elapsed_seconds)}{tail}"
    (host, gpu), (host_left, gpu_left) = given_back(state), left(state)
    line = f"{'stopping' if state.stopping else 'waiting for memory'} {(host + gpu) / GB:.2f}"
    line += f" of {(host + gpu + host_left + gpu_left) / GB:.2f} GB given back"
    if gpu or gpu_left:
        line += f" (host {host / GB:.2f}/{(host + host_left) / GB:.2f}, GPU {gpu / GB:.2f}/{(gpu + gpu_left) / GB:.2f})"
    rate, eta = rate_bytes_per_second(state), eta_seconds(state)
    if rate is not None:
        line += f" {format_rate(rate)}"
        if eta is not None and eta <= LONGEST_ETA_SECONDS:
            line += f" ETA {format_seconds(round(eta)).replace('.0 s', ' s')}"
    names = list(dict.fromkeys(f"{hold.name or 'pid'} {hold.pid}" for hold in state.holds if hold.pid is not None))
    if names:
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        line += f", held by {', '.join(names[:NAMED])}{more}"
    return line


def refusal_of(state: WaitState, unit: str | None, plan: Mapping[str, Any], details: Mapping[str, Any]) -> Refusal:
    """Why the next start cannot go on. C(details) is a whole answer of memory_holders_info, for who holds the rest."""
    name = unit or "the instance"
    if state.reason == UNIT_ACTIVE:
        found = state.unit
        again = found is not None and found.sub_state == "auto-restart"
        what = "waits to be started again by systemd" if again else "runs"
        return Refusal(
            "unit_active",
            f"{name} {what}, so its memory does not come back.",
            f"Stop it first (`systemctl stop {name}`).",
            {"active_state": found.active_state if found else None, "main_pid": found.main_pid if found else None},
        )
    remedies = remedies_of(state.holds, plan, details)
    shown = [sentence(hold, unit) for hold in state.holds[: 2 * NAMED]]
    if len(state.holds) > len(shown):
        shown.append(f"And {len(state.holds) - len(shown)} more.")
    waited = format_seconds(state.elapsed_seconds)
    if state.reason == TIMEOUT:
        began = f"The memory for {name} is not free after {waited}"
    else:
        quiet = format_seconds(state.now - state.last_progress_at)
        began = f"The memory for {name} is not free after {waited}, and for {quiet} none has come back"
    host, gpu = given_back(state)
    return Refusal(
        _code(state.holds),
        "\n  ".join([f"{began}.", *shown]),
        "\n  ".join(remedy.message for remedy in remedies),
        {
            "waited_seconds": round(state.elapsed_seconds, 1),
            "stall_limit_seconds": round(quiet_limit_seconds(state), 1),
            "given_back_bytes": host + gpu,
            "missing_host_bytes": missing_host_bytes(state.holds),
            "held_gpu_bytes": left(state)[1],
            "holds": [hold.as_dict() for hold in state.holds],
            "remedies": [remedy.as_dict() for remedy in remedies],
            "largest_ratio": next((remedy.value for remedy in remedies if remedy.code == "set_ratio"), None),
        },
    )


def message_of(refusal: Refusal) -> str:
    """For the end of a play: a line for each holder and each thing to do."""
    return str(refusal) if refusal.code == "unit_active" else f"{refusal.message}\nWhat to do:\n  {refusal.remedy}"


def _code(holds: Sequence[Hold]) -> str:
    """The code of the first cause: what an old process holds comes back with it."""
    kinds = {hold.kind for hold in holds}
    if PROCESS in kinds:
        return "old_server_alive"
    if GPU in kinds:
        return "gpu_memory_held"
    return "host_memory_held"


def below_plan_problem(holds: Sequence[Hold]) -> Problem:
    short = " ".join(sentence(hold) for hold in holds)
    return Problem(
        "host_memory_below_plan",
        "warning",
        f"The start goes on with less host memory than planned, as the server may take it. {short}",
        "See what else took host memory since the plan was made, or lower hicache.ratio.",
    )
