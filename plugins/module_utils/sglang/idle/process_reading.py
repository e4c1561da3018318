# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads processes and memory from /proc and /sys below a root. What is gone or may not be read is None."""

from __future__ import annotations

import os
import pwd
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import (
    cgroup_procs_paths,
    environment_value,
    parse_cgroup_procs,
    parse_stat,
    parse_status,
    title_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.holders import (
    BY_ENVIRONMENT,
    BY_FOLDER,
    HostMemory,
    HugePages,
    NodeMemory,
    Process,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.texts import (
    boot_time,
    container_of,
    unaccounted_bytes,
    user_id,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sockets import unit_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.files import (
    link_parts,
    names_in,
    read_bytes,
    read_text,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.numa import (
    NODES,
    read_hugepages,
    read_node_ids,
    reclaimable_of,
    share_available,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.texts import parse_meminfo
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.use import process_name

GENERATION = "GPUFLEET_GENERATION"
# systemd gives it to every process of a unit (systemd.exec(5)).
INVOCATION = "INVOCATION_ID"
MAX_CMDLINE = 4096
MAX_ENVIRONMENT = 1 << 18
# Processes of SGLang name themselves so (entrypoints/engine.py, managers/scheduler.py: setproctitle).
TITLE = "sglang::"
_DEAD = ("Z", "X", "x")


@dataclass(frozen=True)
class Instance:
    """What tells the processes of one instance from those of others.

    setproctitle writes over the environment of SGLang's ranks, so that a leaked one is known by its title and by the
    folder that the unit works in.
    """

    invocation_id: str | None = None
    generations: tuple[str, ...] = ()
    working_directory: str | None = None


@cache
def user_name(number: int) -> str:
    """Of this system; users of a container are numbers here."""
    try:
        return pwd.getpwuid(number).pw_name
    except (KeyError, OverflowError):
        return str(number)


def pids_in(root: Path, control_group: str | None) -> tuple[int, ...]:
    """The processes of a control group and of those below it."""
    for path in cgroup_procs_paths(control_group) if control_group else ():
        if read_text(root, path) is None:
            continue
        found: list[int] = []
        for folder, _folders, files in os.walk((root / path).parent):
            if "cgroup.procs" in files:
                text = read_text(root, str(Path(folder, "cgroup.procs").relative_to(root)))
                found.extend(parse_cgroup_procs(text or ""))
        return tuple(dict.fromkeys(found))
    return ()


def all_pids(root: Path) -> list[int]:
    return [int(name) for name in names_in(root, "proc") if name.isdigit()]


def read_process(root: Path, pid: int, belongs: str | None = None) -> Process | None:
    """None where it is gone."""
    stat = parse_stat(read_text(root, f"proc/{pid}/stat") or "")
    if stat is None:
        return None
    status_text = read_text(root, f"proc/{pid}/status") or ""
    status, cgroup = parse_status(status_text), read_text(root, f"proc/{pid}/cgroup") or ""
    number = user_id(status_text)
    booted = boot_time(read_text(root, "proc/stat") or "")
    return Process(
        pid=pid,
        name=process_name(read_bytes(root, f"proc/{pid}/cmdline", MAX_CMDLINE), stat.command.encode()),
        user=None if number is None else user_name(number),
        unit=unit_of(cgroup),
        container=container_of(cgroup),
        state=stat.state,
        parent=stat.parent or None,
        started_at=None if booted is None else round(booted + stat.start_ticks / os.sysconf("SC_CLK_TCK"), 2),
        start_ticks=stat.start_ticks,
        shmem_bytes=status.get("RssShmem"),
        anon_bytes=status.get("RssAnon"),
        hugetlb_bytes=status.get("HugetlbPages"),
        belongs=belongs,
    )


def read_processes(root: Path, pids: Iterable[int], belongs: str | None = None) -> list[Process]:
    return [one for one in (read_process(root, pid, belongs) for pid in pids) if one is not None]


def strays(root: Path, instance: Instance, known: Collection[int], own_pid: int) -> list[Process]:
    """Processes outside of the unit that look like SGLang's, with why they are this instance's, if they are.

    A process that only carries this instance's environment, such as a helper of a rank, counts as well.
    """
    found = []
    for pid in all_pids(root):
        if pid in known or pid == own_pid:
            continue
        cmdline = read_bytes(root, f"proc/{pid}/cmdline", MAX_CMDLINE)
        # Kernel threads have none.
        if not cmdline:
            continue
        titled = title_of(cmdline).startswith(TITLE)
        belongs = _belongs(root, pid, titled, instance)
        if belongs is None and not titled:
            continue
        process = read_process(root, pid, belongs)
        if process is not None and process.state not in _DEAD:
            found.append(process)
    return found


def _belongs(root: Path, pid: int, titled: bool, instance: Instance) -> str | None:
    environ = read_bytes(root, f"proc/{pid}/environ", MAX_ENVIRONMENT) or b""
    generation, invocation = environment_value(environ, GENERATION), environment_value(environ, INVOCATION)
    if generation is not None and generation in instance.generations:
        return BY_ENVIRONMENT
    if invocation is not None and invocation == instance.invocation_id:
        return BY_ENVIRONMENT
    folder = instance.working_directory
    if (
        titled
        and folder not in (None, "", "/")
        and "/".join(link_parts(root, f"proc/{pid}/cwd")).lstrip("/") == (str(folder).strip("/"))
    ):
        return BY_FOLDER
    return None


def still_there(root: Path, process: Process) -> Process | None:
    """The same process now; None where it ended or its number went to another."""
    now = read_process(root, process.pid, process.belongs)
    if now is None or now.start_ticks != process.start_ticks:
        return None
    return None if now.state in _DEAD else now


def memory_users(processes: Iterable[Process], most: int) -> list[Process]:
    """Those with the most host memory that pins or is shared: shared, private, in huge pages."""
    found = [process for process in processes if process.held_bytes]
    return sorted(found, key=lambda one: (-(one.shmem_bytes or 0) - (one.hugetlb_bytes or 0), -(one.held_bytes or 0)))[
        :most
    ]


def read_host(root: Path) -> HostMemory:
    memory = parse_meminfo(read_text(root, "proc/meminfo"))
    return HostMemory(
        total_bytes=memory.get("MemTotal"),
        available_bytes=memory.get("MemAvailable"),
        free_bytes=memory.get("MemFree"),
        shmem_bytes=memory.get("Shmem"),
        mlocked_bytes=memory.get("Mlocked"),
        unevictable_bytes=memory.get("Unevictable"),
        unaccounted_bytes=unaccounted_bytes(memory),
        hugepages=_hugepages(root, "sys/kernel/mm/hugepages"),
    )


def _hugepages(root: Path, relative: str) -> tuple[HugePages, ...]:
    return tuple(HugePages(one.size_bytes, one.total, one.free) for one in read_hugepages(root, relative) if one.total)


def read_nodes(root: Path, available_bytes: int | None) -> tuple[NodeMemory, ...]:
    ids, _offline = read_node_ids(root)
    memories = [parse_meminfo(read_text(root, f"{NODES}/node{node}/meminfo")) for node in ids]
    shares = share_available(available_bytes, [reclaimable_of(memory) for memory in memories])
    nodes = [
        NodeMemory(
            node=node,
            total_bytes=memory.get("MemTotal"),
            free_bytes=memory.get("MemFree"),
            available_bytes=share,
            shmem_bytes=memory.get("Shmem"),
            hugepages=_hugepages(root, f"{NODES}/node{node}/hugepages"),
        )
        for node, memory, share in zip(ids, memories, shares)
    ]
    # The only node has all that the host has, whatever a guest's kernel says of it.
    return (replace(nodes[0], available_bytes=available_bytes),) if len(nodes) == 1 else tuple(nodes)
