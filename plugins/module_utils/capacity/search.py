# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which options there are: every layout on one machine, or the fewest boards of each kind that serve the workload."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.capacity.capacity_request import CapacityRequest, Workload
from ansible_collections.gpufleet.sglang.plugins.module_utils.capacity.judge import (
    Candidate,
    Option,
    judge,
    needed_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.capacity.layouts import Layout, layouts_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB, GIB, format_gib
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import model_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import machine_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.boards import Board
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.catalogue import CATALOGUE, board_named
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.paper import machine_on_paper

# "SGLang only supports sm75 and above.": model_executor/model_runner.py (0.4.7) to
# model_executor/model_runner_components/load_model_utils.py (0.5.23).
_LEAST_CAPABILITY = (7, 5)
_FIRST_GUESS_BYTES = 16 * GIB

Needed = Callable[[Candidate, bool, int], "int | None"]


@dataclass(frozen=True)
class Excluded:
    """A layout that the model or the release does not allow, whatever the memory."""

    model: str
    layout: Layout
    refusal: Refusal


@dataclass(frozen=True)
class Capacity:
    """C(options) best first, those that fit before those that do not."""

    options: tuple[Option, ...]
    excluded: tuple[Excluded, ...]


def capacity(asked: CapacityRequest) -> Capacity:
    """Every option for the workload, or Refusal where there is none to judge."""
    needed = _needed(asked)
    excluded: dict[tuple[str, Layout], Excluded] = {}
    options: list[Option] = []
    for model in asked.models:
        if asked.topology is not None:
            gpus = len([gpu for gpu in machine_facts(asked.topology).gpus if gpu.trouble is None])
            for count in range(1, gpus + 1):
                options += _options(asked, model, asked.topology, None, count, needed, excluded)
        else:
            for board in boards_asked(asked.boards):
                by_count = (
                    _options(asked, model, _machine(asked, board, count), board, count, needed, excluded)
                    for count in asked.counts
                )
                options += _fewest(by_count)
    if not options:
        raise _nothing(list(excluded.values()))
    order = _by_requests if asked.topology is not None else _by_memory
    return Capacity(tuple(sorted(options, key=order)), tuple(excluded.values()))


def _options(
    asked: CapacityRequest,
    model: Mapping[str, Any],
    topology: Mapping[str, Any],
    board: Board | None,
    gpus: int,
    needed: Needed,
    excluded: dict[tuple[str, Layout], Excluded],
) -> list[Option]:
    """An option for each layout over so many GPUs; what is not allowed is added to C(excluded).

    Of boards that are to be bought the simplest layout that serves is enough.
    """
    found = []
    heads = model_facts(model).attention.num_attention_heads
    for layout in layouts_of(gpus):
        # Under attention data parallelism the heads need not divide by all ranks, but the other layers do.
        if heads % layout.tensor_parallel_size:
            continue
        candidate = Candidate(model, *_names(topology, board), topology, layout)
        try:
            option = judge(asked, candidate)
        except Refusal as refusal:
            name = model_facts(model).name
            excluded.setdefault((name, layout), Excluded(name, layout, refusal))
            continue
        found.append(_measured(option, candidate, asked.workload, needed))
        if board is not None and option.fits:
            break
    return found


def boards_asked(names: tuple[str, ...] | None) -> tuple[Board, ...]:
    """The boards that names stand for: all of those that a name fits, all there are without names."""
    if names is None:
        return tuple(board for board in CATALOGUE if _served(board))
    found: dict[str, Board] = {}
    by_name = {board.name: board for board in CATALOGUE}
    for name in names:
        try:
            board = board_named(name)
            found[board.name] = board
        except Refusal as refusal:
            fitting = refusal.evidence.get("fitting")
            if not isinstance(fitting, list):
                raise
            found.update({each: by_name[each] for each in fitting})
    served = tuple(board for board in found.values() if _served(board))
    if not served:
        raise Refusal(
            "boards_not_served",
            f"SGLang serves no GPU below compute capability {_LEAST_CAPABILITY[0]}.{_LEAST_CAPABILITY[1]}, and "
            f"{', '.join(found)} {'is' if len(found) == 1 else 'are'} below it.",
            "Expected a newer board.",
            {"boards": list(found)},
        )
    return served


def _served(board: Board) -> bool:
    major, minor = board.compute_capability.split(".")
    return (int(major), int(minor)) >= _LEAST_CAPABILITY


def _names(topology: Mapping[str, Any], board: Board | None) -> tuple[str | None, int | None]:
    if board is not None:
        return board.name, board.memory_bytes
    gpus = machine_facts(topology).gpus
    return (gpus[0].name, gpus[0].memory_total_bytes) if gpus else (None, None)


def _machine(asked: CapacityRequest, board: Board, count: int) -> dict[str, Any]:
    """A machine of one NUMA node with so many boards, on paper."""
    machine: dict[str, Any] = {"board": board.name, "count": count}
    if asked.host_memory_available_bytes is not None:
        machine["available_gb"] = asked.host_memory_available_bytes / GB
    return machine_on_paper(machine)


def _needed(asked: CapacityRequest) -> Needed:
    """needed_bytes, asked once for what does not depend on the size of a board."""
    known: dict[tuple[int, Layout, str, bool], int | None] = {}

    def needed(candidate: Candidate, hicache: bool, guess: int) -> int | None:
        capability = str(candidate.topology["gpus"][0].get("compute_capability"))
        key = (id(candidate.model), candidate.layout, capability, hicache)
        if key not in known:
            known[key] = needed_bytes(asked, candidate, hicache, guess)
        return known[key]

    return needed


def _measured(option: Option, candidate: Candidate, workload: Workload, needed: Needed) -> Option:
    """With the budget that the workload needs, and what is missing of it where it is that which is short."""
    guess = _FIRST_GUESS_BYTES
    if option.tokens:
        wanted = workload.context_tokens * workload.concurrent_requests
        guess = math.ceil(option.kv_bytes / option.tokens * wanted)
    bytes_needed = needed(candidate, option.host_ratio_auto is not None, guess)
    if bytes_needed is None:
        return option
    missing = max(0, bytes_needed - option.kv_bytes) if not option.fits else 0
    lines = list(option.explanation)
    if missing:
        lines.append(
            f"{option.layout.text}: the workload takes {format_gib(bytes_needed)} of KV cache a GPU, "
            f"{format_gib(missing)} more than there are"
        )
    return replace(option, needed_kv_bytes=bytes_needed, missing_bytes=missing or None, explanation=tuple(lines))


def _fewest(by_count: Iterable[list[Option]]) -> list[Option]:
    """For each count up to the first that serves, its best layout; the last one says why fewer boards do not."""
    chosen: list[Option] = []
    for options in by_count:
        if not options:
            continue
        best = min(options, key=lambda option: (not option.fits, _lack(option), option.layout))
        if best.fits:
            short = [
                f"{fewer.group_text} ({fewer.layout.text}) would not do: "
                + (f"{format_gib(fewer.missing_bytes)} a GPU are missing" if fewer.missing_bytes else _why(fewer))
                for fewer in chosen
            ]
            return [*chosen, replace(best, explanation=(*best.explanation, *short))]
        chosen.append(best)
    return chosen


def _why(option: Option) -> str:
    return "" if option.refusal is None else option.refusal.message


def _lack(option: Option) -> float:
    """Bytes that are missing on all GPUs together; endless where it is not memory of theirs that is missing."""
    if option.fits:
        return 0
    return math.inf if option.missing_bytes is None else option.missing_bytes * option.gpus


def _by_requests(option: Option) -> tuple[Any, ...]:
    """What one machine does: most requests first, and of equals the fewest GPUs and the simplest layout."""
    return (not option.fits, _lack(option), -option.requests_at_context, option.gpus, option.layout, option.model)


def _by_memory(option: Option) -> tuple[Any, ...]:
    """What is to be bought: least GPU memory in all first, and of equals the fewest GPUs."""
    memory = (option.gpu_memory_bytes or 0) * option.gpus
    return (not option.fits, _lack(option), memory, option.gpus, option.board or "", option.model)


def _nothing(excluded: list[Excluded]) -> Refusal:
    if not excluded:
        return Refusal(
            "gpus_missing",
            "The machine has no GPU that a server can have.",
            "Give topology.gpus, or boards of the catalogue.",
        )
    refusal = excluded[0].refusal
    if len({found.refusal.message for found in excluded}) == 1:
        return refusal
    return Refusal(
        "layouts_excluded",
        f"No layout is allowed: {excluded[0].layout.text}: {refusal.message}",
        refusal.remedy,
        {"layouts": [found.layout.text for found in excluded]},
    )
