# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.ports import Ports, port_problems, ports_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.port_versions import port_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import parse_version


def ports(version: str, port: int | None = 30000, dp: int = 1, **flags: Any) -> dict[str, tuple[int, int]]:
    found = ports_of(
        port_facts(parse_version(version)), port, None, dp, {k.replace("_", "-"): v for k, v in flags.items()}
    )
    return {one.name: (one.first, one.last) for one in found if one.fixed}


def test_a_plain_server_takes_one_port() -> None:
    assert ports("0.5.23") == {"http": (30000, 30000)}
    assert ports("0.5.23", None) == {"http": (30000, 30000)}


@pytest.mark.parametrize(
    ("version", "last"),
    [
        ("0.4.7", 30234 + 3 + 8),
        ("0.4.9", 30234 + 4 + 8),
        ("0.5.3", 30234 + 4 + 8),
        ("0.5.4", 30234 + 4),
        ("0.5.12", 30234 + 4),
        ("0.5.13", 30234 + 5),
        ("0.5.23", 30234 + 5),
    ],
)
def test_processes_talk_over_tcp_under_attention_dp(version: str, last: int) -> None:
    assert ports(version, dp=8) == {"http": (30000, 30000), "dist_init": (30233, 30233), "processes": (30234, last)}


def test_ports_above_the_last_are_refused_with_the_largest_that_works() -> None:
    with pytest.raises(Refusal) as refused:
        ports("0.5.9", 65300, dp=2)
    largest = refused.value.evidence["largest_port"]
    assert isinstance(largest, int)
    assert str(largest) in refused.value.remedy
    assert ports("0.5.9", largest, dp=2)["processes"][1] <= 65535
    with pytest.raises(Refusal):
        ports("0.5.9", largest + 1, dp=2)


@pytest.mark.parametrize(
    ("port", "dist_init", "processes"),
    [
        (65296, 65529, (65530, 65535)),
        (65297, 65530, (65523, 65528)),
        (65303, 65070, (65071, 65076)),
    ],
)
def test_newer_releases_count_down_where_counting_up_ends(
    port: int, dist_init: int, processes: tuple[int, int]
) -> None:
    assert ports("0.5.23", port, dp=2) == {
        "http": (port, port),
        "dist_init": (dist_init, dist_init),
        "processes": processes,
    }


@pytest.mark.parametrize(
    ("version", "first", "last"),
    [("0.5.8", 30100, 31000), ("0.5.9", 32768, 60999), ("0.5.22", 22000, 29999)],
)
def test_the_collectives_take_any_free_port_of_a_range(version: str, first: int, last: int) -> None:
    found = ports_of(port_facts(parse_version(version)), 30000, None, 1, {})
    assert [(one.first, one.last) for one in found if not one.fixed] == [(first, last)]


def test_a_port_that_is_given_to_them_is_theirs_alone() -> None:
    found = ports_of(port_facts(parse_version("0.5.23")), 30000, "10.0.0.1", 1, {"nccl-port": 30001})
    assert found == (Ports("http", 30000, 30000, "10.0.0.1"), Ports("nccl_port", 30001, 30001, "127.0.0.1"))


@pytest.mark.parametrize("flags", [{"grpc_port": 30000}, {"nccl_port": "30001", "gated_launch_port": 30001}])
def test_two_parts_of_one_server_on_one_port_are_refused(flags: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as refused:
        ports("0.5.23", **flags)
    assert refused.value.code == "ports_clash"


def test_a_flag_among_the_ports_of_the_processes_is_refused() -> None:
    with pytest.raises(Refusal) as refused:
        ports("0.5.23", dp=2, grpc_port=30236)
    assert "30234 to 30239" in str(refused.value)


@pytest.mark.parametrize("value", ["x", True, 0, 65536, -1])
def test_flags_that_are_no_ports_are_refused(value: Any) -> None:
    with pytest.raises(Refusal) as refused:
        ports("0.5.23", grpc_port=value)
    assert refused.value.code == "port_out_of_range"


@pytest.mark.parametrize(
    ("version", "port", "told"),
    [
        ("0.5.23", 30000, 0),
        ("0.5.23", 40000, 1),
        ("0.5.23", 29000, 1),
        ("0.5.9", 29000, 0),
    ],
)
def test_a_port_that_is_handed_out_to_others_is_told(version: str, port: int, told: int) -> None:
    facts = port_facts(parse_version(version))
    problems = port_problems(facts, ports_of(facts, port, None, 1, {}))
    assert [problem.code for problem in problems] == ["port_handed_out"] * told
