# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Asks NVML for no more than the memory of some GPUs and who holds it, so that it can be asked again and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.holders import GpuMemory, GpuUser, Process
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.process_reading import read_process
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.asking import MAX_GPUS
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.calls import anything, asker, text, whole
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.gpu import read_memory
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.process import Call
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.reading import Failure
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.use import read_processes


class GpuReader:
    """NVML, started once; C(failures) are what it did not answer, and C(missing) GPUs that were named and are not
    there. Handles are looked up once, as only memory and processes change."""

    def __init__(self, call: Call, root: Path, wanted: Sequence[str] | None) -> None:
        self.failures: list[Failure] = []
        self._ask = asker(call, self.failures)
        self._root = root
        self._ask(anything, "nvmlInit")
        self.started = not self.failures
        self._handles: dict[int, tuple[Any, GpuMemory]] = {}
        self.missing: tuple[str, ...] = tuple(wanted or ())
        if self.started:
            self._find(wanted)

    def _find(self, wanted: Sequence[str] | None) -> None:
        count = self._ask(whole(0, MAX_GPUS), "nvmlDeviceGetCount") or 0
        found = set()
        for index in range(count):
            by_index = wanted is None or str(index) in wanted
            # The UUID is only asked of GPUs that may be named by it: a lost GPU of another instance is left alone.
            if not by_index and all(name.isdigit() for name in wanted or ()):
                continue
            handle = self._ask(anything, "nvmlDeviceGetHandleByIndex", index, gpu=index)
            uuid = None if handle is None else self._ask(text, "nvmlDeviceGetUUID", handle, gpu=index)
            if handle is None or not (by_index or uuid in (wanted or ())):
                continue
            found.update({str(index), uuid})
            name = self._ask(text, "nvmlDeviceGetName", handle, gpu=index)
            self._handles[index] = (handle, GpuMemory(index, uuid, name))
        self.missing = tuple(name for name in self.missing if name not in found)

    def read(self) -> tuple[GpuMemory, ...]:
        found = []
        for index, (handle, gpu) in self._handles.items():
            memory = read_memory(self._ask, handle, index)
            users = []
            for one in read_processes(self._ask, handle, index, self._root):
                # The driver also lists processes of other containers, which this /proc may not show.
                process = read_process(self._root, one.pid) or Process(one.pid, one.name)
                users.append(GpuUser(process, one.memory_used_bytes, one.kind))
            gpu = replace(gpu, users=tuple(users))
            if memory is not None:
                gpu = replace(
                    gpu,
                    memory_total_bytes=memory.total,
                    memory_reserved_bytes=memory.reserved,
                    memory_used_bytes=memory.used,
                    memory_free_bytes=memory.free,
                )
            found.append(gpu)
        return tuple(found)
