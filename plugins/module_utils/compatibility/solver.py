# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which candidates hold together, and, where none does, the smallest set of constraints that cannot hold together.

There are few constraints and few candidates. So each constraint is written as one number whose bits are the candidates
that satisfy it, and sets of constraints are tried by size: the first whose numbers have no bit in common is smallest,
and leaving any one of it out makes the others hold.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.choices import Candidate


@dataclass(frozen=True)
class Constraint:
    """C(key) tells constraints apart; C(holds) of a candidate.

    C(says) puts it into words, for the candidates that the rest of a conflict leaves. C(source) is where it is from.
    C(asked): it is a wish, which whoever has it can let go of.
    """

    key: str
    holds: Callable[[Candidate], bool]
    says: Callable[[Sequence[Candidate]], str]
    source: str
    asked: bool = False


def satisfying(constraint: Constraint, candidates: Sequence[Candidate]) -> int:
    """As a number: bit n is set where candidate n satisfies the constraint."""
    bits = "".join("1" if constraint.holds(candidate) else "0" for candidate in reversed(candidates))
    return int(bits or "0", 2)


def in_common(masks: Iterable[int], count: int) -> int:
    """Which of so many candidates satisfy all of these."""
    common = (1 << count) - 1
    for mask in masks:
        common &= mask
    return common


def chosen_by(common: int, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates whose bits are set, in their order, which is best first."""
    bits = f"{common:b}"[::-1]
    return [candidate for bit, candidate in zip(bits, candidates) if bit == "1"]


def smallest_conflict(masks: Sequence[int], count: int) -> tuple[int, ...]:
    """The constraints of it by their places; empty where all hold together. Of several, the one that comes first."""
    if in_common(masks, count):
        return ()
    sizes = range(1, len(masks) + 1)
    sets = (chosen for size in sizes for chosen in itertools.combinations(range(len(masks)), size))
    return next(chosen for chosen in sets if not in_common((masks[place] for place in chosen), count))
