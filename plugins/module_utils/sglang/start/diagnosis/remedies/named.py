# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Remedies for ports, drivers, GPUs and files: what the line names is put into the sentence. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB, MIB, format_gib
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.xids import xid_meaning
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.remedies.case import (
    Case,
    Finding,
    known,
    plain,
)

# A segment of NCCL is about 10 MiB a pair of ranks; so much a rank leaves room for all of them.
SHM_PER_RANK_BYTES = 1 * GIB


def port_in_use(case: Case) -> Finding:
    argument = (case.plan.get("arguments") or {}).get("port")
    port = case.value("port") or argument
    pid, command, unit = (case.value(name) for name in ("owner_pid", "owner_command", "owner_unit"))
    owner = _owner(pid, command, unit)
    which = f"Port {port}" if port else "A port of the server"
    message = f"{which} is taken by {owner or 'another process'}."
    choose = "or choose another port"
    if port is not None and argument is not None and port != argument:
        choose = f"or choose another server.port: the ports beside it follow from it (now {argument})"
    stop = f"Stop {unit}" if unit else f"End process {pid}" if pid else "Stop the process that holds it (`ss -ltnp`)"
    return Finding(
        message,
        f"{stop}, {choose}.",
        known(port=port, pid=pid, command=command, unit=unit, owner=owner),
    )


def _owner(pid: Any, command: Any, unit: Any) -> str | None:
    if pid is None and command is None and unit is None:
        return None
    words = f"process {pid}" if pid is not None else "a process"
    if command:
        words += f" ({command})"
    return f"{words} of {unit}" if unit else words


def driver_too_old(case: Case) -> Finding:
    """PyTorch prints the driver's CUDA as 1000 x major + 10 x minor (cudaDriverGetVersion)."""
    found, number = plain(case), case.value("found_id")
    if not number:
        return found
    cuda = f"{number // 1000}.{number % 1000 // 10}"
    return Finding(
        f"The NVIDIA driver of this node knows CUDA {cuda} at most, and this PyTorch was built for a newer one.",
        f"Install the wheels that were built for CUDA {cuda}, or a newer driver.",
        {"driver_cuda": cuda},
    )


def context_too_long(case: Case) -> Finding:
    found, asked, derived = plain(case), case.value("context_tokens"), case.value("derived_tokens")
    if asked is None or derived is None:
        return found
    return Finding(
        f"A context length of {asked} tokens was asked for, and the model's own is {derived}.",
        f"Set context_length to {derived} or less.",
        {"context_length": derived, "asked_context_length": asked},
    )


def shared_memory_full(case: Case) -> Finding:
    found, needed = plain(case), case.value("needed_bytes")
    ranks = case.host.get("ranks") or case.state.expected.ranks
    wanted = max(needed or 0, ranks * SHM_PER_RANK_BYTES) if ranks else needed
    if wanted is None:
        return found
    message = (
        found.message
        if needed is None
        else (
            f"/dev/shm has no room for a segment of {needed / MIB:,.1f} MiB by which ranks of one node exchange data."
        )
    )
    return Finding(
        message,
        f"Give /dev/shm {format_gib(wanted)} (`mount -o remount,size=`, for a container --shm-size), and remove stale "
        "/dev/shm/nccl-* and torch_* files.",
        known(needed_bytes=needed, shm_bytes=wanted),
    )


def gpu_error(case: Case) -> Finding:
    """An Xid of the kernel's log."""
    xid, address = case.value("xid"), case.value("pci_address")
    meaning = xid_meaning(xid)
    where = f" of GPU {address}" if address else ""
    if meaning is None:
        return Finding(
            f"The driver reported Xid {xid}{where}.",
            plain(case).remedy,
            known(xid=xid, pci_address=address),
        )
    return Finding(
        f"The driver reported Xid {xid}{where}: {meaning.words}.",
        meaning.remedy,
        known(xid=xid, pci_address=address, hardware=meaning.hardware),
    )


def numactl_denied(case: Case) -> Finding:
    found = plain(case)
    reason = str(case.value("reason") or case.text)
    if "Operation not permitted" in reason:
        remedy = (
            "Let the unit call set_mempolicy and mbind (SystemCallFilter; CAP_SYS_NICE or no seccomp profile in a "
            "container), or set SGLANG_AUTO_NUMA_BIND to false."
        )
    elif "Invalid argument" in reason or "out of range" in reason:
        remedy = (
            "The unit's cpuset does not hold that NUMA node: correct AllowedMemoryNodes and AllowedCPUs of the unit "
            "and its slice, or --numa-node."
        )
    else:
        remedy = found.remedy
    nodes = case.value("node")
    return Finding(found.message, remedy, known(numa_node=nodes, reason=case.value("reason")))


def ranks_timed_out(case: Case) -> Finding:
    found = plain(case)
    stages: dict[str, list[str]] = {}
    for rank in case.state.ranks:
        stages.setdefault(rank.stage, []).append(rank.rank)
    values = known(operation=case.value("operation"), stages=stages if len(stages) > 1 else None)
    behind = _first_group(stages)
    if behind is not None:
        words = ", ".join(behind[1])
        return Finding(found.message, f"{words} did not get beyond {behind[0]}: look there. {found.remedy}", values)
    return Finding(found.message, found.remedy, values)


def _first_group(stages: Mapping[str, list[str]]) -> tuple[str, list[str]] | None:
    order = ("boot", "load", "device_pool", "capture", "host_pool", "warm_up")
    if len(stages) < 2:
        return None
    first = min(stages, key=lambda stage: order.index(stage) if stage in order else len(order))
    return first, stages[first]


def library_missing(case: Case) -> Finding:
    found = plain(case)
    library, symbol = case.value("library"), case.value("symbol")
    if symbol:
        remedy = (
            f"{library or 'A library'} was built for another version of what it uses (symbol {symbol}): install the "
            "pinned set of this release."
        )
    elif library:
        remedy = f"Install the package that holds {library} (`apt-file search {library}`), or correct its path."
    else:
        remedy = found.remedy
    return Finding(found.message, remedy, known(library=library, symbol=symbol))


def disk_full(case: Case) -> Finding:
    found, path = plain(case), case.value("path")
    if not path:
        return found
    return Finding(
        found.message,
        f"Free room or inodes of the file system of {path} (`df -h`, `df -i`), or point the cache elsewhere.",
        {"path": path},
    )
