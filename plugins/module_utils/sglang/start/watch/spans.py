# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long each stage took, by the log's own timestamps. Pure.

Stages are timed by what the log stamps, so they are measured however seldom one looks. A rank can come to a stage
again: a draft is loaded after the target, or after its pools.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import Span, StartupState

# Stamps of several processes are in order to this much.
STAMP_SECONDS = 1.0


def span_of(state: StartupState, stage: str, rank: str | None) -> Span | None:
    """The last visit of a rank, or of the server, to a stage."""
    return next((one for one in reversed(state.spans) if (one.stage, one.rank) == (stage, rank)), None)


def opened(state: StartupState, stage: str, rank: str | None, when: float | None) -> StartupState:
    """Begins a stage; whatever the same rank was in before ends with it. A stage that goes on is no new visit."""
    last = next((span for span in reversed(state.spans) if span.rank == rank), None)
    kept = last if last is not None and last.stage == stage else None
    spans = [
        replace(span, ended=when, jumped=span.jumped or state.jumped_now)
        if span.rank == rank and span.ended is None and span is not kept
        else span
        for span in state.spans
    ]
    if kept is None:
        spans.append(Span(stage, rank, when, jumped=state.jumped_now, clock=state.clock_jumps))
    else:
        # What the bytes alone had shown is dated by its own line, if that comes after all.
        told = replace(kept, began=when, by="log") if kept.by == "meter" and when is not None else kept
        spans[spans.index(kept)] = replace(told, ended=None)
    return replace(state, spans=tuple(spans))


def closed(state: StartupState, stage: str, rank: str | None, when: float | None) -> StartupState:
    last = span_of(state, stage, rank)
    if last is None:
        return state
    ended = replace(last, ended=when, jumped=last.jumped or state.jumped_now)
    return replace(state, spans=tuple(ended if span is last else span for span in state.spans))


def dated(state: StartupState, stage: str, rank: str | None, began: float | None) -> StartupState:
    """Sets when the present visit began, where its line came later."""
    last = span_of(state, stage, rank)
    if last is None or began is None or (last.began is not None and began > last.began):
        return state
    earlier = replace(last, began=began)
    return replace(state, spans=tuple(earlier if span is last else span for span in state.spans))


def all_closed(state: StartupState, when: float | None) -> StartupState:
    """Ends whatever still runs."""
    spans = (
        replace(span, ended=when, jumped=span.jumped or state.jumped_now) if span.ended is None else span
        for span in state.spans
    )
    return replace(state, spans=tuple(spans))


def with_bytes(state: StartupState, stage: str, rank: str | None, size: int | None) -> StartupState:
    last = span_of(state, stage, rank)
    if last is None or size is None:
        return state
    more = replace(last, bytes=(last.bytes or 0) + size)
    return replace(state, spans=tuple(more if span is last else span for span in state.spans))


def visits(state: StartupState, stage: str) -> list[list[Span]]:
    """The spans of a stage: those of the first visit of each rank, those of the second, and so on."""
    by_rank: dict[str | None, list[Span]] = defaultdict(list)
    for span in state.spans:
        if span.stage == stage:
            by_rank[span.rank].append(span)
    most = max((len(spans) for spans in by_rank.values()), default=0)
    return [[spans[visit] for spans in by_rank.values() if visit < len(spans)] for visit in range(most)]


def began_at(state: StartupState, stage: str) -> float | None:
    """When the first rank came to the stage, UNIX seconds of the node."""
    known = [(span.clock, span.began) for span in state.spans if span.stage == stage and span.began is not None]
    return min(known)[1] if known else None


def stage_seconds(state: StartupState, stage: str) -> float | None:
    """From when the first rank came to the stage to when the last one left it, over all visits.

    None while it goes on, and where the clock of the node was set meanwhile.
    """
    lengths = [_envelope(spans) for spans in visits(state, stage)]
    known = [length for length in lengths if length is not None]
    return round(sum(known), 3) if lengths and len(known) == len(lengths) else None


def rank_seconds(state: StartupState, stage: str, rank: str) -> float | None:
    """How long one rank was in the stage."""
    lengths = [_envelope([span]) for span in state.spans if (span.stage, span.rank) == (stage, rank)]
    known = [length for length in lengths if length is not None]
    return round(sum(known), 3) if lengths and len(known) == len(lengths) else None


def _envelope(spans: list[Span]) -> float | None:
    began = [span.began for span in spans if span.began is not None]
    ended = [span.ended for span in spans if span.ended is not None]
    jumped = any(span.jumped for span in spans) or len({span.clock for span in spans}) > 1
    if not began or len(ended) < len(spans) or jumped:
        return None
    length = max(ended) - min(began)
    return max(0.0, length) if length >= -STAMP_SECONDS else None
