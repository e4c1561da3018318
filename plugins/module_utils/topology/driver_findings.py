# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wrong between the driver and the boards: NVML's failures, and GPUs that only one side knows."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.joined import Joined, spelled
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml import Failure, NvmlReading
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.pci import PciGpu
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.problem_codes import problem

_INIT_CODES = {
    "driver_not_loaded": "nvml_driver_not_loaded",
    "version_mismatch": "nvml_version_mismatch",
    "no_permission": "nvml_no_permission",
    "library_not_found": "nvml_library_not_found",
}
_CALL_CODES = {"function_not_found": "nvml_function_missing", "not_supported": "nvml_not_supported"}
_LOST_CODES = {"gpu_is_lost": "gpu_lost", "reset_required": "gpu_reset_required"}


def nvml_problems(nvml: NvmlReading | None) -> list[Problem]:
    if nvml is None:
        return []
    if nvml.driver.source != "nvml":
        first = nvml.failures[0]
        return [problem(_INIT_CODES.get(first.error, "nvml_unusable"), f"NVML did not start: {first.text}.")]
    lost: dict[tuple[str, int], Failure] = {}
    for failure in nvml.failures:
        if failure.error in _LOST_CODES and failure.gpu is not None:
            lost.setdefault((_LOST_CODES[failure.error], failure.gpu), failure)
    found = [
        problem(code, f"GPU {gpu}: {failure.text} (first said by {failure.function}).")
        for (code, gpu), failure in lost.items()
    ]
    # What a lost GPU does not answer beyond that needs no line of its own.
    silent = {gpu for _code, gpu in lost}
    grouped: dict[tuple[str, str], list[Failure]] = {}
    for failure in nvml.failures:
        if failure.gpu not in silent and failure.error not in _LOST_CODES:
            grouped.setdefault((failure.function, failure.text), []).append(failure)
    for (function, text), failures in grouped.items():
        gpus = sorted({failure.gpu for failure in failures if failure.gpu is not None})
        where = f" for GPU {spelled(gpus)}" if gpus else ""
        found.append(problem(_CALL_CODES.get(failures[0].error, "nvml_call_failed"), f"{function}{where}: {text}."))
    return found


def inventory_problems(pairs: Sequence[Joined], pci_gpus: Sequence[PciGpu], answered: bool) -> list[Problem]:
    """Which GPUs there are and who knows of them."""
    found = []
    if not pairs and not pci_gpus:
        found.append(problem("no_gpu", "No NVIDIA GPU was found."))
    seen = {id(one.pci) for one in pairs}
    for pci in pci_gpus:
        holder = f"kernel driver {pci.kernel_driver}" if pci.kernel_driver else "no kernel driver"
        if answered and id(pci) not in seen:
            found.append(
                problem("gpu_not_in_nvml", f"{pci.address} ({pci.pci_id}, {holder}) is not among NVML's GPUs.")
            )
        elif pci.kernel_driver not in (None, "nvidia"):
            found.append(problem("gpu_foreign_driver", f"{pci.address} is held by {holder}."))
    if answered and pci_gpus:
        unseen = [one.gpu.index for one in pairs if one.pci is None]
        if unseen:
            found.append(
                problem("gpu_not_on_pci", f"GPU {spelled(unseen)} is not among the PCI devices of the kernel.")
            )
    if not answered:
        known = [one.gpu.index for one in pairs if one.gpu.memory_source == "catalogue"]
        if known:
            names = sorted({one.gpu.name or "" for one in pairs if one.gpu.index in known})
            found.append(problem("gpu_memory_from_catalogue", f"GPU {spelled(known)}: taken to be {spelled(names)}."))
        unknown = [one.gpu for one in pairs if one.gpu.memory_source is None]
        if unknown:
            ids = spelled(sorted({gpu.pci_device_id or "" for gpu in unknown}))
            indexes = spelled(gpu.index for gpu in unknown)
            found.append(problem("gpu_board_unknown", f"GPU {indexes}: the catalogue does not hold {ids}."))
    return found
