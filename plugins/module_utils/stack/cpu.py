# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the processors' frequency is governed."""

from __future__ import annotations

from collections import Counter

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import Cpu
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree

_BASE = "sys/devices/system/cpu"
_POLICIES_LIMIT = 8192
_NAME_LIMIT = 64


def policies(tree: Tree) -> list[str]:
    """A policy covers one processor or several; older kernels show them below each processor only."""
    policies = [
        f"{_BASE}/cpufreq/{name}" for name in tree.names(f"{_BASE}/cpufreq") if name[:6] == "policy" and name[6:]
    ]
    if policies:
        return policies[:_POLICIES_LIMIT]
    processors = [name for name in tree.names(_BASE) if name[:3] == "cpu" and name[3:].isdigit()]
    return [f"{_BASE}/{name}/cpufreq" for name in processors[:_POLICIES_LIMIT]]


def read_cpu(tree: Tree) -> Cpu:
    governors: Counter[str] = Counter()
    preferences: Counter[str] = Counter()
    driver: str | None = None
    for policy in policies(tree):
        governor = tree.line(f"{policy}/scaling_governor", _NAME_LIMIT)
        if governor is None or len(governor.split()) != 1:
            continue
        count = len((tree.text(f"{policy}/affected_cpus") or "").split()) if "/cpufreq/policy" in policy else 1
        governors[governor] += count or 1
        driver = driver or tree.line(f"{policy}/scaling_driver", _NAME_LIMIT)
        preference = tree.line(f"{policy}/energy_performance_preference", _NAME_LIMIT)
        if preference:
            preferences[preference] += count or 1
    return Cpu(
        driver=driver,
        governors=dict(sorted(governors.items())) or None,
        energy_preferences=dict(sorted(preferences.items())) or None,
        tuned_profile=tree.line("etc/tuned/active_profile"),
    )
