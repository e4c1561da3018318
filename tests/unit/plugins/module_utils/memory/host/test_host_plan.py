# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.guard import PASSES
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host import Pool, Sizing
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_allocation import resolve_allocation
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_room import (
    HostRoom,
    RankPools,
    guard_need_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import HiCacheRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_config import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import version_facts
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.attentions import GPT_OSS
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import (
    GIB,
    KIMI,
    changed,
    founding,
    planned,
)

GB = 10**9
MIB2 = 2 << 20
WINDOWED: dict[str, Any] = {
    "name": "gpt-oss-120b",
    "architecture": "GptOssForCausalLM",
    "dtype": "bfloat16",
    "attention": attention_from_config(GPT_OSS).as_dict(),
    "weights": {"total_bytes": 65 * GB},
}
# The same rows as the founding case, of a class that older releases serve.
DEEPSEEK: dict[str, Any] = {**KIMI, "architecture": "DeepseekV3ForCausalLM"}


def refusal_of(arguments: dict[str, Any]) -> Refusal:
    with pytest.raises(Refusal) as refusal:
        planned(arguments)
    return refusal.value


def codes(plan: dict[str, Any]) -> list[str]:
    return [item["code"] for item in plan["warnings"]]


def huge(*pages: Sequence[int], size: int = MIB2) -> list[dict[str, Any]]:
    """NUMA nodes with (total, free) huge pages each."""
    return [
        {"id": node, "hugepages": [{"size_bytes": size, "total": total, "free": free}]}
        for node, (total, free) in enumerate(pages)
    ]


def with_nodes(arguments: dict[str, Any], nodes: list[dict[str, Any]], available: int | None = None) -> dict[str, Any]:
    arguments["topology"]["numa_nodes"] = nodes
    if available is not None:
        arguments["topology"]["host"]["memory_available_bytes"] = available
    return arguments


class TestPowersOfTwo:
    """To 0.5.4 torch pins 64 GiB for a pool of 44.77 GB."""

    def test_what_is_pinned_is_more_than_what_is_asked_for(self) -> None:
        enough = founding(sglang_version="0.5.4", model=DEEPSEEK)
        enough["topology"]["host"]["memory_available_bytes"] = 600 * GB
        host = planned(enough)["host"]
        assert host["pools"][0]["pinned_bytes"] == 64 * GIB
        assert host["pinned_bytes_total"] == 8 * 64 * GIB
        assert host["required_available_bytes"] == 8 * 64 * GIB + 10 * GIB
        assert host["left_bytes"] == 600 * GB - 8 * 64 * GIB
        assert sum(node["pinned_bytes"] for node in host["numa"]) == 8 * 64 * GIB

    def test_a_pool_that_fits_before_rounding_is_refused(self) -> None:
        refusal = refusal_of(founding(sglang_version="0.5.4", model=DEEPSEEK))
        assert refusal.code == "host_memory_short"
        # 32 GiB a rank is the largest power of two that eight ranks can have of 396 GB.
        largest: Any = refusal.evidence["largest_ratio"]
        fits = planned(founding(sglang_version="0.5.4", model=DEEPSEEK, hicache={"ratio": largest}))["host"]
        assert fits["pools"][0]["pinned_bytes"] == 32 * GIB
        more = founding(sglang_version="0.5.4", model=DEEPSEEK, hicache={"ratio": round(largest + 0.01, 2)})
        assert refusal_of(more).code == "host_memory_short"

    @pytest.mark.parametrize(
        ("release", "said"),
        [
            (
                "0.5.4",
                "the host allows 34.36 GB a rank: (396.00 GB available - 10.74 GB reserve) for 549.76 GB of 8 ranks.",
            ),
            ("0.5.5", "the host allows 48.16 GB a rank: (396.00 GB available - 10.74 GB reserve) / 8 ranks."),
        ],
    )
    def test_the_limit_of_a_rank_is_the_largest_power_that_all_can_have(self, release: str, said: str) -> None:
        asked = founding(sglang_version=release, model=DEEPSEEK, hicache={"ratio": 5.0 if release > "0.5.4" else 4.0})
        assert said in refusal_of(asked).message

    def test_time_and_locked_memory_are_those_of_what_is_pinned(self) -> None:
        plan = planned(founding(sglang_version="0.5.4", model=DEEPSEEK, allow_oversubscription=True))
        assert plan["host"]["pinned_bytes_total"] == 8 * 64 * GIB > plan["host"]["bytes_total"]
        assert plan["unit"]["limit_memlock_bytes"] == 64 * GIB + GIB
        pinning = plan["host"]["pinned_bytes_total"] / plan["timing"]["pin_bytes_per_second"]
        assert plan["timing"]["pin_seconds"] == pytest.approx(pinning, abs=0.1)

    def test_the_servers_check_counts_powers_of_two_in_its_limit(self) -> None:
        host = planned(with_nodes(founding(sglang_version="0.5.4", model=DEEPSEEK), [{"id": 0}, {"id": 1}], 600 * GB))
        limit = next(limit for limit in host["host"]["limits"] if limit["name"].startswith("guard"))
        assert limit["bytes_per_rank"] == 64 * GIB
        assert "what the check counts when the worst pool comes last" in limit["explanation"]


class TestMissing:
    """What is said to be missing is enough where it becomes available."""

    def test_a_node_that_was_not_measured_has_its_share_of_what_becomes_available(self) -> None:
        asked = founding(sglang_version="0.5.23", hicache={"ratio": 2.2})
        for gpu in asked["topology"]["gpus"]:
            gpu["numa_node"] = 0
        refusal = refusal_of(asked)
        missing: Any = refusal.evidence["missing_bytes"]
        short: Any = refusal.evidence["nodes"]
        assert refusal.code == "numa_node_short"
        assert missing == 2 * (short[0]["needed_bytes"] - short[0]["available_bytes"] + 1)
        asked["topology"]["host"]["memory_available_bytes"] += missing
        assert planned(asked)["host"]["numa"][0]["ranks"] == list(range(8))

    def test_nodes_that_were_measured_lack_it_together(self) -> None:
        nodes = [{"id": 0, "memory_available_bytes": 60 * GB}, {"id": 1, "memory_available_bytes": 70 * GB}]
        asked = founding(sglang_version="0.5.23", hicache={"ratio": 2.0})
        refusal = refusal_of(with_nodes(asked, nodes, 700 * GB))
        short: Any = refusal.evidence["nodes"]
        lacking = [node["needed_bytes"] - node["available_bytes"] for node in short]
        assert len(lacking) == 2 and refusal.evidence["missing_bytes"] == sum(lacking)
        for node, size in zip(nodes, lacking):
            node["memory_available_bytes"] += size
        assert planned(with_nodes(asked, nodes))["host"]["largest_ratio"] == 2.0

    def test_one_node_has_all_of_the_memory(self) -> None:
        asked = founding(topology={"numa_nodes": [{"id": 0}]}, hicache={"ratio": 2.0})
        for gpu in asked["topology"]["gpus"]:
            gpu["numa_node"] = 0
        found = planned(asked)
        assert "The available memory is all on the one NUMA node." in found["assumptions"]
        assert [node["available_bytes"] for node in found["host"]["numa"]] == [396 * GB]


class TestControlGroups:
    @pytest.mark.parametrize(("release", "sees"), [("0.5.9", False), ("0.5.20", False), ("0.5.21", True)])
    def test_the_servers_check_looks_at_them_from_0_5_21_on(self, release: str, sees: bool) -> None:
        arguments = founding(sglang_version=release, hicache={"ratio": 8.0}, allow_oversubscription=True)
        arguments["topology"]["host"] = {"memory_available_bytes": 2000 * GB, "cgroup_limit_bytes": 300 * GB}
        guard = planned(arguments)["host"]["guard"]
        assert guard["available_bytes"] == (300 * GB if sees else 2000 * GB)
        assert (guard["verdict"] == PASSES) == (not sees)

    @pytest.mark.parametrize("release", ["0.5.9", "0.5.20"])
    def test_what_the_check_would_not_see_the_plan_refuses(self, release: str) -> None:
        arguments = founding(sglang_version=release)
        arguments["topology"]["host"] = {"memory_available_bytes": 2000 * GB, "cgroup_limit_bytes": 300 * GB}
        refusal = refusal_of(arguments)
        assert refusal.code == "control_group_short"
        assert "does not look at control groups" in refusal.message
        assert "300.00 GB that the control group leaves" in refusal.message
        arguments["hicache"]["ratio"] = refusal.evidence["largest_ratio"]
        assert planned(arguments)["host"]["left_bytes"] >= 10 * GIB

    def test_the_check_is_called_blind_where_it_lets_pass_what_the_group_does_not_have(self) -> None:
        arguments = founding(sglang_version="0.5.20", allow_oversubscription=True)
        arguments["topology"]["host"] = {"memory_available_bytes": 2000 * GB, "cgroup_limit_bytes": 300 * GB}
        assert codes(planned(arguments))[-2:] == ["guard_blind", "oversubscribed"]


class TestHugePages:
    """178 GB in pages of 2 MB hold four ranks' pools of 44.77 GB each."""

    PAGES = 4 * -(-44_770_994_000 // MIB2)

    def plan(self, pages: list[dict[str, Any]], available: int = 396 * GB, **hicache: Any) -> dict[str, Any]:
        arguments = founding(sglang_version="0.5.23", hicache={"hugepage_size": "2MB", **hicache})
        return with_nodes(arguments, pages, available)

    def test_pools_take_no_available_memory_and_whole_pages(self) -> None:
        plan = planned(self.plan(huge((self.PAGES, self.PAGES), (self.PAGES, self.PAGES))))
        host = plan["host"]
        assert plan["unit"]["environment"]["SGLANG_HUGEPAGE_SIZE"] == "2MB"
        assert host["meter"] == "hugetlb"
        pinned = host["pools"][0]["pinned_bytes"]
        assert pinned % MIB2 == 0
        assert 0 <= pinned - host["bytes_per_rank"] < MIB2
        assert host["required_available_bytes"] == 10 * GIB
        assert host["left_bytes"] == 396 * GB
        assert [node["pinned_bytes"] for node in host["numa"]] == [4 * pinned] * 2
        assert codes(plan) == []

    def test_the_check_asks_for_available_memory_all_the_same(self) -> None:
        """8 x 44.77 GB + 10 GiB of memory that the pools do not take, in every order of arrival."""
        pages = huge((self.PAGES, self.PAGES), (self.PAGES, self.PAGES))
        refusal = refusal_of(self.plan(pages, available=100 * GB))
        assert refusal.code == "guard_refuses"
        assert "although it lies in huge pages" in refusal.message
        guard = planned(self.plan(pages))["host"]["guard"]
        assert guard["best_order_bytes"] == guard["worst_order_bytes"]
        assert format_gb(guard["required_bytes"], 1) == "368.9 GB"
        largest = refusal.evidence["largest_ratio"]
        assert planned(self.plan(pages, available=100 * GB, ratio=largest))["host"]["guard"]["verdict"] == PASSES

    def test_a_node_whose_pages_are_short_is_refused_with_what_is_missing(self) -> None:
        refusal = refusal_of(self.plan(huge((self.PAGES, self.PAGES), (self.PAGES, self.PAGES - 100))))
        assert refusal.code == "hugepages_short"
        assert "on node 1" in refusal.remedy
        short: Any = refusal.evidence["nodes"]
        assert short[0]["ranks"] == [4, 5, 6, 7]
        largest = refusal.evidence["largest_ratio"]
        pages = huge((self.PAGES, self.PAGES), (self.PAGES, self.PAGES - 100))
        assert planned(self.plan(pages, ratio=largest))["host"]["largest_ratio"] == largest

    def test_pages_of_another_size_do_not_count(self) -> None:
        pages = huge((200, 200), (200, 200), size=1 << 30)
        assert refusal_of(self.plan(pages)).code == "hugepages_short"
        # Four pools of 41.7 GiB take 42 pages each.
        plan = planned(self.plan(pages, hugepage_size="1GB"))
        assert plan["host"]["pools"][0]["pinned_bytes"] == 42 * GIB

    def test_what_the_running_instance_holds_comes_back_as_pages(self) -> None:
        arguments = self.plan(huge((self.PAGES, 0), (self.PAGES, 0)))
        assert refusal_of(arguments).code == "hugepages_short"
        arguments["observed"]["own_pinned_bytes"] = 2 * self.PAGES * MIB2
        host = planned(arguments)["host"]
        assert [node["hugepages_free_bytes"] for node in host["numa"]] == [self.PAGES * MIB2] * 2
        assert host["available_bytes"] == 396 * GB

    def test_how_many_are_free_has_to_be_known(self) -> None:
        arguments = founding(sglang_version="0.5.23", hicache={"hugepage_size": "2MB"})
        assert codes(planned(arguments)) == ["hugepages_unknown"]

    @pytest.mark.parametrize(
        ("release", "words"), [("0.5.23", "Set hicache.hugepage_size"), ("0.5.9", "from 0.5.13 on")]
    )
    def test_reserved_pages_that_the_plan_does_not_use_are_lost_to_it(self, release: str, words: str) -> None:
        arguments = founding(sglang_version=release, hicache={"ratio": 2.0})
        plan = planned(with_nodes(arguments, huge((50_000, 50_000), (0, 0))))
        (warning,) = [item for item in plan["warnings"] if item["code"] == "hugepages_unused"]
        assert "104.86 GB" in warning["message"]
        assert "node 0" in warning["message"]
        assert words in warning["remedy"]

    def test_more_pages_than_the_pools_take_are_named(self) -> None:
        plan = planned(self.plan(huge((self.PAGES + 5_000, self.PAGES + 5_000), (self.PAGES, self.PAGES))))
        assert codes(plan) == ["hugepages_unused"]

    @pytest.mark.parametrize(
        ("release", "hicache", "code"),
        [
            ("0.5.12", {"hugepage_size": "2MB"}, "hugepages_unsupported"),
            ("0.5.23", {"hugepage_size": "4MB"}, "hugepage_size_unknown"),
            ("0.5.22", {"parallel_alloc_threads": 8}, "parallel_alloc_unsupported"),
            ("0.5.23", {"parallel_alloc_threads": 0}, "value_not_positive"),
            ("0.5.23", {"parallel_alloc_threads": 8, "hugepage_size": "2MB"}, "parallel_alloc_unused"),
        ],
    )
    def test_what_a_release_cannot_do_is_refused(self, release: str, hicache: dict[str, Any], code: str) -> None:
        assert refusal_of(founding(sglang_version=release, hicache=hicache)).code == code

    def test_threads_populate_private_memory(self) -> None:
        plan = planned(founding(sglang_version="0.5.23", hicache={"ratio": 2.0, "parallel_alloc_threads": 8}))
        assert plan["host"]["meter"] == "anon"
        assert plan["unit"]["environment"]["SGLANG_HICACHE_HOST_PARALLEL_ALLOC_THREADS"] == "8"

    def test_without_hicache_nothing_is_said_to_the_server(self) -> None:
        plan = planned(founding(sglang_version="0.5.23", hicache={"enabled": False, "hugepage_size": "2MB"}))
        assert "SGLANG_HUGEPAGE_SIZE" not in plan["unit"]["environment"]


def test_ranks_of_a_short_node_are_named_with_the_ratio_that_it_has_room_for() -> None:
    arguments = founding(sglang_version="0.5.23", hicache={"ratio": 2.0})
    nodes = [{"id": 0, "memory_available_bytes": 60 * GB}, {"id": 1, "memory_available_bytes": 70 * GB}]
    refusal = refusal_of(with_nodes(arguments, nodes, 700 * GB))
    assert refusal.code == "numa_node_short"
    short: Any = refusal.evidence["nodes"]
    assert [node["ranks"] for node in short] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [node["largest_ratio"] for node in short] == [
        int((available * GB - 5 * GIB) / 4 / 11_192_713_344 * 100) / 100 for available in (60, 70)
    ]
    assert "NUMA node 0, where ranks 0 to 3 live, has room for ratio 1.22." in refusal.message
    assert refusal.evidence["largest_ratio"] == min(node["largest_ratio"] for node in short)


def test_several_pools_are_checked_one_by_one() -> None:
    """Window layers have a pool of their own, so the last check is not of everything that a rank asks for."""
    arguments = {**founding(sglang_version="0.5.20", hicache={"ratio": 2.0}), "model": WINDOWED}
    arguments["observed"] = {"kv_pool_bytes": 20 * GB, "mem_fraction_static": 0.88}
    arguments["topology"]["host"]["memory_available_bytes"] = 2000 * GB
    plan = planned(arguments)
    host = plan["host"]
    full, window = (pool["bytes_per_rank"] for pool in host["pools"])
    assert [pool["kind"] for pool in host["pools"]] == ["kv", "swa"]
    # One rank is last: its peers hold both pools, and it asks for a pool times eight.
    last = max(8 * full, full + 8 * window)
    assert host["guard"]["worst_order_bytes"] == 7 * (full + window) + last + 10 * GIB
    assert host["guard"]["worst_order_bytes"] < 15 * (full + window) + 10 * GIB
    assert any("8 x each pool" in line for line in plan["explanation"])


def test_pipeline_stages_pin_pools_of_their_own() -> None:
    arguments = founding(sglang_version="0.5.23", hicache={"ratio": 2.0})
    arguments["server"].update(tensor_parallel_size=4, pipeline_parallel_size=2)
    arguments["topology"]["host"]["memory_available_bytes"] = 700 * GB
    host = planned(arguments)["host"]
    first, second = host["stages"]
    assert (first["ranks"], second["ranks"]) == ([0, 1, 2, 3], [4, 5, 6, 7])
    # 61 layers are 31 and 30 (or 30 and 31) of the same tokens.
    larger, smaller = sorted((first["bytes_per_rank"], second["bytes_per_rank"]), reverse=True)
    assert larger * 30 == smaller * 31
    assert host["bytes_per_rank"] == larger
    assert host["bytes_total"] == 4 * (larger + smaller)
    # One copy of each stage's rows is unique, the three others are not.
    assert host["unique_bytes"] == larger + smaller
    assert host["duplication_factor"] == 4.0
    assert [node["pinned_bytes"] for node in host["numa"]] == [
        4 * first["bytes_per_rank"],
        4 * second["bytes_per_rank"],
    ]


def test_groups_of_attention_ranks_keep_unique_caches() -> None:
    arguments = founding(sglang_version="0.5.23", hicache={"ratio": 2.0})
    arguments["server"]["attention_data_parallel_size"] = 4
    host = planned(arguments)["host"]
    assert host["unique_bytes"] == 4 * host["bytes_per_rank"]
    assert host["duplication_factor"] == 2.0


class TestRemedies:
    def test_those_of_the_founding_case(self) -> None:
        plan = planned(founding())
        found = {remedy["code"]: remedy for remedy in plan["host"]["remedies"]}
        assert list(found) == ["attention_data_parallel", "pipeline_parallel", "storage"]
        groups = found["attention_data_parallel"]
        assert groups["flags"] == {"enable-dp-attention": True, "dp-size": 8}
        assert groups["options"] == {"server.attention_data_parallel_size": 8}
        assert (groups["unique_bytes_then"], groups["factor_then"]) == (plan["host"]["bytes_total"], 1.0)
        assert "5,096,872 host tokens instead of 637,109" in groups["message"]
        stages = found["pipeline_parallel"]
        assert stages["flags"] == {"tp-size": 4, "pp-size": 2}
        assert stages["factor_then"] == 4.0
        assert found["storage"]["factor_then"] == 8.0
        assert any(
            "--enable-dp-attention --dp-size 8 358.17 GB would be unique" in line for line in plan["explanation"]
        )

    def test_flags_and_layouts_are_those_of_the_release(self) -> None:
        host = planned(founding(sglang_version="0.5.23", hicache={"ratio": 2.0}))["host"]
        found = {remedy["code"]: remedy["flags"] for remedy in host["remedies"]}
        assert found["attention_data_parallel"] == {"attn-dp-size": 8}
        assert found["decode_context_parallel"] == {"dcp-size": 8}
        older = planned(founding(sglang_version="0.5.16"))["host"]["remedies"]
        assert "decode_context_parallel" not in [remedy["code"] for remedy in older]

    def test_what_an_option_promises_it_keeps(self) -> None:
        """Planned with the options that a remedy names, the factor is the one it gave."""
        before = planned(founding(sglang_version="0.5.23", hicache={"ratio": 1.0}))["host"]
        checked = 0
        for remedy in before["remedies"]:
            options = {name.removeprefix("server."): value for name, value in remedy["options"].items()}
            if not options:
                continue
            arguments = founding(sglang_version="0.5.23", hicache={"ratio": 1.0})
            arguments["server"].update(options)
            assert planned(arguments)["host"]["duplication_factor"] == remedy["factor_then"], remedy["code"]
            checked += 1
        assert checked == 2

    def test_heads_that_lie_twice(self) -> None:
        """Four KV heads on eight ranks: two groups, or two stages, have each head once."""
        model = {
            "name": "few-heads",
            "architecture": "Qwen3ForCausalLM",
            "dtype": "bfloat16",
            "attention": {"num_layers": 64, "num_attention_heads": 64, "num_kv_heads": 4, "head_dim": 128},
            "weights": {"total_bytes": 65 * GB},
        }
        arguments = {**founding(sglang_version="0.5.23", hicache={"ratio": 1.0}), "model": model}
        host = planned(arguments)["host"]
        assert host["duplication_factor"] == 2.0
        assert {remedy["code"]: (remedy["flags"], remedy["factor_then"]) for remedy in host["remedies"]} == {
            "attention_data_parallel": ({"attn-dp-size": 2}, 1.0),
            "pipeline_parallel": ({"tp-size": 4, "pp-size": 2}, 1.0),
        }

    def test_where_nothing_lies_twice_there_is_nothing_to_remedy(self) -> None:
        arguments = founding(sglang_version="0.5.23", hicache={"ratio": 1.0})
        arguments["server"]["attention_data_parallel_size"] = 8
        host = planned(arguments)["host"]
        assert (host["duplication_factor"], host["remedies"]) == (1.0, [])


SIZING = st.one_of(
    st.integers(1, 1200).map(lambda ratio: {"ratio": ratio / 100}),
    st.integers(1, 120).map(lambda size: {"ratio": None, "size_gb": size}),
    st.integers(1, 100).map(lambda share: {"ratio": None, "host_memory_fraction": share / 100}),
)
MACHINE = st.fixed_dictionaries(
    {
        "release": st.sampled_from(["0.5.4", "0.5.9", "0.5.18", "0.5.20", "0.5.21", "0.5.23"]),
        "available": st.integers(5, 1500),
        "first_node": st.integers(0, 100),
        "group": st.one_of(st.none(), st.integers(1, 1500)),
        "pages": st.one_of(st.none(), st.tuples(st.integers(0, 200_000), st.integers(0, 200_000))),
        "model": st.sampled_from([None, WINDOWED]),
    }
)


def arguments_of(machine: dict[str, Any], hicache: dict[str, Any]) -> dict[str, Any]:
    """A founding case on another machine and release, with what that release has."""
    release = machine["release"]
    asked = dict(hicache)
    if asked.get("host_memory_fraction") is not None and release not in ("0.5.21", "0.5.23"):
        asked = {"ratio": 2.0}
    arguments = founding(sglang_version=release, hicache=asked)
    if release == "0.5.4":
        arguments["model"] = DEEPSEEK
    if machine["model"] is not None and release not in ("0.5.4", "0.5.9"):
        arguments["model"] = machine["model"]
        arguments["observed"] = {"kv_pool_bytes": 11 * GB, "mem_fraction_static": 0.88}
    available = machine["available"] * GB
    first = available * machine["first_node"] // 100
    nodes: list[dict[str, Any]] = [
        {"id": 0, "memory_available_bytes": first},
        {"id": 1, "memory_available_bytes": available - first},
    ]
    if machine["pages"] is not None and release not in ("0.5.4", "0.5.9"):
        for node, pages in zip(nodes, machine["pages"]):
            node["hugepages"] = [{"size_bytes": MIB2, "total": pages, "free": pages}]
        arguments["hicache"]["hugepage_size"] = "2MB"
    group = {} if machine["group"] is None else {"cgroup_limit_bytes": machine["group"] * GB}
    arguments["topology"]["host"] = {"memory_available_bytes": available, **group}
    return with_nodes(arguments, nodes)


def within_every_bound(host: dict[str, Any]) -> bool:
    return all(host["bytes_per_rank"] <= limit["bytes_per_rank"] for limit in host["limits"])


@settings(max_examples=100, deadline=None)
@given(MACHINE, SIZING)
def test_a_refusal_carries_a_value_that_passes_and_no_plan_is_above_a_bound(
    machine: dict[str, Any], hicache: dict[str, Any]
) -> None:
    arguments = arguments_of(machine, hicache)
    try:
        host = planned(arguments)["host"]
    except Refusal as refused:
        values = {
            "ratio": refused.evidence.get("largest_ratio"),
            "size_gb": refused.evidence.get("largest_size_gb"),
            "host_memory_fraction": refused.evidence.get("largest_host_memory_fraction"),
        }
        for name, value in values.items():
            if value is None:
                continue
            none = dict.fromkeys(values)
            fits = planned(changed(arguments, {"hicache": {**none, name: value}}))["host"]
            assert within_every_bound(fits)
            assert fits["guard"]["verdict"] == PASSES
        if not any(values.values()) and refused.code != "host_pool_empty":
            assert (
                "No ratio fits" in refused.remedy
                or "Free host memory" in refused.remedy
                or "no ratio" in refused.remedy
            )
        return
    assert within_every_bound(host)
    assert host["guard"]["verdict"] == PASSES
    # What is planned is not above what is called the largest of its own kind.
    if host["sizing"] == "ratio" and host["largest_ratio"] is not None:
        assert host["ratio"] <= host["largest_ratio"]
    if host["sizing"] == "size":
        assert host["size_gb"] <= host["largest_size_gb"]


@settings(max_examples=40, deadline=None)
@given(MACHINE, st.integers(1, 400))
def test_more_memory_never_allows_less(machine: dict[str, Any], more: int) -> None:
    def largest(arguments: dict[str, Any]) -> float:
        try:
            return float(planned(arguments)["host"]["largest_ratio"] or 0.0)
        except Refusal as refused:
            ratio: Any = refused.evidence.get("largest_ratio")
            return float(ratio or 0.0)

    richer = {**machine, "available": machine["available"] + more}
    # The first node keeps at least what it had.
    richer["first_node"] = -(-machine["available"] * machine["first_node"] // richer["available"])
    less, enough = (arguments_of(one, {"ratio": 2.0}) for one in (machine, richer))
    nodes = [entry["memory_available_bytes"] for entry in less["topology"]["numa_nodes"]]
    if all(entry["memory_available_bytes"] >= had for entry, had in zip(enough["topology"]["numa_nodes"], nodes)):
        assert largest(enough) >= largest(less)


@settings(max_examples=40, deadline=None)
@given(MACHINE, st.integers(1, 600), st.integers(0, 600))
def test_more_ratio_never_pins_less_nor_needs_less(machine: dict[str, Any], ratio: int, more: int) -> None:
    def forced(hundredths: int) -> dict[str, Any] | None:
        arguments = arguments_of(machine, {"ratio": hundredths / 100})
        try:
            host: dict[str, Any] = planned({**arguments, "allow_oversubscription": True})["host"]
            return host
        except Refusal:
            return None

    less, enough = forced(ratio), forced(ratio + more)
    if less is None or enough is None:
        return
    for name in ("bytes_total", "pinned_bytes_total", "required_available_bytes", "unique_bytes"):
        assert enough[name] >= less[name]
    assert enough["guard"]["required_bytes"] >= less["guard"]["required_bytes"]
    assert enough["largest_ratio"] == less["largest_ratio"]


def room_of(packed: bool) -> HostRoom:
    facts = version_facts("0.5.20")
    allocation = resolve_allocation(facts, HiCacheRequest())
    return HostRoom(facts, allocation, 1000 * GB, None, 0, 10 * GIB, (), "none", packed)


def test_a_draft_in_its_targets_pool_is_checked_with_it() -> None:
    """Packed, one check is of both; beside it, a second one is of the draft alone."""
    pools = (Pool("kv", 100, GB, 100 * GB), Pool("draft", 100, GB // 10, 10 * GB))
    groups = (RankPools((0, 1), pools),)
    sizing = Sizing("ratio", ratio=2.0)
    packed = guard_need_of(room_of(True), sizing, groups)
    beside = guard_need_of(room_of(False), sizing, groups)
    assert packed.worst_order_bytes - 10 * GIB == (110 + 2 * 110) * GB
    assert beside.worst_order_bytes - 10 * GIB == (110 + 2 * 100) * GB
