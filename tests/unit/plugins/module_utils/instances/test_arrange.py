# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.instances.arrange import (
    Claim,
    Wish,
    arrange_ports,
    claim_of,
    clashes,
    seated,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import machine_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.instances import Instance
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

MACHINE = machine_facts(
    {
        "gpus": [{"index": index, "numa_node": index // 4} for index in range(8)],
        "numa_nodes": [{"id": 0}, {"id": 1}],
        "host": {},
    }
)


def wish(name: str, port: int | None = None, **said: Any) -> Wish:
    return Wish(name, "0.5.23", port, **said)


def kept(
    name: str, port: int, last: int | None = None, gpus: tuple[int, ...] = (), address: str = "127.0.0.1"
) -> Claim:
    ports = {"http": {"first": port, "last": last or port, "address": address}}
    return claim_of(name, {"gpus": list(gpus), "ports": ports})


def test_ports_that_are_stated_stay_and_the_others_go_around_them() -> None:
    assert arrange_ports([wish("a"), wish("b", 30000), wish("c")], []) == {"a": 30010, "b": 30000, "c": 30020}


def test_a_second_run_keeps_what_the_first_chose_whatever_the_order() -> None:
    first = arrange_ports([wish("a"), wish("b")], [])
    reserved = [kept(name, port) for name, port in first.items()]
    assert arrange_ports([wish("c"), wish("b"), wish("a")], reserved) == {**first, "c": 30020}


def test_a_port_that_another_one_states_is_given_up() -> None:
    assert arrange_ports([wish("a"), wish("b", 30000)], [kept("a", 30000)]) == {"a": 30010, "b": 30000}


def test_what_is_kept_for_an_instance_that_no_list_names_stays_its_own() -> None:
    assert arrange_ports([wish("a")], [kept("gone", 30000)]) == {"a": 30010}


def test_what_somebody_listens_on_is_passed_over_when_choosing() -> None:
    assert arrange_ports([wish("a")], [], [30000]) == {"a": 30010}


def test_further_ports_of_a_server_are_counted() -> None:
    # Attention DP takes port + 233 and those behind it.
    many = wish("many", 30000, attention_dp=4)
    assert [ports.first for ports in many.ports(30000)] == [30000, 30233, 30234]
    assert arrange_ports([wish("many", attention_dp=4)], [kept("gone", 30000, 30229)]) == {"many": 30230}
    found = arrange_ports([many, wish("b")], [kept("gone", 30010, 30225)])
    assert found == {"many": 30000, "b": 30230}


def test_no_port_left_is_refused() -> None:
    with pytest.raises(Refusal) as refused:
        arrange_ports([wish("a")], [kept("all", 1, 65535, address="0.0.0.0")])
    assert refused.value.code == "ports_exhausted"


def test_gpus_that_are_left_open_are_chosen_for_all_together() -> None:
    found = seated([Instance("a", 4), Instance("b", 4)], [], MACHINE)
    assert sorted(found["a"] + found["b"]) == list(range(8))
    assert {gpu // 4 for gpu in found["a"]} != {gpu // 4 for gpu in found["b"]}


def test_gpus_are_kept_from_run_to_run() -> None:
    reserved = [kept("b", 30010, gpus=(0, 1, 2, 3))]
    assert seated([Instance("a", 4), Instance("b", 4)], reserved, MACHINE) == {"a": [4, 5, 6, 7], "b": [0, 1, 2, 3]}


@pytest.mark.parametrize("ranks", [2, 4])
def test_what_is_kept_gives_way_to_what_is_named_or_has_another_size(ranks: int) -> None:
    reserved = [kept("b", 30010, gpus=(0, 1, 2, 3))]
    found = seated([Instance("a", 4, (0, 1, 2, 3)), Instance("b", ranks)], reserved, MACHINE)
    assert found["a"] == [0, 1, 2, 3]
    assert len(found["b"]) == ranks
    assert set(found["b"]) <= {4, 5, 6, 7}


def test_gpus_of_an_instance_that_no_list_names_stay_its_own() -> None:
    found = seated([Instance("a", 4)], [kept("gone", 1, gpus=(0, 1, 2, 3))], MACHINE)
    assert found == {"a": [4, 5, 6, 7]}
    with pytest.raises(Refusal) as refused:
        seated([Instance("a", 5)], [kept("gone", 1, gpus=(0, 1, 2, 3))], MACHINE)
    assert refused.value.code == "gpus_too_few"


def test_clashes_are_said_with_both_names() -> None:
    said = clashes([kept("a", 30000, gpus=(0, 1)), kept("b", 30000, gpus=(1, 2)), kept("c", 30010, gpus=(3,))])
    assert len(said) == 2
    assert "a and b both take GPU 1" in said[0]
    assert "a (http, 30000)" in said[1]


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [("127.0.0.1", "127.0.0.2", False), ("127.0.0.1", "0.0.0.0", True), ("::", "127.0.0.1", True)],
)
def test_ports_of_other_addresses_are_others(one: str, other: str, clash: bool) -> None:
    assert bool(clashes([kept("a", 30000, address=one), kept("b", 30000, address=other)])) is clash
