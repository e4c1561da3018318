# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the last proven start of an instance measured, as far as it holds for the plan that is asked for now.

A figure is used where the settings that it depends on are the same (settings.py). With another release, model, layout
or other GPUs nothing of a GPU's memory holds; with other weights in memory what was free before them does; with another
way to run the budget does, and what stays idle does not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.measured.accuracy import (
    Deviation,
    deviations,
    number,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.measured.idle_snapshot import free_while_serving
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.measured.ledger_shape import (
    malformed_line,
    well_formed,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.measured.measured_memory import contradiction
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.measured.settings import (
    IDENTITY,
    LOADING,
    RUNNING,
    differing,
    settings_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gib
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import meter_of

UNUSABLE = "The last start was recorded by a release of this collection that measured nothing for a plan."


@dataclass(frozen=True)
class LastStart:
    """C(observed): what replaces estimates, in the form of the option C(observed).

    C(load_bytes_per_gpu): how much more of a GPU was once seen in use than at the end of the start. It never shrinks,
    so that a setting that load has once shown to be too high is not chosen again after each restart.
    C(in_force): flags of the ledger's plan. C(notes): what was used and what not, and why.
    """

    observed: Mapping[str, Any] = field(default_factory=dict)
    load_bytes_per_gpu: int | None = None
    in_force: Mapping[str, Any] = field(default_factory=dict)
    timeout_start_seconds: int | None = None
    timeout_stop_seconds: int | None = None
    deviations: tuple[Deviation, ...] = ()
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {
            "observed": dict(self.observed),
            "load_bytes_per_gpu": self.load_bytes_per_gpu,
            "notes": list(self.notes),
        }


def last_start_of(ledger: Mapping[str, Any], arguments: Mapping[str, Any]) -> LastStart | None:
    """Reads a ledger for validated arguments of memory_plan; None where there is no ledger.

    C(ledger["in_force"]) tells whether the start that it records is the one that runs now.
    """
    ledger, malformed = well_formed(ledger)
    found = _last_start(ledger, arguments)
    if not malformed:
        return found
    found = found or LastStart()
    return replace(found, notes=(malformed_line(malformed), *found.notes))


def _last_start(ledger: Mapping[str, Any], arguments: Mapping[str, Any]) -> LastStart | None:
    plan, startup = ledger.get("plan"), ledger.get("startup")
    if not isinstance(plan, Mapping) or not isinstance(startup, Mapping):
        return None
    start, stop = (number((plan.get("unit") or {}).get(f"timeout_{what}_seconds")) for what in ("start", "stop"))
    known = LastStart(
        in_force=plan.get("arguments") or {},
        timeout_start_seconds=None if start is None else int(start),
        timeout_stop_seconds=None if stop is None else int(stop),
        deviations=deviations(ledger),
    )
    figures, measured = startup.get("figures"), plan.get("settings")
    if not isinstance(figures, Mapping) or not isinstance(measured, Mapping):
        return replace(known, notes=(UNUSABLE,))
    observed, load, notes = _holding(ledger, plan, startup, figures, measured, arguments)
    return replace(known, observed=observed, load_bytes_per_gpu=load, notes=tuple(notes))


def _holding(
    ledger: Mapping[str, Any],
    plan: Mapping[str, Any],
    startup: Mapping[str, Any],
    figures: Mapping[str, Any],
    measured: Mapping[str, Any],
    arguments: Mapping[str, Any],
) -> tuple[dict[str, Any], int | None, list[str]]:
    asked = settings_of(arguments)
    observed: dict[str, Any] = {}
    meter = (plan.get("host") or {}).get("meter")
    if meter == meter_of(str(arguments["sglang_version"])):
        # Releases that allocate alike pin alike, whatever the model.
        observed["pin_bytes_per_second"] = number(figures.get("pin_bytes_per_second"))
    others = differing(measured, asked, IDENTITY)
    if others:
        what = "the rate of pinning" if observed.get("pin_bytes_per_second") else "nothing"
        return _known(observed), None, [f"Of what the last start measured {what} is used, as {_named(others)} changed."]
    observed["rest_seconds"] = number(figures.get("rest_seconds"))
    on_gpu = (plan.get("device") or {}).get("device") != "cpu"
    said: list[str] = []
    if on_gpu:
        cards = [number(total) for _name, total in asked[IDENTITY]["boards"]]
        wrong = contradiction(plan, startup, figures, [int(card) for card in cards if card is not None])
        before = number(figures.get("available_before_load_bytes"))
        if wrong is None and before is not None:
            observed["available_before_load_bytes"] = before
        if wrong is not None:
            said.append(f"The GPU memory that the last start measured is not used, as it contradicts itself: {wrong}.")
    others = differing(measured, asked, LOADING)
    if others:
        return (
            _known(observed),
            None,
            [
                *said,
                "Of what the last start measured the weights, the KV budget and idle memory are not used, as "
                f"{_named(others)} changed.",
            ],
        )
    observed["load_seconds"] = number(figures.get("load_seconds"))
    if not on_gpu or "available_before_load_bytes" not in observed:
        # All else is a part of what was free before the weights.
        return _known(observed), None, said
    observed["available_after_load_bytes"] = number(figures.get("available_after_load_bytes"))
    others = differing(measured, asked, RUNNING)
    fraction = _fraction(plan, figures)
    if fraction is None or _default_now(plan, arguments):
        return (
            _known(observed),
            None,
            [
                "The KV budget that the last start measured is not used, as it was given a mem_fraction_static and "
                "this plan leaves it to the release."
                if fraction is not None
                else "The KV budget that the last start measured is not used, as its mem_fraction_static is not known."
            ],
        )
    budget = _budget_bytes(plan, startup)
    notes = [] if budget is not None else ["The last start had its tokens capped, so that its KV budget is not known."]
    observed["kv_pool_bytes"] = budget
    observed["mem_fraction_static"] = fraction
    if others:
        notes.append(f"The GPU memory that the last start left idle is not used, as {_named(others)} changed.")
        return _known(observed), None, notes
    load, idle, told = _idle(ledger, plan, startup, figures, arguments)
    observed["idle_bytes_per_gpu"] = idle
    return _known(observed), load, [*notes, *told]


def _known(observed: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is not known, is no measurement, or is a part larger than its whole: a ledger is a file."""
    known = {
        name: int(value) if name.endswith("_bytes") or name == "idle_bytes_per_gpu" else value
        for name, value in observed.items()
        if value is not None and (value > 0 or (value == 0 and name in ("idle_bytes_per_gpu", "rest_seconds")))
    }
    whole = known.get("available_before_load_bytes")
    parts = ("available_after_load_bytes", "kv_pool_bytes", "idle_bytes_per_gpu")
    return {name: value for name, value in known.items() if whole is None or name not in parts or value <= whole}


def with_hand_given(measured: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What was measured, and in its place what is given by hand.

    A budget and idle memory belong to the fraction under which they were seen: those of another are left out.
    """
    by_hand = {name: value for name, value in given.items() if value is not None}
    kept = {name: value for name, value in measured.items() if name not in by_hand}
    fraction = by_hand.get("mem_fraction_static", measured.get("mem_fraction_static"))
    of_fraction = ("kv_pool_bytes", "idle_bytes_per_gpu")
    if fraction != measured.get("mem_fraction_static") or (
        "mem_fraction_static" not in by_hand and any(name in by_hand for name in of_fraction)
    ):
        kept = {name: value for name, value in kept.items() if name not in (*of_fraction, "mem_fraction_static")}
    whole = kept.get("available_before_load_bytes")
    parts = (by_hand.get(name) for name in ("available_after_load_bytes", *of_fraction))
    if whole is not None and any(part is not None and part > whole for part in parts):
        del kept["available_before_load_bytes"]
    return {**kept, **by_hand}


def _named(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _fraction(plan: Mapping[str, Any], figures: Mapping[str, Any]) -> float | None:
    """As the server resolved it, else as it was planned."""
    for value in (figures.get("mem_fraction_static"), (plan.get("device") or {}).get("mem_fraction_static")):
        known = number(value)
        if known is not None and 0 < known < 1:
            return float(known)
    return None


def _default_now(plan: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    """Whether the last start was told its fraction and the next is to take the release's own, which nobody measured."""
    server: Mapping[str, Any] = arguments.get("server") or {}
    decided = server.get("mem_fraction_auto") or any(
        server.get(name) is not None for name in ("mem_fraction_static", "leave_bytes", "target_tokens")
    )
    return "mem-fraction-static" in (plan.get("arguments") or {}) and not decided


def _budget_bytes(plan: Mapping[str, Any], startup: Mapping[str, Any]) -> int | None:
    """The KV budget that gives the tokens that the server told; None where a cap decided them.

    Tokens are exact where printed memory has two decimals, so the budget is made of them.
    """
    device: Mapping[str, Any] = plan.get("device") or {}
    running = (plan.get("settings") or {}).get(RUNNING) or {}
    planned, budget = number(device.get("max_total_num_tokens")), number(device.get("budget_bytes"))
    tokens = number(startup.get("max_total_num_tokens"))
    if running.get("max_total_tokens") is not None or not planned or not budget or not tokens:
        return None
    if tokens == planned:
        return int(budget)
    pools = device.get("pools") or []
    pipeline = ((plan.get("settings") or {}).get(IDENTITY) or {}).get("pipeline_parallel_size") or 1
    if len(pools) == 1 and pipeline == 1 and number(pools[0].get("bytes_per_slot")):
        return int(tokens * pools[0]["bytes_per_slot"])
    # Several pools (and stages) share the budget in proportion to the tokens, but for their rounding to pages.
    return math.ceil(budget * tokens / planned)


def _idle(
    ledger: Mapping[str, Any],
    plan: Mapping[str, Any],
    startup: Mapping[str, Any],
    figures: Mapping[str, Any],
    arguments: Mapping[str, Any],
) -> tuple[int | None, int | None, list[str]]:
    """(what load took of a GPU, what stays idle under it, notes)."""
    at_end = number(figures.get("available_at_end_bytes"))
    if at_end is None:
        return None, None, []
    earlier = number((plan.get("last_start") or {}).get("load_bytes_per_gpu"))
    free, why_not = None, "it does not run now"
    if ledger.get("in_force"):
        gpus = [seat.get("gpu") for seat in plan.get("placement") or []]
        pids = {rank.get("pid") for rank in startup.get("ranks") or []} | {ledger.get("main_pid")}
        free, why_not = free_while_serving((arguments.get("topology") or {}).get("gpus"), gpus, pids)
    known = [int(value) for value in (earlier, None if free is None else max(0, at_end - free)) if value is not None]
    if not known:
        return (
            None,
            None,
            [
                f"{format_gib(at_end)} of a GPU were free at the end of the last start, before any request; what stays "
                f"idle under load is not known, as {why_not}."
            ],
        )
    load = max(known)
    return (
        load,
        max(0, int(at_end) - load),
        [
            f"{format_gib(max(0, at_end - load))} of a GPU stay idle: {format_gib(at_end)} at the end of the last "
            f"start less {format_gib(load)} that serving was seen to take, and keeps."
        ],
    )
