# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Probes many machines in one process, as a program of its own: an NVML that is loaded cannot be unloaded.

    GPUFLEET_NVML_MACHINE=FILE python -m ....probe_machines LIBRARY FOLDER

Each folder below FOLDER is a machine; its machine.nvml takes the place of FILE, which the stand-in reads again. What
was surveyed goes out as one line of JSON a machine.
"""

import ctypes
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pynvml

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.host import read_driver_version, read_host
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.numa import read_numa_nodes
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.pci import read_pci_gpus
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Machine
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.asking import read_nvml
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.binding import answer
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.survey import survey


def probed(root: Path, spoken_of: Path) -> Machine:
    fresh = spoken_of.with_name(spoken_of.name + ".fresh")
    shutil.copy(root / "machine.nvml", fresh)
    fresh.replace(spoken_of)
    handles: list[Any] = []

    def call(name: str, arguments: Sequence[Any]) -> dict[str, Any]:
        return answer(pynvml, handles, name, arguments)

    host = read_host(root)
    reading = read_nvml(call, root)
    return survey(host, read_numa_nodes(root, host), read_pci_gpus(root), reading, read_driver_version(root))


def main() -> None:
    library, folder = sys.argv[1:]
    # nvidia-ml-py opens NVML by its SONAME, which is then the one that is loaded already.
    ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    spoken_of = Path(os.environ["GPUFLEET_NVML_MACHINE"])
    for root in sorted(Path(folder).iterdir()):
        sys.stdout.write(json.dumps({"machine": root.name, "survey": probed(root, spoken_of).as_dict()}) + "\n")


if __name__ == "__main__":
    main()
