# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is free of the GPUs of a server that runs, as NVML tells it.

PyTorch keeps what it once took, so what a server leaves free now is the least that it left free since its caches were
last flushed. That holds only while nobody else is on its GPUs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.measured.accuracy import number


def free_while_serving(gpus: Any, used: Iterable[int | None], own: Collection[int | None]) -> tuple[int | None, str]:
    """(least that is free of the GPUs that are used, why that is not known).

    C(gpus) as gpu_topology_info returns them, C(own) the processes of the server.
    """
    found = gpus if isinstance(gpus, (list, tuple)) else ()
    by_index = {gpu.get("index"): gpu for gpu in found if isinstance(gpu, Mapping)}
    free = []
    for index in used:
        gpu = by_index.get(index)
        left = number(gpu.get("memory_free_bytes")) if gpu else None
        if gpu is None or left is None:
            return None, "the memory of its GPUs was not measured"
        pids = {process.get("pid") for process in gpu.get("processes") or []}
        if not pids or not pids <= set(own):
            return None, f"GPU {index} " + ("has other processes too" if pids else "does not tell its processes")
        free.append(int(left))
    return (min(free), "") if free else (None, "it has no GPUs")
