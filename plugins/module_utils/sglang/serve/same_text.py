# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether what came back from the host is what was stored, by the text at temperature 0. Pure but for what it asks.

A text alone is a weak witness: batches, kernels that are chosen by length, and drafts change the last bits of logits,
and with them the choice between two tokens that are as likely. So a difference is repeated before it counts. What was
loaded back is on the device now: if the state is wrong, every answer from it is, and if it was chance, it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import Check, Generation

NAME = "canary_same_text"


@dataclass(frozen=True)
class Comparison:
    """C(same) None: the server does not say the same of the same state, so that texts prove nothing."""

    same: bool | None
    check: Check
    problems: tuple[Problem, ...] = ()


def judge_text(
    cold: Generation,
    warm: Sequence[Generation],
    hit: Generation,
    again: Callable[[], Sequence[Generation]],
    with_draft: bool,
    rank: str | None,
) -> Comparison:
    """C(warm): answers from the device before; C(hit): from the host; C(again) asks for more from what was loaded."""
    known = {one.said for one in warm}
    if hit.said in known:
        return Comparison(True, Check(NAME, True, "same", "same", rank=rank))
    repeated = [hit, *again()]
    same = sum(one.said in known for one in repeated)
    values = {"asked": len(repeated), "same": same, "warm_texts": len(known)}
    if 2 * same > len(repeated):
        found = f"same in {same} of {len(repeated)}"
        return Comparison(True, Check(NAME, True, found, "same", rank=rank, values=values), (_varied(found),))
    why = _unsteady(cold, warm, repeated, with_draft) if not same else "it gave back the same text and others too"
    if why is not None:
        return Comparison(None, Check(NAME, None, "not to be told", "same", rank=rank, values=values), (_untold(why),))
    return Comparison(
        False,
        Check(
            NAME,
            False,
            "different",
            "same",
            "canary_text_differs",
            "The text from the host tier differs from the text from the device at temperature 0, in each of "
            f"{len(repeated)} answers: what comes back from host memory is not what was stored.",
            "Do not serve with this combination of io backend, layout and release; take another io backend or layout, "
            "or leave HiCache off, and report it.",
            rank,
            values,
        ),
    )


def _unsteady(
    cold: Generation, warm: Sequence[Generation], repeated: Sequence[Generation], with_draft: bool
) -> str | None:
    """Why different texts are no proof; None where they are."""
    if len({one.said for one in warm}) > 1:
        return "it answered the same prompt from the device in more than one way"
    if len({one.said for one in repeated}) == len(repeated):
        return "it answered differently each time after the hit as well"
    if any(one.said == cold.said for one in repeated):
        return "after the hit it answered as it did when the prompt was computed anew"
    if repeated[0].cached_tokens < warm[0].cached_tokens:
        return (
            f"only {repeated[0].cached_tokens} of {warm[0].cached_tokens} cached tokens came back, so that the rest "
            "was computed anew with other kernels"
        )
    if with_draft and all(_first(one) == _first(warm[0]) for one in repeated):
        return "the first token is the same, and what follows depends on how many drafted tokens are verified at once"
    return None


def _first(one: Generation) -> object:
    return one.output_ids[:1] or one.text[:1]


def _varied(found: str) -> Problem:
    return Problem(
        "text_varied",
        "info",
        f"The text after the hit was {found} answers, which is chance and not the host tier: batches and kernels "
        "change the last bits of logits.",
        "Nothing has to be done; enable_deterministic_inference makes such servers repeatable.",
    )


def _untold(why: str) -> Problem:
    return Problem(
        "text_unsteady",
        "warning",
        f"Whether the host tier gives back what was stored cannot be told from the texts of this server: {why}.",
        "Run it again when nothing else is served; enable_deterministic_inference makes texts comparable.",
    )
