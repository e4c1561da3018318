# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A plan that reads its own ledger comes to rest: a goal chooses, and then keeps what it has chosen."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import GIB, planned
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.ledgers import Truth, asked, started

AUTO = {"tensor_parallel_size": 8, "mem_fraction_static": None, "mem_fraction_auto": True}
HINTS: dict[str, Any] = {"server": AUTO, "hicache": {"ratio": None, "auto": True}}
CENTI_GIB = GIB // 100


def fractions(first: dict[str, Any], truths: list[Truth]) -> list[float]:
    """What is planned, started and planned again, each start and each look with its own noise."""
    found = [first["device"]["mem_fraction_static"]]
    plan, ledger = first, started(first, truths[0])
    for truth in truths:
        again = planned(asked(ledger, truth, **HINTS))
        found.append(again["device"]["mem_fraction_static"])
        if again["arguments"] != plan["arguments"]:
            # It differs, so it is restarted; else what runs goes on.
            ledger = started(again, truth)
            plan = again
    return found


@settings(max_examples=25, deadline=None)
@given(
    load=st.integers(0, 5 * GIB),
    graphs=st.integers(GIB // 2, 4 * GIB),
    noise=st.lists(st.integers(-CENTI_GIB, CENTI_GIB), min_size=6, max_size=8),
)
def test_a_fraction_that_is_chosen_by_itself_comes_to_rest(load: int, graphs: int, noise: list[int]) -> None:
    truths = [Truth(load=load, graphs=graphs, noise=one) for one in noise]
    found = fractions(planned(asked(**HINTS)), truths)
    # One change follows the first measurement; nothing moves after that, whatever the noise.
    assert len(set(found[1:])) == 1, found


@settings(max_examples=25, deadline=None)
@given(loads=st.lists(st.integers(0, 5 * GIB), min_size=6, max_size=8))
def test_load_that_comes_and_goes_lowers_and_never_oscillates(loads: list[int]) -> None:
    found = fractions(planned(asked(**HINTS)), [Truth(load=load) for load in loads])
    after = found[1:]
    assert after == sorted(after, reverse=True), found


def test_idle_memory_is_handed_over_once() -> None:
    found = fractions(planned(asked(**HINTS)), [Truth()] * 3)
    assert found[1] > found[0]
    assert found[1] == found[2] == found[3]


def test_a_gain_below_the_threshold_changes_nothing() -> None:
    first = planned(asked(**HINTS))
    at_end = started(first, Truth())["startup"]["figures"]["available_at_end_bytes"]
    # Two thousandths more than the margin would fit.
    truth = Truth(load=at_end - 2 * GIB - 20 * CENTI_GIB)
    ledger = started(first, truth)
    arguments = asked(ledger, truth, **HINTS)
    kept, raised = planned({**arguments, "change_threshold": 0.1}), planned({**arguments, "change_threshold": 0.001})
    assert kept["arguments"]["mem-fraction-static"] == first["arguments"]["mem-fraction-static"]
    assert raised["arguments"]["mem-fraction-static"] > first["arguments"]["mem-fraction-static"]
    assert any("is in force and stays" in line and "10 %" in line for line in kept["explanation"])


def test_a_fraction_that_leaves_too_little_is_lowered_at_once() -> None:
    first = planned(asked(**HINTS))
    second = planned(asked(started(first, Truth()), Truth(), **HINTS))
    ledger = started(second, Truth())
    # Barely short by more than what the figures are known to, and far below any threshold.
    more = Truth(load=Truth().load + GIB // 5)
    lowered = planned({**asked(ledger, more, **HINTS), "change_threshold": 0.99})
    assert lowered["device"]["mem_fraction_static"] < second["device"]["mem_fraction_static"]
    assert lowered["device"]["headroom_bytes"] >= 2 * GIB
