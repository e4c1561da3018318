# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernel's settings for memory, and how its free memory is cut up."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import KIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import (
    FreeZone,
    Memory,
    OrderedFree,
    Overcommit,
    SharedMemory,
    Swap,
    SwapDevice,
    TransparentHugepage,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.security import chosen_mode
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.texts import parse_meminfo

_POLICIES = {0: "heuristic", 1: "always", 2: "never"}
_ZONE = re.compile(r"^Node\s+(\d{1,6}), zone\s+(\S+)\s+((?:\d+\s*)*)$")
# Linux allows for 2^10 pages of 4 KiB, and for blocks of 16 GiB with the largest pages.
_ORDERS_LIMIT = 32
_COUNT_LIMIT = 1 << 48
_ZONES_LIMIT = 4096
_SHM_OPTION = re.compile(r"(?:^|,)size=(\d{1,18})([kmg%]?)(?:,|$)", re.IGNORECASE)
_ONLY_4K = ("x86_64", "i686", "s390x")


def small_number(text: str | None) -> int | None:
    """A number that is not negative; None for anything else."""
    stripped = (text or "").strip()
    return int(stripped) if re.match(r"^\d{1,18}$", stripped) else None


def parse_buddyinfo(text: str | None, page_bytes: int | None) -> tuple[FreeZone, ...]:
    """/proc/buddyinfo: the number of free blocks of 1, 2, 4... pages, a line for each zone of a node."""
    zones = []
    for line in (text or "").splitlines()[:_ZONES_LIMIT]:
        match = _ZONE.match(line.strip())
        if match is None:
            continue
        counts = [min(int(word[:18]), _COUNT_LIMIT) for word in match.group(3).split()[:_ORDERS_LIMIT]]
        orders = []
        for order, blocks in enumerate(counts):
            each = None if page_bytes is None else page_bytes << order
            orders.append(OrderedFree(order, each, blocks, None if each is None else each * blocks))
        largest = max((entry.bytes_each for entry in orders if entry.blocks and entry.bytes_each), default=None)
        zones.append(FreeZone(int(match.group(1)), match.group(2), tuple(orders), largest))
    return tuple(zones)


def parse_swaps(text: str | None) -> tuple[SwapDevice, ...]:
    """/proc/swaps: name, type, size and use in KiB, after a line of titles."""
    found = []
    for line in (text or "").splitlines()[1:1025]:
        words = line.split()
        if len(words) >= 4 and words[-3].isdigit() and words[-2].isdigit():
            size, used = int(words[-3][:18]), int(words[-2][:18])
            # The kernel writes blanks in names as \040.
            name = " ".join(words[:-4]).replace("\\040", " ")
            found.append(SwapDevice(name, words[-4], size * KIB, used * KIB))
    return tuple(found)


def shm_from_mounts(text: str | None, total_bytes: int | None) -> int | None:
    """The size of /dev/shm by its mount options; a tmpfs without any may grow to half of the memory."""
    for line in (text or "").splitlines():
        words = line.split()
        if len(words) < 4 or words[1] != "/dev/shm" or words[2] != "tmpfs":
            continue
        option = _SHM_OPTION.search(words[3])
        if option is None:
            return None if total_bytes is None else total_bytes // 2
        number, unit = int(option.group(1)), option.group(2).lower()
        if unit == "%":
            return None if total_bytes is None else total_bytes * number // 100
        return number << {"": 0, "k": 10, "m": 20, "g": 30}[unit]
    return None


def page_size(architecture: str | None, kernel: str | None, config: str | None) -> int | None:
    """The page size of a recorded machine: some architectures have one only, for others the kernel's name tells."""
    if architecture in _ONLY_4K:
        return 4 * KIB
    match = re.search(r"^CONFIG_(?:ARM64_|PPC_)?(?:PAGE_SIZE_)?(4|16|64)K(?:_PAGES|B)?=y", config or "", re.MULTILINE)
    if match:
        return int(match.group(1)) * KIB
    if kernel and re.search(r"[-+._]64k\b", kernel):
        return 64 * KIB
    return None


def _read_page_size(tree: Tree, architecture: str | None, kernel: str | None) -> int | None:
    if tree.live:
        return os.sysconf("SC_PAGE_SIZE")
    config = tree.text(f"boot/config-{kernel}", 1 << 20) if kernel else None
    return page_size(architecture, kernel, config)


def read_shm(tree: Tree, memory: Mapping[str, int]) -> SharedMemory:
    size = shm_from_mounts(tree.text("proc/self/mounts", 4 << 20), memory.get("MemTotal"))
    path = tree.path("dev/shm")
    if size is None or not tree.live or path is None:
        return SharedMemory(size_bytes=size)
    try:
        found = os.statvfs(path)
    except OSError:
        return SharedMemory(size_bytes=size)
    return SharedMemory(
        size_bytes=found.f_blocks * found.f_frsize, used_bytes=(found.f_blocks - found.f_bfree) * found.f_frsize
    )


def read_memory(tree: Tree, architecture: str | None, kernel: str | None) -> Memory:
    page_bytes = _read_page_size(tree, architecture, kernel)
    meminfo = parse_meminfo(tree.text("proc/meminfo"))
    thp = "sys/kernel/mm/transparent_hugepage"
    policy = small_number(tree.text("proc/sys/vm/overcommit_memory"))
    return Memory(
        page_bytes=page_bytes,
        total_bytes=meminfo.get("MemTotal"),
        transparent_hugepage=TransparentHugepage(
            enabled=chosen_mode(tree.text(f"{thp}/enabled")),
            defrag=chosen_mode(tree.text(f"{thp}/defrag")),
            shmem_enabled=chosen_mode(tree.text(f"{thp}/shmem_enabled")),
        ),
        swap=Swap(
            total_bytes=meminfo.get("SwapTotal"),
            free_bytes=meminfo.get("SwapFree"),
            swappiness=small_number(tree.text("proc/sys/vm/swappiness")),
            devices=parse_swaps(tree.text("proc/swaps")),
        ),
        overcommit=Overcommit(
            policy=None if policy is None else _POLICIES.get(policy),
            ratio=small_number(tree.text("proc/sys/vm/overcommit_ratio")),
            limit_bytes=meminfo.get("CommitLimit"),
            committed_bytes=meminfo.get("Committed_AS"),
        ),
        shm=read_shm(tree, meminfo),
        zone_reclaim_mode=small_number(tree.text("proc/sys/vm/zone_reclaim_mode")),
        numa_balancing=small_number(tree.text("proc/sys/kernel/numa_balancing")),
        free_by_order=parse_buddyinfo(tree.text("proc/buddyinfo"), page_bytes),
    )
