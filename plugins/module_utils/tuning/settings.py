# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which kernel settings a host of inference servers needs, why, and who says so.

A value that is as good is left alone, whoever set it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

THP_FOLDER = "sys/kernel/mm/transparent_hugepage"


@dataclass(frozen=True)
class Setting:
    """C(value) is what is set where the value in force is not good enough: below C(at_least), above C(at_most), not
    among C(one_of); without any of these only C(value) itself is."""

    name: str
    value: str
    reason: str
    source: str
    at_least: int | None = None
    at_most: int | None = None
    one_of: tuple[str, ...] = ()

    def satisfied(self, current: str) -> bool:
        """Whether a value may stay."""
        if current == self.value or current in self.one_of:
            return True
        if not current.isdecimal() or len(current) > 18:
            return False
        number = int(current)
        if self.at_least is not None:
            return number >= self.at_least
        return self.at_most is not None and number <= self.at_most


SYSCTLS: tuple[Setting, ...] = (
    Setting(
        "kernel.numa_balancing",
        "0",
        "Ranks and their pools are bound to NUMA nodes; the kernel would unmap their pages again and again to find out "
        "where they belong, and pinned pages cannot be moved anyway.",
        "SGLang, docs/platforms/amd_gpu.md (Disable NUMA Auto-Balancing); Linux, admin-guide/sysctl/kernel.rst",
    ),
    Setting(
        "vm.zone_reclaim_mode",
        "0",
        "With it a NUMA node throws away its own page cache, that of the model's files among it, before it takes free "
        "memory of another node.",
        "Linux, admin-guide/sysctl/vm.rst",
    ),
    Setting(
        "vm.swappiness",
        "10",
        "Page cache shall go before the memory of the processes does; a rank that was swapped out answers late.",
        "Linux, admin-guide/sysctl/vm.rst; TuneD, profile throughput-performance",
        at_most=10,
    ),
    Setting(
        "vm.max_map_count",
        "1048576",
        "Memory that is registered with CUDA in pieces takes a mapping a piece, and a rank maps hundreds of libraries "
        "beside; at 65530 mappings cudaHostRegister fails as if memory were out.",
        "QMCPACK/qmcpack#5557; pytorch/pytorch#60626",
        at_least=262144,
    ),
    Setting(
        "vm.overcommit_memory",
        "0",
        "With 2 all mappings together may not pass the commit limit, half of the memory by default, which pinned pools "
        "do.",
        "Linux, mm/overcommit-accounting.rst",
        one_of=("0", "1"),
    ),
    Setting(
        "net.core.somaxconn",
        "4096",
        "The server's HTTP front asks for a queue of 2048 connections, which this caps.",
        "uvicorn, settings (--backlog, 2048); Linux, networking/ip-sysctl.rst (4096 since 5.4)",
        at_least=2048,
    ),
)

TRANSPARENT_HUGEPAGES: tuple[Setting, ...] = (
    Setting(
        "enabled",
        "madvise",
        "Pools that SGLang populates with several threads ask for transparent huge pages; with never each page of "
        "4 KiB is faulted and registered alone.",
        "SGLang, mem_cache/storage/mmap/mmap_allocator.py; Linux, admin-guide/mm/transhuge.rst",
        one_of=("always", "madvise"),
    ),
    Setting(
        "defrag",
        "madvise",
        "Who asks for huge pages waits until the kernel has made room for them, so that a pool gets all of them; with "
        "never it gets what lies there.",
        "Linux, admin-guide/mm/transhuge.rst",
        one_of=("always", "defer", "defer+madvise", "madvise"),
    ),
)


def chosen_settings(table: Sequence[Setting], given: dict[str, str | None]) -> list[tuple[Setting, bool]]:
    """The table with what a person gives instead, and whether it was given; None leaves a setting alone."""
    known = {setting.name: setting for setting in table}
    found = [(setting, False) for setting in table if setting.name not in given]
    for name, value in given.items():
        if value is not None:
            reason = known[name].reason if name in known else ""
            found.append((Setting(name, value, reason, "node_tuning's variables"), True))
    return found
