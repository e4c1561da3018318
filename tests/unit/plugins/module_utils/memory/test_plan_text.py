# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.change import change_lines
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.summary import summary_lines
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import (
    founding,
    planned,
    rehearsal,
)


def test_summary_of_the_founding_case_says_what_matters() -> None:
    text = "\n".join(summary_lines(planned(founding())))
    for expected in (
        "2 NUMA nodes; 396 GB of host memory available",
        "70,272 bytes a token",
        "159,277 tokens and 10.42 GiB of KV cache a GPU",
        "ratio 4.0 = 637,109 tokens and 44.77 GB a rank, 358.17 GB in all, of which 44.77 GB unique",
        "368.9 GB must be available in truth",
        "asks for 55.5 GB",
        "38 GB of 396 GB left",
        "mem_fraction_static 0.927 instead of 0.88",
        "margin of 2.00 GiB",
        "then ratio 3.0 is the largest that fits, not 4.0",
        "The 2 NUMA nodes have equal memory",
    ):
        assert expected in text


def test_summary_on_a_cpu_speaks_of_ranks_and_not_of_fractions() -> None:
    text = "\n".join(summary_lines(planned(rehearsal())))
    assert "2,048 bytes a token and rank" in text
    assert "mem_fraction_static" not in text
    assert "node 0: 1.07 GB pinned by ranks 0, 1" in text


def test_summary_says_how_ranks_are_bound_where_there_is_a_choice_of_nodes() -> None:
    strict = "\n".join(summary_lines(planned(founding(sglang_version="0.5.23", hicache={"ratio": 2.0}))))
    assert "ranks are bound strictly to their node" in strict
    alone = founding(sglang_version="0.5.23", hicache={"ratio": 2.0})
    alone["topology"]["numa_nodes"] = [{"id": 0}]
    for gpu in alone["topology"]["gpus"]:
        gpu["numa_node"] = 0
    text = "\n".join(summary_lines(planned(alone)))
    assert "node 0: 179.08 GB pinned" in text
    assert "bound" not in text


def test_summary_without_hicache_and_with_auto_sizing() -> None:
    assert any("HiCache is off" in line for line in summary_lines(planned(rehearsal(hicache={"enabled": False}))))
    auto = planned(rehearsal(hicache={"ratio": None}))
    assert any("host memory fraction 0.8, ratio 2.000" in line for line in summary_lines(auto))


def test_change_of_the_ratio_in_tokens_bytes_per_node_and_seconds() -> None:
    before, after = planned(founding()), planned(founding(hicache={"ratio": 3.0}))
    assert change_lines(before, after) == [
        "HiCache: ratio 4.0 -> ratio 3.0",
        "host tokens a rank: 637,109 -> 477,832 (-159,277)",
        "host memory pinned: 358.17 GB -> 268.63 GB (-89.54 GB)",
        "pinned on NUMA node 0: 179.08 GB -> 134.31 GB (-44.77 GB)",
        "pinned on NUMA node 1: 179.08 GB -> 134.31 GB (-44.77 GB)",
        "pinning takes: 88.8 s -> 66.6 s (-22.2 s)",
        "--hicache-ratio: 4.0 -> 3.0",
        "until it serves again: about 12 min 14 s",
    ]


def test_same_plan_means_no_change() -> None:
    assert change_lines(planned(founding()), planned(founding())) == []


def test_first_start_is_told_without_a_before() -> None:
    lines = change_lines(None, planned(founding()))
    assert "device tokens: 159,277" in lines
    assert "host memory pinned: 358.17 GB" in lines
    assert not [line for line in lines if "->" in line or line.startswith("--")]


def test_hicache_switched_off_and_flags_new_and_dropped() -> None:
    before = planned(rehearsal(server={"extra_arguments": {"schedule-policy": "lpm"}}))
    after = planned(rehearsal(hicache={"enabled": False}, server={"extra_arguments": {"log-level": "debug"}}))
    lines = change_lines(before, after)
    assert "HiCache: ratio 4.0 -> off" in lines
    assert "host memory pinned: 1.07 GB -> 0.00 GB (-1.07 GB)" in lines
    assert "--log-level: debug (new)" in lines
    assert "--schedule-policy: lpm (dropped)" in lines


def test_plan_of_an_older_collection_is_compared_as_far_as_it_goes() -> None:
    assert "host tokens a rank: 637,109" in change_lines({"sglang_version": "0.5.9"}, planned(founding()))
