# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fleet that is changed while clients use it: the real router, real hosts, servers of the stand-in release."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.tests.integration.plays import Outcome
from ansible_collections.gpufleet.sglang.tests.integration.routed_fleet import Fleet, make_fleet, steady_load, until
from ansible_collections.gpufleet.sglang.tests.integration.scripted_release import scenario

ROLL = "gpufleet.sglang.rolling_update"
SLOW = {"http": {"request_seconds": 0.3}}
# The start ends with it, in a second.
BROKEN = {"faults": [{"before": "load", "do": [{"say": "FileNotFoundError: /nowhere/logging.json"}, {"exit": 1}]}]}


@pytest.fixture(scope="module", name="fleet")
def _fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = make_fleet(tmp_path_factory.mktemp("fleet"), workers=3, minimum=2, first=180)
    fleet.up()
    for node in fleet.workers:
        scenario(node, "slow", SLOW)
    yield fleet
    fleet.down()


def declare(fleet: Fleet, round_: int, **of_hosts: dict[str, Any]) -> None:
    """A change of all, and what is particular to one."""
    fleet.settings["sglang_environment"] = {"REHEARSAL_SCENARIO": "/srv/slow.json", "ROUND": str(round_)}
    fleet.write({name.replace("_", "-"): values for name, values in of_hosts.items()})


def invocations(fleet: Fleet) -> list[str]:
    return [node.run("systemctl show -P InvocationID sglang-main.service") for node in fleet.workers]


@pytest.fixture(scope="module", name="served")
def _served(fleet: Fleet) -> Outcome:
    """The routers before there is anything to route to, then the servers, which join by themselves."""
    declare(fleet, 1)
    routed = fleet.play("gpufleet.sglang.routers")
    assert routed.status == 0, routed.output
    served = fleet.play("gpufleet.sglang.site")
    assert served.status == 0, served.output
    return served


def test_servers_join_the_router_once_they_are_proven(fleet: Fleet, served: Outcome) -> None:
    assert fleet.in_service() == 3
    assert set(fleet.members().values()) == {None}
    with steady_load(fleet) as seen:
        assert until(lambda: seen.answered > 5)
    assert not seen.lost


def test_what_is_as_declared_is_left_alone(fleet: Fleet, served: Outcome) -> None:
    before = invocations(fleet)
    routed = fleet.play("gpufleet.sglang.routers")
    assert (routed.status, routed.changed) == (0, 0), routed.output
    rolled = fleet.play(ROLL)
    assert (rolled.status, rolled.changed) == (0, 0), rolled.output
    assert invocations(fleet) == before


def test_a_dry_run_tells_the_order_and_touches_nothing(fleet: Fleet, served: Outcome) -> None:
    declare(fleet, 2)
    before = invocations(fleet)
    told = fleet.play(ROLL, "-e", "rolling_dry_run=true")
    assert (told.status, told.changed) == (0, 0), told.output
    assert "1. canary: gpufleet-routed-1; 2 of 3 nodes serve meanwhile, 66.7 % of the cached tokens" in told.output
    assert "3. batch: gpufleet-routed-3; 2 of 3 nodes serve meanwhile" in told.output
    assert "router gpufleet-routed-router-0: 3 in service, at least 2 at any moment" in told.output
    assert invocations(fleet) == before


def test_a_change_of_all_at_once_is_refused_by_the_router(fleet: Fleet, served: Outcome) -> None:
    """The site playbook knows no batches; whoever comes second is told so, and goes on serving."""
    declare(fleet, 2)
    with steady_load(fleet) as seen:
        played = fleet.play("gpufleet.sglang.site", "-e", "sglang_leave_timeout_seconds=1")
    assert played.status != 0
    said = " ".join(played.output.split())
    assert "where 2 have to stay in service" in said
    assert "Nothing was stopped." in said
    assert not seen.lost
    assert seen.fewest == 2


def test_a_roll_loses_nothing_though_controller_and_router_die(fleet: Fleet, served: Outcome) -> None:
    declare(fleet, 3)
    with steady_load(fleet) as seen:
        play = fleet.begin(ROLL)
        play.read_until(r"\[gpufleet.sglang.sglang : Stop the instance\]")
        play.kill()
        # Who was taken out stays out over a restart of the router.
        fleet.routers[0].run("systemctl restart sglang-router")
        assert until(lambda: fleet.in_service() == 2)
        assert sorted(fleet.members().values(), key=str) == [None, None, "gpufleet"]
        rolled = fleet.play(ROLL)
    assert rolled.status == 0, rolled.output
    assert "3 of 3 nodes are as declared and in service" in rolled.output
    assert not seen.lost
    assert fleet.in_service() == 3
    assert all('ROUND="3"' in node.run("cat /etc/sglang/main.env") for node in fleet.workers)


def test_a_node_that_fails_stays_out_and_the_rest_serves(fleet: Fleet, served: Outcome) -> None:
    scenario(fleet.workers[1], "broken", BROKEN)
    broken = {"REHEARSAL_SCENARIO": "/srv/broken.json"}
    declare(fleet, 4, gpufleet_routed_2={"sglang_environment": broken})
    third = invocations(fleet)[2]
    with steady_load(fleet) as seen:
        rolled = fleet.play(ROLL)
        assert rolled.status != 0
        assert "failed, out of service: gpufleet-routed-2: " in rolled.output
        assert "not begun, or lost on the way: gpufleet-routed-3" in rolled.output
        assert invocations(fleet)[2] == third
        assert fleet.members()[fleet.worker_url(fleet.workers[1])] == "gpufleet"
        assert fleet.in_service() == 2

        # Mended: who is out comes first, as that takes nothing away.
        declare(fleet, 4)
        mended = fleet.play(ROLL)
    assert mended.status == 0, mended.output
    assert "1. out of service: gpufleet-routed-2; 2 of 3 nodes serve meanwhile" in mended.output
    assert not seen.lost
    assert seen.fewest == 2
    assert fleet.in_service() == 3


def test_a_node_that_cannot_be_reached_counts_as_failed(fleet: Fleet, served: Outcome) -> None:
    declare(fleet, 4)
    fleet.write(others=["10.213.77.189"])
    before = invocations(fleet)
    stopped = fleet.play(ROLL)
    assert stopped.status != 0
    assert "0 of 4 nodes are as declared and in service" in stopped.output
    # With one allowed to fail the others are looked at, and are as declared.
    rolled = fleet.play(ROLL, "-e", "rolling_failures=1")
    assert rolled.status != 0
    assert "3 of 4 nodes are as declared and in service" in rolled.output
    assert "not begun, or lost on the way: gpufleet-gone-0" in rolled.output
    assert invocations(fleet) == before
