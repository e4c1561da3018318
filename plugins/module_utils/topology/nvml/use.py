# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the driver says of the use of a GPU: the processes on it, and how MIG divides it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import one_line
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.files import read_bytes
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import GpuProcess, MigDevice
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.calls import (
    LACKING,
    Ask,
    anything,
    required,
    text,
    whole,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.gpu import (
    MAX_BYTES,
    NOT_AVAILABLE,
    read_memory,
)

# Linux: PID_MAX_LIMIT.
MAX_PID = 1 << 22
# GPU and compute instances of one board: seven; the rest is for boards to come.
MAX_MIG_DEVICES = 64
MAX_NAME = 64
MAX_CMDLINE = 4096


def process_name(cmdline: bytes | None, comm: bytes | None) -> str | None:
    """The program, with the module or script that an interpreter runs; never other arguments, which may be secret."""
    words = [word.decode("utf-8", "replace") for word in (cmdline or b"").split(b"\0")]
    # A process can write its whole command line into the first word.
    name = words[0].split(" -")[0].strip()
    if name.startswith("/"):
        name = name.rsplit("/", 1)[1]
    if name.startswith("python") and len(words) > 2 and words[1] == "-m" and words[2]:
        name = f"{name} -m {words[2]}"
    elif name.startswith("python") and len(words) > 1 and words[1] and not words[1].startswith("-"):
        name = f"{name} {words[1]}"
    name = name or (comm or b"").decode("utf-8", "replace")
    return one_line(name, MAX_NAME) or None


def _name(ask: Ask, root: Path, pid: int) -> str | None:
    """From /proc, where the process can be seen; a driver also lists those of other containers."""
    cmdline = read_bytes(root, f"proc/{pid}/cmdline", MAX_CMDLINE)
    comm = read_bytes(root, f"proc/{pid}/comm", MAX_NAME)
    if cmdline is not None or comm is not None:
        return process_name(cmdline, comm)
    # The process may have ended meanwhile, or the driver may not know its name either.
    quiet = (*LACKING, "not_found", "no_permission")
    told = ask(text, "nvmlSystemGetProcessName", pid, quiet=quiet)
    return process_name(told.encode(), None) if told else None


def _processes(value: Any) -> list[tuple[int, int | None]]:
    """PID and bytes."""
    if not isinstance(value, list):
        raise TypeError
    bytes_held = whole(0, MAX_BYTES, unknown=NOT_AVAILABLE)
    held = [(entry["pid"], entry["usedGpuMemory"]) for entry in value]
    return [(required(pid, 1, MAX_PID), None if used is None else bytes_held(used)) for pid, used in held]


def _added(one: int | None, two: int | None) -> int | None:
    return None if one is None or two is None else one + two


def read_processes(ask: Ask, handle: Any, gpu: int, root: Path) -> tuple[GpuProcess, ...]:
    """One entry a process: on a divided GPU the driver lists it once a part that it uses, and one that computes and
    draws is in both lists."""
    held: dict[int, int | None] = {}
    kinds: dict[int, str] = {}
    for kind in ("compute", "graphics"):
        function = f"nvmlDeviceGet{kind.capitalize()}RunningProcesses"
        older = [(f"{function}_v2", (handle,))]
        listed = ask(_processes, function, handle, gpu=gpu, quiet=LACKING, older=older) or []
        for pid, used in listed:
            if kinds.setdefault(pid, kind) == kind:
                held[pid] = _added(held[pid], used) if pid in held else used
    return tuple(GpuProcess(pid, used, _name(ask, root, pid), kinds[pid]) for pid, used in held.items())


def read_mig_devices(ask: Ask, handle: Any, gpu: int) -> tuple[MigDevice, ...]:
    """The parts that the GPU is divided into. The places for them need not all be taken."""
    places = ask(whole(0, MAX_MIG_DEVICES), "nvmlDeviceGetMaxMigDeviceCount", handle, gpu=gpu, quiet=LACKING) or 0
    instance = whole(0, 2**16)
    found = []
    for place in range(places):
        empty = (*LACKING, "not_found", "invalid_argument")
        part = ask(anything, "nvmlDeviceGetMigDeviceHandleByIndex", handle, place, gpu=gpu, quiet=empty)
        if part is None:
            continue
        memory = read_memory(ask, part, gpu)
        found.append(
            MigDevice(
                uuid=ask(text, "nvmlDeviceGetUUID", part, gpu=gpu),
                name=ask(text, "nvmlDeviceGetName", part, gpu=gpu),
                memory_total_bytes=memory.total if memory else None,
                gpu_instance_id=ask(instance, "nvmlDeviceGetGpuInstanceId", part, gpu=gpu),
                compute_instance_id=ask(instance, "nvmlDeviceGetComputeInstanceId", part, gpu=gpu),
            )
        )
    return tuple(found)
