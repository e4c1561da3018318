# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.replica.arrange import (
    Member,
    pair_troubles,
    server_troubles,
    shares_of,
    troubles_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.flags import has_flag
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import parse_version


def member(number: int = 1, **said: Any) -> Member:
    return replace(Member(f"gpu-{number}", "main", "0.5.23", f"10.0.0.{number}", "ib0", 8, 16), **said)


PAIR = (member(1), member(2))


def test_two_nodes_with_the_ranks_of_one_model() -> None:
    assert troubles_of(PAIR, "kimi") == []
    first, second = shares_of(PAIR)
    assert first.arguments == {"nnodes": 2, "node-rank": 0, "dist-init-addr": "10.0.0.1:20000"}
    assert second.arguments == {**first.arguments, "node-rank": 1}
    assert (first.host, first.ranks) == ("gpu-1", 8)
    assert second.environment == {"NCCL_SOCKET_IFNAME": "ib0", "GLOO_SOCKET_IFNAME": "ib0"}


def test_an_address_of_ipv6_and_an_interface_that_is_not_known() -> None:
    [first, _second] = shares_of((member(1, address="fd00::1", interface=None), member(2)))
    assert first.arguments["dist-init-addr"] == "[fd00::1]:20000"
    assert first.environment == {}


def test_one_node_is_no_replica_of_several() -> None:
    alone = (member(1, tensor=8, address=None),)
    assert troubles_of(alone, "kimi") == []
    assert shares_of(alone)[0].arguments == {}


@pytest.mark.parametrize(
    ("second", "code", "variable", "words"),
    [
        ({"release": "0.5.22"}, "replica_differs", "sglang_version", "0.5.22, 0.5.23 in kimi"),
        ({"tensor": 8}, "replica_differs", "sglang_tensor_parallel_size", "16, 8 in kimi"),
        ({"meeting_port": 5000}, "replica_differs", "sglang_dist_init_port", "20000, 5000 in kimi"),
        ({"settings": {"model_path": "/srv/other"}}, "replica_differs", "sglang_model_path", "/srv/other, None"),
        ({"address": None}, "replica_without_address", "sglang_subnet", "no address of gpu-2"),
        ({"address": "10.0.0.1"}, "replica_member_twice", "sglang_replica", "10.0.0.1 twice"),
        ({"host": "gpu-1"}, "replica_member_twice", "sglang_replica", "2 instances of gpu-1"),
        ({"gpus": 4}, "replica_indivisible", "sglang_tensor_parallel_size", "8 ranks for the 4 GPUs of gpu-2"),
    ],
)
def test_members_that_are_no_replica(second: dict[str, Any], code: str, variable: str, words: str) -> None:
    [one] = troubles_of((member(1), member(2, **second)), "kimi")
    assert (one.code, one.variable) == (code, variable)
    assert words in one.found
    assert one.expected


@pytest.mark.parametrize(
    ("tensor", "pipeline", "nodes", "fits"),
    [
        (16, 1, 2, True),
        (8, 2, 2, True),
        (8, 4, 2, True),
        (16, 2, 4, True),
        (16, 1, 3, False),
        (8, 3, 2, False),
        (6, 2, 8, False),
    ],
)
def test_ranks_divide_over_nodes(tensor: int, pipeline: int, nodes: int, fits: bool) -> None:
    members = [member(number, tensor=tensor, pipeline=pipeline, gpus=None) for number in range(1, nodes + 1)]
    assert [one.code for one in troubles_of(members, "kimi")] == ([] if fits else ["replica_indivisible"])


def test_all_that_is_wrong_is_said() -> None:
    wrong = (member(1), member(2, release="0.5.22", address=None), member(3))
    assert {one.code for one in troubles_of(wrong, "kimi")} == {
        "replica_differs",
        "replica_without_address",
        "replica_indivisible",
    }


def test_prefill_and_decode() -> None:
    prefill = member(1, tensor=8, mode="prefill", backend="nixl", ib_device="mlx5_0")
    decode = member(2, tensor=8, mode="decode", backend="nixl")
    assert pair_troubles((prefill, decode), "kimi") == []
    assert shares_of((prefill,))[0].arguments == {
        "disaggregation-mode": "prefill",
        "disaggregation-bootstrap-port": 8998,
        "disaggregation-transfer-backend": "nixl",
        "disaggregation-ib-device": "mlx5_0",
    }
    assert shares_of((decode,))[0].arguments == {
        "disaggregation-mode": "decode",
        "disaggregation-transfer-backend": "nixl",
    }
    [one] = pair_troubles((prefill,), "kimi")
    assert (one.code, one.hosts) == ("disaggregation_alone", ("gpu-1",))
    [one] = pair_troubles((prefill, replace(decode, backend=None)), "kimi")
    assert (one.code, one.found) == ("disaggregation_impossible", "mooncake, nixl for servers of kimi")


@pytest.mark.parametrize(
    ("release", "mode", "backend", "right"),
    [
        ("0.5.23", "prefill", "mooncake_tcp", True),
        ("0.5.9", "prefill", "mooncake_tcp", False),
        ("0.5.23", "decode", "fake", True),
        ("0.5.23", "prefill", "fake", False),
        ("0.5.23", "null", "smoke", True),
        ("no release", "prefill", "smoke", True),
    ],
)
def test_backends_of_a_release(release: str, mode: str, backend: str, right: bool) -> None:
    told = server_troubles(member(1, release=release, mode=mode, backend=backend))
    assert [one.code for one in told] == ([] if right else ["disaggregation_impossible"])


def test_the_flags_are_those_of_the_releases() -> None:
    shares = shares_of([replace(one, mode="prefill", backend="nixl", ib_device="mlx5_0") for one in PAIR])
    flags = {flag for share in shares for flag in share.arguments}
    assert len(flags) == 7
    assert all(has_flag(flag, parse_version(release)) for flag in flags for release in ("0.5.9", "0.5.23"))
