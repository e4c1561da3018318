# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""From requests and facts to items."""

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import SwapDevice
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.facts import Knob, NodeFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.hugepages import NodeMemory
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.items import text_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.request import parse_request
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.sysctl_files import OURS
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.wanted import Tuned, decide

GOOD = {
    "kernel.numa_balancing": "0",
    "vm.swappiness": "10",
    "vm.max_map_count": "1048576",
    "vm.overcommit_memory": "0",
    "vm.zone_reclaim_mode": "0",
    "net.core.somaxconn": "4096",
}
FACTS = NodeFacts(
    sysctl=GOOD,
    thp={"enabled": Knob("madvise", ("always", "madvise", "never")), "defrag": Knob("madvise")},
    nodes={node: NodeMemory(256 * GIB, {2 << 20: 0, GIB: 0}) for node in (0, 1)},
    memory_total_bytes=512 * GIB,
    memory_available_bytes=480 * GIB,
    governors={"/sys/devices/system/cpu/cpufreq/policy0": Knob("performance", ("performance", "powersave"))},
    fstab="UUID=1 / ext4 x 0 1\nUUID=2 none swap sw 0 0\n",
    shm_bytes=256 * GIB,
)


def tuned(facts: NodeFacts = FACTS, recorded: dict[str, Any] | None = None, **options: Any) -> Tuned:
    return decide(parse_request({"cpu_governor": "performance", **options}), facts, recorded or {})


def targets(result: Tuned) -> list[str]:
    return [item.target for item in result.items]


