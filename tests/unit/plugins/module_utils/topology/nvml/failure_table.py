# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Runs the reader through every failure of the NVML stand-in and prints what came of each case, as lines of JSON.

A program of its own, because a loaded NVML cannot be unloaded: C(failure_table.py LIBRARY MACHINE_FILE). The stand-in
reads its machine file again whenever it has changed, so that one process can try thousands of failures.
"""

import ctypes
import json
import re
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pynvml

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.asking import read_nvml
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.process import in_process
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.survey import survey
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.topology.readings import HOST, NODES, pci

# The errors that matter to a survey, as NVML names them.
ERRORS = (
    "UNINITIALIZED",
    "INVALID_ARGUMENT",
    "NOT_SUPPORTED",
    "NO_PERMISSION",
    "NOT_FOUND",
    "DRIVER_NOT_LOADED",
    "TIMEOUT",
    "LIBRARY_NOT_FOUND",
    "FUNCTION_NOT_FOUND",
    "GPU_IS_LOST",
    "RESET_REQUIRED",
    "LIB_RM_VERSION_MISMATCH",
    "ARGUMENT_VERSION_MISMATCH",
    "UNKNOWN",
)
# Three boards between which everything is met that is asked for: NVLink of both kinds and a fabric, a divided GPU, a
# board of before Ampere; processes of both kinds.
BOARD = """
uuid = GPU-{index}
address = 0000:{bus:02x}:00.0
pci_device_id = 0x233010de
minor = {index}
memory_total = 85899345920
memory_reserved = 536870912
memory_used = 0
architecture = {architecture}
compute_capability = {capability}
compute_mode = 0
persistence = 1
performance_state = 0
utilization = 0 0
virtualization = NONE
memory_node = {index}
pcie_generation = 5
pcie_generation_max = 5
pcie_generation_gpu_max = 5
pcie_width = 16
pcie_width_max = 16
cpus = 0-7
numa = 0
ecc = 1 1
ecc_volatile = 0 0
ecc_aggregate = 0 0
"""
MACHINE = f"""
[system]
driver_version = 595.58.03
nvml_version = 13.595.58.03
cuda_version = 13020
process.4711 = /usr/bin/python3
[gpu 0]
name = NVIDIA H100 80GB HBM3
{BOARD.format(index=0, bus=6, architecture=9, capability="9.0")}
mig = 0 0
remapped_rows = 0 0 0 0
processes = 4711:1073741824
nvlink.0 = up 0000:07:00.0 gpu
nvlink.1 = up 0000:07:00.0 gpu
nvlink.2 = up 0000:86:00.0 switch
fabric = 3 0 0 0 1
[gpu 1]
name = NVIDIA A100-SXM4-80GB
{BOARD.format(index=1, bus=7, architecture=7, capability="8.0")}
mig = 1 1
mig_devices_max = 2
mig.0 = MIG-0 1 0 42412802048 NVIDIA A100-SXM4-80GB MIG 3g.40gb
remapped_rows = 0 0 0 0
nvlink.0 = up 0000:06:00.0 gpu
nvlink.1 = up 0000:06:00.0 gpu
[gpu 2]
name = Tesla T4
{BOARD.format(index=2, bus=8, architecture=6, capability="7.5")}
retired_pages = 1 0 0
graphics_processes = 2201:8388608
[pair 0 1]
level = PIX
p2p = OK
[pair 0 2]
level = NODE
p2p = OK
[pair 1 2]
level = NODE
p2p = OK
"""


@dataclass(frozen=True)
class Case:
    function: str
    error: str
    first: int
    gpu: int | None = None

    @property
    def line(self) -> str:
        where = "" if self.gpu is None else f" gpu={self.gpu}"
        return f"{self.function} = {self.error} from={self.first}{where}"


def survey_once(asked: Counter[str], asked_of_one: Counter[str]) -> dict[str, Any]:
    """What the module would return, and how often it asked for what: of all GPUs and of GPU 1."""
    answered = in_process(pynvml)
    handles: dict[int, int] = {}

    def call(name: str, arguments: Sequence[Any]) -> dict[str, Any]:
        function = re.sub(r"^nvml|_v\d$", "", name)
        asked[function] += 1
        reply = answered(name, arguments)
        if function == "DeviceGetHandleByIndex" and "value" in reply:
            handles[reply["value"]["handle"]] = arguments[0]
        about = handles.get(arguments[0]["handle"]) if arguments and isinstance(arguments[0], dict) else None
        if about == 1 or (function == "DeviceGetHandleByIndex" and arguments[0] == 1):
            asked_of_one[function] += 1
        return reply

    buses = [pci(6, generation=5), pci(7, generation=5), pci(8, generation=5)]
    result = survey(HOST, NODES, buses, read_nvml(call)).as_dict()
    json.dumps(result, allow_nan=False)
    return result


def cases(asked: Counter[str], asked_of_one: Counter[str]) -> Iterator[Case]:
    """Each error at each function from its first call on, from its second, at its last and after its last; at each
    function for GPU 1; and at all functions from each third call on."""
    for function, count in asked.items():
        for error in ERRORS:
            for first in sorted({1, 2, count, count + 2}):
                yield Case(function, error, first)
    for function in asked_of_one:
        for error in ERRORS:
            yield Case(function, error, 1, gpu=1)
    for error in ERRORS:
        for first in range(1, sum(asked.values()) + 1, 3):
            yield Case("*", error, first)


def main(library: str, file: Path) -> None:
    ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)

    def write(number: int, line: str) -> None:
        # The stand-in sees a change by time and size, and the clock of a file system can be slow.
        file.write_text(f"{MACHINE}[faults]\n{line:<{80 + number % 80}}\n", encoding="utf-8")

    write(0, "")
    asked: Counter[str] = Counter()
    asked_of_one: Counter[str] = Counter()
    healthy = survey_once(asked, asked_of_one)
    print(json.dumps({"healthy": healthy, "asked": asked}))
    for number, case in enumerate(cases(asked, asked_of_one), 1):
        write(number, case.line)
        try:
            result = survey_once(Counter(), Counter())
        except Exception:
            print(json.dumps({**asdict(case), "traceback": traceback.format_exc()}))
            continue
        whole = [one == two for one, two in zip(result["gpus"], healthy["gpus"])]
        said = [problem for problem in result["problems"] if problem not in healthy["problems"]]
        told = {"gpus": len(result["gpus"]), "whole": whole, "links": result["gpu_links"] == healthy["gpu_links"]}
        print(json.dumps({**asdict(case), **told, "driver": result["driver"], "problems": said}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
