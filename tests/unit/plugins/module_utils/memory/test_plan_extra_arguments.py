# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Whatever a flag is called when it is asked for, every part of a plan reads it as the server is given it."""

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import TINY, founding, planned

# Of an old and a new name, the one that the release does not have or does not read from a file.
RENAMED = [
    ("0.5.23", "cuda_graph_max_bs", "cuda-graph-max-bs-decode", 8),
    ("0.5.9", "cuda-graph-max-bs-decode", "cuda-graph-max-bs", 8),
    ("0.5.23", "--piecewise-cuda-graph-max-tokens", "cuda-graph-max-bs-prefill", 512),
]


def with_flags(release: str, flags: dict[str, Any]) -> dict[str, Any]:
    """A small model whose fraction is left to the release."""
    arguments = founding(
        sglang_version=release,
        server={"extra_arguments": flags, "mem_fraction_static": None, "tensor_parallel_size": 2},
        hicache={"enabled": False},
    )
    return planned({**arguments, "model": TINY, "observed": {}})


@pytest.mark.parametrize(("release", "asked", "given", "value"), RENAMED)
def test_a_renamed_flag_counts_as_the_one_that_is_given(release: str, asked: str, given: str, value: int) -> None:
    by_old, by_new, without = (with_flags(release, flags) for flags in ({asked: value}, {given: value}, {}))
    assert by_old["arguments"] == by_new["arguments"]
    assert by_old["arguments"][given] == value
    assert by_old["device"] == by_new["device"] != without["device"]
    assert [item["code"] for item in by_old["warnings"]].count("extra_argument_translated") == 1


def test_a_switch_that_became_values_counts_as_these() -> None:
    found, without = with_flags("0.5.23", {"disable-cuda-graph": True}), with_flags("0.5.23", {})
    assert "disable-cuda-graph" not in found["arguments"]
    assert found["arguments"]["cuda-graph-backend-decode"] == "disabled"
    assert found["device"]["mem_fraction_static"] > without["device"]["mem_fraction_static"]
    values = {"cuda-graph-backend-decode": "disabled", "cuda-graph-backend-prefill": "disabled"}
    assert found["device"] == with_flags("0.5.23", values)["device"]


@pytest.mark.parametrize("asked", ["enable-gdn-replayssm-spec", "enable-linear-replayssm-spec"])
def test_a_flag_with_pools_of_its_own_is_refused_by_either_name(asked: str) -> None:
    with pytest.raises(Refusal) as refusal:
        with_flags("0.5.23", {asked: True})
    assert refusal.value.code == "extra_argument_unplanned"


def test_a_port_is_a_port_however_its_flag_is_spelt() -> None:
    for asked in ("nccl-port", "nccl_port", "--nccl-port"):
        found = with_flags("0.5.23", {asked: 31_234})
        assert found["unit"]["ports"]["nccl_port"]["first"] == 31_234
        assert found["arguments"]["nccl-port"] == 31_234