def refused(facts: NodeFacts = FACTS, **options: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        tuned(facts, **options)
    return caught.value


def test_what_is_good_is_left_alone() -> None:
    result = tuned()
    assert (result.items, result.notes) == ([], [])


def test_one_bad_value_is_one_line_in_the_file_and_one_value() -> None:
    facts = replace(FACTS, sysctl={**GOOD, "vm.swappiness": "60"})
    result = tuned(facts)
    assert targets(result) == [OURS, "/proc/sys/vm/swappiness"]
    text = text_of(result.items[0].wanted)
    assert text is not None and [line for line in text.splitlines() if not line.startswith("#")] == [
        "vm.swappiness = 10"
    ]
    assert "rank that was swapped out" in text


def test_a_value_that_is_good_only_because_it_is_ours_stays_ours() -> None:
    result = tuned(recorded={"value:/proc/sys/vm/swappiness": "60"})
    assert targets(result) == [OURS, "/proc/sys/vm/swappiness"]


def test_a_persons_file_is_left_alone_and_told() -> None:
    facts = replace(
        FACTS, sysctl={**GOOD, "vm.swappiness": "60"}, sysctl_files=(("/etc/sysctl.d/50-x.conf", "vm.swappiness=60"),)
    )
    result = tuned(facts)
    assert result.items == []
    assert [note.code for note in result.notes] == ["sysctl_left_to_person"]
    assert result.notes[0].message == "/etc/sysctl.d/50-x.conf:1 sets vm.swappiness to 60, where 10 would be set."


def test_a_packages_file_is_overridden_also_where_the_value_is_good_right_now() -> None:
    facts = replace(FACTS, sysctl_files=(("/usr/lib/sysctl.d/50-x.conf", "vm.swappiness=60"),))
    assert targets(tuned(facts)) == [OURS, "/proc/sys/vm/swappiness"]


def test_a_persons_wish_against_a_persons_file_is_refused() -> None:
    facts = replace(FACTS, sysctl_files=(("/etc/sysctl.conf", "\nvm.swappiness=60"),))
    found = refused(facts, sysctl={"vm.swappiness": 1})
    assert found.code == "sysctl_set_elsewhere"
    assert found.message == "/etc/sysctl.conf:2 sets vm.swappiness to 60, and node_tuning_sysctl to 1."


def test_null_leaves_a_setting_alone_and_the_table_can_be_left_out() -> None:
    facts = replace(FACTS, sysctl={**GOOD, "vm.swappiness": "60"})
    assert targets(tuned(facts, sysctl={"vm.swappiness": None})) == []
    assert targets(tuned(facts, sysctl_defaults=False)) == []


def test_a_setting_that_the_kernel_lacks_is_only_missed_when_asked_for() -> None:
    facts = replace(FACTS, sysctl={})
    assert targets(tuned(facts)) == []
    assert refused(facts, sysctl={"vm.nonsense": 1}).code == "sysctl_missing"


def test_never_becomes_madvise_now_and_at_boot() -> None:
    facts = replace(FACTS, thp={"enabled": Knob("never", ("always", "madvise", "never"))})
    result = tuned(facts)
    assert "/sys/kernel/mm/transparent_hugepage/enabled madvise" in result.late
    assert [item.wanted for item in result.items if item.kind == "value"] == ["madvise"]
    keep = tuned(facts, transparent_hugepage={"enabled": "keep"})
    assert keep.items == []


def test_a_mode_that_the_kernel_lacks_is_refused() -> None:
    facts = replace(FACTS, thp={"enabled": Knob("never", ("always", "never"))})
    assert refused(facts, transparent_hugepage={"enabled": "madvise"}).code == "thp_mode_missing"


def test_huge_pages_are_reserved_early_at_boot_unless_the_kernel_does_it() -> None:
    pages = [{"size": "1GB", "numa_node": 1, "pages": 4}, {"size": "2MB", "numa_node": 0, "bytes": 3 << 20}]
    path = "/sys/devices/system/node/node{}/hugepages/hugepages-{}kB/nr_hugepages"
    assert tuned(hugepages=pages).early == [f"{path.format(1, 1048576)} 4", f"{path.format(0, 2048)} 2"]
    assert tuned(hugepages=pages, hugepage_sizes_at_start=["2MB"]).early == [f"{path.format(0, 2048)} 2"]


@pytest.mark.parametrize(("found", "pages", "wanted"), [(8, 4, None), (4, 4, None), (2, 4, "4"), (8, 0, "0")])
def test_more_pages_than_asked_for_were_somebodys_wish(found: int, pages: int, wanted: str | None) -> None:
    facts = replace(FACTS, nodes={0: NodeMemory(256 * GIB, {2 << 20: found})})
    result = tuned(facts, hugepages=[{"size": "2MB", "numa_node": 0, "pages": pages}])
    assert [item.wanted for item in result.items if item.kind == "value"] == ([] if wanted is None else [wanted])


def test_pages_of_ours_become_fewer() -> None:
    facts = replace(FACTS, nodes={0: NodeMemory(256 * GIB, {2 << 20: 8})})
    key = "value:/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"
    result = tuned(facts, {key: "0"}, hugepages=[{"size": "2MB", "numa_node": 0, "pages": 4}])
    assert [item.wanted for item in result.items if item.kind == "value"] == ["4"]


def test_a_guest_has_no_governor_and_is_told_so() -> None:
    result = tuned(replace(FACTS, governors={}, hypervisor=True))
    assert (result.items, [note.code for note in result.notes]) == ([], ["governor_not_here"])
    assert "a virtual machine" in result.notes[0].message


def test_a_governor_that_is_not_offered_is_refused_with_those_that_are() -> None:
    found = refused(cpu_governor="ondemand")
    assert found.code == "governor_missing" and "offers performance, powersave" in found.message


def test_tuned_is_told_of() -> None:
    assert [note.code for note in tuned(replace(FACTS, tuned_profile="balanced")).notes] == ["tuned_active"]


def test_swap_goes_now_and_for_every_boot() -> None:
    facts = replace(FACTS, swaps=(SwapDevice("/dev/sda3", "partition", GIB, 0),), swap_units=("dev-sda3.swap",))
    result = tuned(facts, swap="off")
    assert {(item.kind, item.target) for item in result.items} == {
        ("swap", "/proc/swaps"),
        ("link", "/etc/systemd/system/dev-sda3.swap"),
        ("file", "/etc/fstab"),
    }


def test_swap_that_does_not_fit_is_refused_with_figures() -> None:
    facts = replace(FACTS, swaps=(SwapDevice("/dev/sda3", "partition", 900 * GIB, 480 * GIB),))
    found = refused(facts, swap="off")
    assert found.code == "swap_does_not_fit"
    assert found.evidence == {
        "used_bytes": 480 * GIB,
        "available_bytes": 480 * GIB,
        "largest_bytes": 470 * GIB,
    }
    assert "515.40 GB of swap are in use" in found.message


@pytest.mark.parametrize(
    ("facts", "size", "code"),
    [
        (FACTS, 503 * GIB, "shm_too_large"),
        (replace(FACTS, shm_used_bytes=3 * GIB), 3 * GIB, "shm_too_small"),
        (replace(FACTS, shm_bytes=None), 64 * GIB, "shm_missing"),
        (replace(FACTS, nodes={0: NodeMemory(512 * GIB, {GIB: 450})}), 64 * GIB, "shm_too_large"),
    ],
)
def test_a_size_of_shared_memory_that_cannot_be_is_refused(facts: NodeFacts, size: int, code: str) -> None:
    assert refused(facts, shm_bytes=size).code == code


def test_swap_and_shared_memory_share_one_edit_of_fstab() -> None:
    result = tuned(shm_bytes=64 * GIB, swap="off")
    (edit,) = [item for item in result.items if item.target == "/etc/fstab"]
    text = text_of(edit.wanted)
    assert text is not None and "size=67108864k" in text and "gpufleet-node-tuning# UUID=2" in text


def test_the_size_that_is_there_needs_nothing() -> None:
    assert targets(tuned(shm_bytes=256 * GIB)) == []


ACS = replace(FACTS, redirecting_ports=("0000:19:00.0",), acs={"0000:19:00.0": 0x1D})


def test_acs_loses_the_bits_that_redirect_and_keeps_the_others() -> None:
    result = tuned(ACS, clear_acs=True)
    assert [(item.target, item.wanted) for item in result.items if item.kind == "acs"] == [("0000:19:00.0", 0x11)]
    assert result.late == ["acs 0000:19:00.0 0:2c"]


def test_ports_that_are_clear_because_of_us_stay_ours() -> None:
    clear = replace(FACTS, redirecting_ports=(), acs={})
    result = tuned(clear, {"acs:0000:19:00.0": 0x1D}, clear_acs=True)
    assert [item.target for item in result.items if item.kind == "acs"] == ["0000:19:00.0"]
    assert tuned(clear, clear_acs=True).items == []


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        (replace(ACS, isolated_devices=("0000:41:00.0",)), "acs_isolation_in_use"),
        (replace(ACS, setpci=False), "setpci_missing"),
        (replace(ACS, redirecting_ports=None), "acs_not_seen"),
    ],
)
def test_acs_is_not_cleared_where_that_is_not_safe(facts: NodeFacts, code: str) -> None:
    assert refused(facts, clear_acs=True).code == code


