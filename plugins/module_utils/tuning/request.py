# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What node_settings is asked for, checked. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB, HUGEPAGE_SIZES, MIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.hugepages import Wanted, pages_for
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.sysctl_files import normal_name

# SGLang keeps 10 GiB free beside its pools, whatever they lie in.
LEAVE_BYTES = 10 * GIB
AUTO, KEEP = "auto", "keep"
THP_CHOICES = {
    "enabled": ("always", "madvise", "never"),
    "defrag": ("always", "defer", "defer+madvise", "madvise", "never"),
    "shmem_enabled": ("always", "within_size", "advise", "never", "deny", "force"),
}
_SYSCTL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.*/:-]*$")
_UNIT = re.compile(r"[A-Za-z0-9:_.\\@-]+\.service$")
_LIMIT = re.compile(r"(infinity|\d{1,18}[KMGT]?)(:(infinity|\d{1,18}[KMGT]?))?$")
# What the reserving of huge pages has options of its own for, and what belongs to other parts.
_NOT_HERE = {
    "vm.nr_hugepages": "node_tuning_hugepages, with the NUMA node of each",
    "vm.nr_hugepages_mempolicy": "node_tuning_hugepages, with the NUMA node of each",
    "vm.nr_overcommit_hugepages": "node_tuning_hugepages, with the NUMA node of each",
}


@dataclass(frozen=True)
class Request:
    """C(sysctl): values that a person gives, None to leave one alone. C(thp): mode of a knob, or auto, or keep."""

    sysctl_defaults: bool = True
    sysctl: Mapping[str, str | None] = field(default_factory=dict)
    thp: Mapping[str, str] = field(default_factory=dict)
    hugepages: tuple[Wanted, ...] = ()
    early_sizes: tuple[str, ...] = ("2MB", "1GB")
    governor: str | None = None
    swap: str = KEEP
    shm_bytes: int | None = None
    clear_acs: bool = False
    unit_limits: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    leave_bytes: int = LEAVE_BYTES


def parse_request(options: Mapping[str, Any]) -> Request:
    """The module's options, after Ansible has seen to their types and choices."""
    leave = options.get("leave_bytes")
    shm = options.get("shm_bytes")
    for name, value in (("leave_bytes", leave), ("shm_bytes", shm)):
        if value is not None and value < MIB:
            raise Refusal(
                "tuning_size_small",
                f"node_tuning_{name} is {value} bytes.",
                "Expected bytes, a MiB or more.",
                {"option": name, "value": value},
            )
    return Request(
        sysctl_defaults=bool(options.get("sysctl_defaults", True)),
        sysctl=_sysctl(options.get("sysctl") or {}),
        thp={
            knob: str(
                (options.get("transparent_hugepage") or {}).get(knob) or (KEEP if knob == "shmem_enabled" else AUTO)
            )
            for knob in THP_CHOICES
        },
        hugepages=parse_hugepages(options.get("hugepages") or ()),
        early_sizes=tuple(options.get("hugepage_sizes_at_start") or HUGEPAGE_SIZES),
        governor=options.get("cpu_governor"),
        swap=options.get("swap") or KEEP,
        # Whole MiB, as a tmpfs counts in pages.
        shm_bytes=None if shm is None else -(-shm // MIB) * MIB,
        clear_acs=bool(options.get("clear_acs")),
        unit_limits=_limits(options.get("unit_limits") or ()),
        leave_bytes=LEAVE_BYTES if leave is None else leave,
    )


def _sysctl(given: Mapping[str, Any]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for written, value in given.items():
        name = normal_name(str(written))
        if not _SYSCTL_NAME.match(name) or ".." in name or "*" in name or "/." in name:
            raise Refusal(
                "sysctl_name_wrong",
                f"node_tuning_sysctl has '{written}', which is no name of a kernel setting.",
                "Expected names such as vm.swappiness.",
            )
        if name in _NOT_HERE:
            raise Refusal(
                "sysctl_not_here",
                f"node_tuning_sysctl has {name}, which would divide the pages over all NUMA nodes.",
                f"Use {_NOT_HERE[name]}.",
            )
        text = None if value is None else " ".join(str(value).split())
        if text is not None and (not text or not text.isprintable()):
            raise Refusal(
                "sysctl_value_wrong",
                f"node_tuning_sysctl gives {name} no value that can be written.",
                "Expected one line; null leaves the setting alone.",
            )
        found[name] = text
    return found


def parse_hugepages(given: Sequence[Mapping[str, Any]]) -> tuple[Wanted, ...]:
    counts: dict[tuple[str, int], int] = {}
    for one in given:
        size, node = one["size"], one["numa_node"]
        pages, size_bytes = one.get("pages"), one.get("bytes")
        if (pages is None) == (size_bytes is None):
            raise Refusal(
                "hugepages_amount",
                f"node_tuning_hugepages asks NUMA node {node} for huge pages of {size}, with "
                f"{'neither pages nor bytes' if pages is None else 'both pages and bytes'}.",
                "Expected one of the two.",
            )
        amount = int(pages or 0) if size_bytes is None else pages_for(size, size_bytes)
        if node < 0 or amount < 0:
            raise Refusal(
                "hugepages_amount",
                f"node_tuning_hugepages asks NUMA node {node} for {amount} huge pages of {size}.",
                "Expected numbers that are not negative.",
            )
        counts[size, node] = counts.get((size, node), 0) + amount
    return tuple(Wanted(size, node, pages) for (size, node), pages in sorted(counts.items()))


def _limits(given: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for one in given:
        unit = one["unit"]
        if not _UNIT.match(unit):
            raise Refusal(
                "limits_of_no_unit",
                f"node_tuning_unit_limits names '{unit}'.",
                "Expected the name of a service, such as docker.service. Limits of everything (DefaultLimitMEMLOCK, "
                "/etc/security/limits.conf) are not set: any process could then lock all memory.",
            )
        limits = {}
        for option, directive in (("memlock", "LimitMEMLOCK"), ("nofile", "LimitNOFILE")):
            value = one.get(option)
            if value is None:
                continue
            if not _LIMIT.match(str(value)):
                raise Refusal(
                    "limit_wrong",
                    f"node_tuning_unit_limits gives {unit} the {option} '{value}'.",
                    "Expected infinity or a number, as systemd.exec(5) takes them.",
                )
            limits[directive] = str(value)
        if limits:
            found.setdefault(unit, {}).update(limits)
    return found
