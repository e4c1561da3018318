# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.rolling.order import (
    Batch,
    Limits,
    Node,
    Router,
    order,
    size_of,
)


def fleet(count: int, replica_of: int = 0) -> list[Node]:
    """C(replica_of): nodes in each replica, 0 for single ones."""
    return [
        Node(
            f"n{number}",
            ("r1",),
            frozenset({f"http://n{number}:1"}),
            f"replica-{number // replica_of}" if replica_of else None,
            1000,
            60.0,
        )
        for number in range(count)
    ]


def router(nodes: list[Node], minimum: int, out: tuple[str, ...] = ()) -> Router:
    return Router("r1", frozenset(url for node in nodes if node.name not in out for url in node.workers), minimum)


def shape(batches: Sequence[Batch]) -> list[tuple[str, int]]:
    return [(one.kind, len(one.nodes)) for one in batches]


def test_a_canary_then_batches_that_leave_enough_in_service() -> None:
    nodes = fleet(32)
    batches = order(nodes, [router(nodes, 28)], Limits("1", "25%"))
    assert shape(batches) == [("canary", 1), *[("batch", 4)] * 7, ("batch", 3)]
    assert [one.serving for one in batches] == [31, *[28] * 7, 29]
    assert batches[1].tokens_left == pytest.approx(28 / 32)


def test_who_is_out_comes_first_since_that_takes_nothing_away() -> None:
    nodes = fleet(4)
    batches = order(nodes, [router(nodes, 2, out=("n2",))], Limits("1", "2"))
    assert [(one.kind, one.nodes) for one in batches] == [
        ("out of service", ("n2",)),
        ("canary", ("n0",)),
        ("batch", ("n1", "n3")),
    ]
    # While it is changed the others serve; after that it does as well.
    assert [one.serving for one in batches] == [3, 3, 2]


def test_members_of_a_replica_are_never_parted() -> None:
    nodes = fleet(8, replica_of=2)
    batches = order(nodes, [router(nodes, 4)], Limits("1", "3"))
    assert [one.nodes for one in batches] == [("n0", "n1"), ("n2", "n3"), ("n4", "n5"), ("n6", "n7")]


def test_a_replica_that_no_router_can_let_go_is_refused() -> None:
    nodes = fleet(8, replica_of=4)
    with pytest.raises(Refusal) as refused:
        order(nodes, [router(nodes, 6)], Limits())
    assert refused.value.code == "replica_too_large"
    assert "Replica replica-0 has 4 nodes; at most 2 can leave the routers at a time." in str(refused.value)


def test_a_router_that_needs_everybody_lets_nobody_go() -> None:
    nodes = fleet(3)
    with pytest.raises(Refusal) as refused:
        order(nodes, [router(nodes, 3)], Limits())
    assert "r1 has 3 in service, and 3 have to stay" in str(refused.value)


def test_a_fleet_that_is_out_whole_can_be_changed_whatever_has_to_stay() -> None:
    nodes = fleet(3)
    assert shape(order(nodes, [Router("r1", frozenset(), 3)], Limits("1", "100%"))) == [("out of service", 3)]


def test_one_that_is_out_comes_back_before_another_that_has_to_stay_leaves() -> None:
    nodes = fleet(3)
    batches = order(nodes, [router(nodes, 2, out=("n1",))], Limits("1", "100%"))
    assert [one.nodes for one in batches] == [("n1",), ("n0",), ("n2",)]
    assert [one.serving for one in batches] == [2, 2, 2]
    held = Router("r1", frozenset({"http://n0:1", "http://n2:1"}), 2, held=frozenset({"http://n1:1"}))
    with pytest.raises(Refusal, match="No node can leave"):
        order(nodes, [held], Limits())


def test_the_strictest_router_decides() -> None:
    nodes = [Node(node.name, ("r1", "r2"), node.workers) for node in fleet(10)]
    strict = Router("r2", router(nodes, 0).in_service, 9)
    assert max(len(one.nodes) for one in order(nodes, [router(nodes, 2), strict], Limits("2", "50%"))) == 1


def test_a_node_with_two_workers_takes_both_with_it() -> None:
    nodes = [Node(f"n{n}", ("r1",), frozenset({f"http://n{n}:1", f"http://n{n}:2"})) for n in range(4)]
    batches = order(nodes, [router(nodes, 4)], Limits("1", "100%"))
    assert [len(one.nodes) for one in batches] == [1, 2, 1]


def test_without_routers_batches_are_as_asked_for() -> None:
    nodes = [Node(f"n{n}") for n in range(5)]
    batches = order(nodes, [], Limits("2", "50%"))
    assert shape(batches) == [("canary", 2), ("batch", 2), ("batch", 1)]
    assert batches[0].tokens_left is None


@pytest.mark.parametrize(("text", "size"), [("1", 1), ("25%", 8), ("1%", 1), ("100%", 32), (" 3 ", 3)])
def test_sizes_are_numbers_or_shares(text: str, size: int) -> None:
    assert size_of(text, 32) == size


@pytest.mark.parametrize("text", ["0", "-1", "", "%", "101%", "half", "2.5"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(Refusal) as refused:
        size_of(text, 32)
    assert refused.value.code == "batch_malformed"


@pytest.mark.parametrize("seed", range(200))
def test_whatever_the_fleet_everybody_comes_once_and_enough_serve(seed: int) -> None:
    dice = random.Random(seed)
    nodes = fleet(dice.randint(1, 60), replica_of=dice.choice([0, 0, 1, 2, 3]))
    out = tuple(node.name for node in nodes if dice.random() < 0.1)
    minimum = dice.randint(0, len(nodes))
    limits = Limits(str(dice.randint(1, 3)), dice.choice(["1", "4", "10%", "50%", "100%"]))
    try:
        batches = order(nodes, [router(nodes, minimum, out)], limits)
    except Refusal:
        return
    names = [name for one in batches for name in one.nodes]
    assert sorted(names) == sorted(node.name for node in nodes)
    serving = {node.name for node in nodes if node.name not in out}
    for batch in batches:
        left = serving - set(batch.nodes)
        assert len(left) >= min(minimum, len(serving))
        assert batch.serving == len(left)
        serving |= set(batch.nodes)