def test_limits_are_those_of_one_unit() -> None:
    (item,) = tuned(unit_limits=[{"unit": "docker.service", "memlock": "infinity", "nofile": "1048576"}]).items
    assert item.target == "/etc/systemd/system/docker.service.d/90-gpufleet-limits.conf"
    assert (text_of(item.wanted) or "").endswith("[Service]\nLimitMEMLOCK=infinity\nLimitNOFILE=1048576\n")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"unit_limits": [{"unit": "system.conf", "memlock": "infinity"}]}, "limits_of_no_unit"),
        ({"unit_limits": [{"unit": "../x.service", "memlock": "infinity"}]}, "limits_of_no_unit"),
        ({"unit_limits": [{"unit": "a.service", "memlock": "lots"}]}, "limit_wrong"),
        ({"sysctl": {"../../etc/passwd": 1}}, "sysctl_name_wrong"),
        ({"sysctl": {"vm.nr_hugepages": 1}}, "sysctl_not_here"),
        ({"sysctl": {"vm.swappiness": ""}}, "sysctl_value_wrong"),
        ({"hugepages": [{"size": "2MB", "numa_node": 0}]}, "hugepages_amount"),
        ({"hugepages": [{"size": "2MB", "numa_node": 0, "pages": 1, "bytes": 1}]}, "hugepages_amount"),
        ({"hugepages": [{"size": "2MB", "numa_node": -1, "pages": 1}]}, "hugepages_amount"),
        ({"shm_bytes": 64}, "tuning_size_small"),
        ({"leave_bytes": 10}, "tuning_size_small"),
    ],
)
def test_requests_that_make_no_sense_are_refused(options: dict[str, Any], code: str) -> None:
    assert refused(**options).code == code
