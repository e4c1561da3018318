# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What holds up a start in which nothing moves, ranked by the evidence. Pure.

Each suspect has a weight: what is measured outweighs what is only usual in that stage, and what cannot pass by itself
outweighs what can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB, MIB, format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.binding_modes import STRICT
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.xids import (
    is_hardware,
    xid_meaning,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.troubles import rank_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.pinning import (
    pinned_bytes,
    planned_bytes,
    target_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import RankState, StartupState

# By code: what it weighs. Equal ones stay in the order of the evidence below.
WEIGHTS: dict[str, int] = {
    "stopped_by_signal": 100,
    "gpu_error": 95,
    "host_memory_short": 90,
    "control_group_short": 88,
    "numa_node_short": 86,
    "swapping": 80,
    "memory_pressure": 75,
    "waiting_for_disk": 70,
    "fragmented": 65,
    "waiting_in_kernel": 60,
    "earlier_pool": 55,
    "log_unreadable": 58,
    "nccl_warning": 50,
    "watchdog_soft": 45,
    "usual": 20,
    "rank_behind": 10,
}
# Percent of the last 10 s in which all (memory, disk) or some (memory) work stood still.
FULL_PERCENT = 10.0
SOME_PERCENT = 40.0
SWAP_BYTES = GB
# Below this share of what is free, or of what is still to be pinned, large blocks are rare.
LARGE_SHARE = 0.1
# With so many times what is still to be pinned, memory is not short.
PLENTY = 2


@dataclass(frozen=True)
class Suspect:
    code: str
    words: str
    rank: str | None = None

    @property
    def weight(self) -> int:
        return WEIGHTS[self.code]


_USUAL: dict[str, tuple[str, ...]] = {
    "boot": (
        "the ranks do not reach each other (collectives: interface, firewall, a missing rank)",
        "the model or tokenizer is fetched from a network that does not answer",
    ),
    "load": ("the weights come from a slow or hanging file system",),
    "device_pool": ("the driver does not answer: see `nvidia-smi` and Xid lines in `journalctl -k`",),
    "capture": ("kernels are being compiled for the first time", "the driver hangs: see Xid lines in `journalctl -k`"),
    "host_pool": (
        "memory is fragmented, so that pages are found slowly",
        "memory of an earlier server is still being given back",
        "the driver hangs while it registers memory: see Xid lines in `journalctl -k`",
    ),
    "warm_up": ("the first request compiles kernels", "the ranks wait for each other in a collective"),
}


def suspects(state: StartupState, plan: Mapping[str, Any]) -> tuple[Suspect, ...]:
    """Heaviest first."""
    found = [one for look in _LOOKS for one in look(state, plan)]
    return tuple(sorted(found, key=lambda one: -one.weight))


def _listed(ranks: list[str]) -> str:
    return ", ".join(ranks)


def missing_bytes(state: StartupState) -> int | None:
    """What is still to be pinned."""
    planned = planned_bytes(state)
    return None if planned is None else max(0, planned - (pinned_bytes(state) or 0))


def _processes(state: StartupState, plan: Mapping[str, Any]) -> Iterator[Suspect]:
    stopped = [rank.rank for rank in state.ranks if rank.state in ("T", "t")]
    waiting = [rank.rank for rank in state.ranks if rank.state == "D"]
    if stopped:
        words = f"{_listed(stopped)} stopped by a signal (SIGSTOP or a debugger); SIGCONT lets it go on"
        yield Suspect("stopped_by_signal", words, stopped[0])
    if not waiting:
        return
    full = state.host.io_full_avg10
    if full is not None and full >= FULL_PERCENT:
        words = (
            f"{_listed(waiting)} waiting for a disk or a network file system (all work stood still {full:g} % of 10 s)"
        )
        yield Suspect("waiting_for_disk", words, waiting[0])
    else:
        words = f"{_listed(waiting)} waiting in the kernel: a disk, a network file system or memory reclaim"
        yield Suspect("waiting_in_kernel", words, waiting[0])


def _gpus(state: StartupState, plan: Mapping[str, Any]) -> Iterator[Suspect]:
    for line in state.troubles:
        xid = line.value("xid")
        if line.label == "gpu_error" and is_hardware(xid):
            meaning = xid_meaning(xid)
            where = line.value("pci_address") or "a GPU"
            yield Suspect("gpu_error", f"Xid {xid} of {where}: {meaning.words if meaning else ''}", line.rank)
            return


def _memory(state: StartupState, plan: Mapping[str, Any]) -> Iterator[Suspect]:
    """What is too little for what is still to be pinned."""
    missing = missing_bytes(state)
    if state.stage != "host_pool" or not missing:
        return
    available, cgroup = state.host_available_bytes, state.cgroup
    if available is not None and missing > available:
        yield Suspect(
            "host_memory_short",
            f"host memory is short: {format_gb(missing)} still to be pinned and {format_gb(available)} available",
        )
    if cgroup.limit_bytes is not None and cgroup.current_bytes is not None:
        left = max(0, cgroup.limit_bytes - cgroup.current_bytes)
        if missing > left:
            yield Suspect(
                "control_group_short",
                f"the unit's control group leaves {format_gb(left)} of its {format_gb(cgroup.limit_bytes)}, and "
                f"{format_gb(missing)} are still to be pinned",
            )
    yield from _nodes(state, plan)


def _nodes(state: StartupState, plan: Mapping[str, Any]) -> Iterator[Suspect]:
    """A NUMA node that its ranks are bound to strictly."""
    host: Mapping[str, Any] = plan.get("host") or {}
    if host.get("numa_binding") != STRICT:
        return
    free = {one.node: one.free_bytes for one in state.host.numa_nodes}
    for share in host.get("numa") or ():
        there = free.get(share["node"])
        ranks = [rank for rank in state.ranks if _number(state, rank) in share["ranks"]]
        wanted = sum(_missing_of(state, rank) for rank in ranks)
        if there is not None and wanted and wanted > there:
            yield Suspect(
                "numa_node_short",
                f"NUMA node {share['node']} has {format_gb(there)} free, and {_listed([one.rank for one in ranks])} "
                f"still pin{'s' if len(ranks) == 1 else ''} {format_gb(wanted)} there",
                ranks[0].rank,
            )


def _number(state: StartupState, rank: RankState) -> int:
    return next(number for number, one in enumerate(state.ranks) if one.rank == rank.rank)


def _missing_of(state: StartupState, rank: RankState) -> int:
    return max(0, (target_bytes(state, rank) or 0) - (rank.pinned_bytes or 0))


def _pressure(state: StartupState, plan: Mapping[str, Any]) -> Iterator[Suspect]:
    host = state.host
    some, full, swap = host.memory_some_avg10 or 0.0, host.memory_full_avg10 or 0.0, host.swap_used_bytes or 0
    pressed = full >= FULL_PERCENT or some >= SOME_PERCENT
    if pressed and swap >= SWAP_BYTES:
        yield Suspect(
            "swapping",
            f"the kernel swaps ({format_gb(swap)} are swapped out, work waits for memory {max(some, full):g} % of it)",
        )
    elif pressed:
        yield Suspect(
            "memory_pressure", f"the kernel looks for memory (work waits for it {max(some, full):g} % of 10 s)"
        )


def _fragments(state: StartupState, plan: Mapping[str, Any]) -> Iterator[Suspect]:
    missing = missing_bytes(state)
    if state.stage != "host_pool" or not missing:
        return
    for node in state.host.numa_nodes:
        free, large = node.free_bytes, node.large_free_bytes
        if free is None or large is None or free < 64 * MIB:
            continue
        if large < LARGE_SHARE * min(free, missing):
            yield Suspect(
                "fragmented",
                f"memory of NUMA node {node.node} is fragmented: of {format_gb(free)} free only {format_gb(large)} lie "
                "in blocks of 2 MiB or more, so that pages are found slowly",
            )
            return


def _earlier(state: StartupState, plan: Mapping[str, Any]) -> Iterator[Suspect]:
    everyone, own = state.host.shmem_bytes, state.cgroup.shmem_bytes
    missing, available = missing_bytes(state), state.host_available_bytes
    if state.stage != "host_pool" or everyone is None or own is None:
        return
    # Where there is plenty beside it, nobody waits for what it holds.
    if missing is not None and available is not None and available >= PLENTY * missing:
        return
    if everyone - own >= GB:
        yield Suspect(
            "earlier_pool",
            f"processes outside of the unit hold {format_gb(everyone - own)} of shared memory, like an earlier server",
        )


def _hints(state: StartupState, plan: Mapping[str, Any]) -> Iterator[Suspect]:
    for code, words in (("nccl_warning", "NCCL warned"), ("watchdog_soft", "the soft watchdog spoke")):
        line = next((one for one in state.troubles if one.label == code), None)
        if line is not None:
            yield Suspect(code, f"{words}: {line.text}", rank_of(state, line))


def _blind(state: StartupState, plan: Mapping[str, Any]) -> Iterator[Suspect]:
    """What is not seen is not missing."""
    if state.log_unreadable:
        unseen = "nothing shows that it is this start which answers" if state.probe_doubted else "no line is seen"
        words = f"the log cannot be read, so that {unseen} (become root, or join systemd-journal)"
        yield Suspect("log_unreadable", words)


def _usual(state: StartupState, plan: Mapping[str, Any]) -> Iterator[Suspect]:
    for words in _USUAL.get(state.stage, ()):
        yield Suspect("usual", words)


def _behind(state: StartupState, plan: Mapping[str, Any]) -> Iterator[Suspect]:
    slow = ranks_behind(state)
    if slow:
        yield Suspect("rank_behind", f"the other ranks wait for {_listed([one.rank for one in slow])}", slow[0].rank)


def ranks_behind(state: StartupState) -> list[RankState]:
    """Ranks in an earlier stage, or with clearly fewer bytes, than the furthest one."""
    if len(state.ranks) < 2:
        return []
    if state.stage != "host_pool":
        slow = [rank for rank in state.ranks if rank.stage == state.stage]
        return slow if len(slow) < len(state.ranks) else []
    most = max(rank.pinned_bytes or 0 for rank in state.ranks)
    return [rank for rank in state.ranks if (rank.pinned_bytes or 0) < most - max(GB // 10, most // 20)]


_LOOKS: tuple[Callable[[StartupState, Mapping[str, Any]], Iterator[Suspect]], ...] = (
    _processes,
    _gpus,
    _memory,
    _pressure,
    _fragments,
    _earlier,
    _hints,
    _blind,
    _usual,
    _behind,
)
