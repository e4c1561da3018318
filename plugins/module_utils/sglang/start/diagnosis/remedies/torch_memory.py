# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What PyTorch says of a GPU that has no memory left. Pure.

Source: c10/cuda/CUDACachingAllocator.cpp, whose format_size gives bytes, KiB, MiB and GiB with two decimals; other
processes are named from 2.1 on where NVML tells them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB, KIB, MIB

_UNITS = {"bytes": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB}
_SIZE = r"(\d+(?:\.\d+)?) (bytes|[KMG]iB)"
_TRIED = re.compile(rf"Tried to allocate {_SIZE}")
_TOTAL = re.compile(rf"GPU (\d+) has a total capaci?ty of {_SIZE} of which {_SIZE} is free")
_OLDER = re.compile(rf"\(GPU (\d+); {_SIZE} total capacity; {_SIZE} already allocated; {_SIZE} free")
_PROCESS = re.compile(rf"Process (\d+) has {_SIZE} memory in use")
_OWN = re.compile(rf"this process has {_SIZE} memory in use")


@dataclass(frozen=True)
class TorchMemory:
    """Sizes in bytes, rounded as the line gives them. C(others): (pid, bytes) of other processes on that GPU."""

    tried_bytes: int | None = None
    gpu: int | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None
    own_bytes: int | None = None
    others: tuple[tuple[int, int], ...] = ()

    @property
    def missing_bytes(self) -> int | None:
        """What was free too little of for this one allocation."""
        if self.tried_bytes is None or self.free_bytes is None:
            return None
        return max(0, self.tried_bytes - self.free_bytes)

    @property
    def unexplained_bytes(self) -> int | None:
        """Held by nobody that is named: a process of another container, or memory that leaked with its process."""
        if self.total_bytes is None or self.free_bytes is None or self.own_bytes is None:
            return None
        named = self.own_bytes + sum(size for _pid, size in self.others)
        return max(0, self.total_bytes - self.free_bytes - named)


def _bytes(number: str, unit: str) -> int:
    return round(float(number) * _UNITS[unit])


def parse_torch_memory(text: str) -> TorchMemory:
    tried, own = _TRIED.search(text), _OWN.search(text)
    total, older = _TOTAL.search(text), _OLDER.search(text)
    gpu = total_bytes = free_bytes = None
    if total is not None:
        gpu = int(total.group(1))
        total_bytes, free_bytes = _bytes(total.group(2), total.group(3)), _bytes(total.group(4), total.group(5))
    elif older is not None:
        gpu = int(older.group(1))
        total_bytes, free_bytes = _bytes(older.group(2), older.group(3)), _bytes(older.group(6), older.group(7))
    return TorchMemory(
        _bytes(*tried.groups()) if tried else None,
        gpu,
        total_bytes,
        free_bytes,
        _bytes(*own.groups()) if own else None,
        tuple((int(pid), _bytes(number, unit)) for pid, number, unit in _PROCESS.findall(text)),
    )
