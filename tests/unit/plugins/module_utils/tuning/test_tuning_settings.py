# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.settings import (
    SYSCTLS,
    TRANSPARENT_HUGEPAGES,
    chosen_settings,
)

BY_NAME = {setting.name: setting for setting in (*SYSCTLS, *TRANSPARENT_HUGEPAGES)}


@pytest.mark.parametrize(
    ("name", "current", "satisfied"),
    [
        ("kernel.numa_balancing", "0", True),
        ("kernel.numa_balancing", "1", False),
        # Memory tiering (2) moves pages as well.
        ("kernel.numa_balancing", "2", False),
        ("vm.swappiness", "60", False),
        ("vm.swappiness", "10", True),
        ("vm.swappiness", "1", True),
        ("vm.swappiness", "nonsense", False),
        ("vm.max_map_count", "65530", False),
        ("vm.max_map_count", "262144", True),
        ("vm.max_map_count", "9" * 30, False),
        ("vm.overcommit_memory", "1", True),
        ("vm.overcommit_memory", "2", False),
        ("net.core.somaxconn", "128", False),
        ("net.core.somaxconn", "4096", True),
        ("enabled", "always", True),
        ("enabled", "never", False),
        ("defrag", "defer+madvise", True),
        ("defrag", "never", False),
    ],
)
def test_a_value_that_is_as_good_may_stay(name: str, current: str, satisfied: bool) -> None:
    assert BY_NAME[name].satisfied(current) is satisfied


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_every_setting_has_a_reason_and_a_source_and_satisfies_itself(name: str) -> None:
    setting = BY_NAME[name]
    assert setting.satisfied(setting.value)
    assert setting.reason.endswith(".") and setting.source


def test_a_person_replaces_leaves_alone_and_adds() -> None:
    given = {"vm.swappiness": "1", "vm.zone_reclaim_mode": None, "vm.dirty_ratio": "5"}
    chosen = {setting.name: (setting.value, person) for setting, person in chosen_settings(SYSCTLS, given)}
    assert chosen["vm.swappiness"] == ("1", True)
    assert "vm.zone_reclaim_mode" not in chosen
    assert chosen["vm.dirty_ratio"] == ("5", True)
    assert chosen["vm.max_map_count"] == ("1048576", False)
