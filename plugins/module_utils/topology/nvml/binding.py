# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""nvidia-ml-py made plain: the name of a function in, an answer out that JSON can hold, whatever the release of
nvidia-ml-py, the library or the driver do.

An answer is C({"value": ...}), or C({"error": ..., "text": ...}) with the name of NVML's error. Handles stay here and
go out as C({"handle": number}); given back as an argument they are looked up again.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import one_line

# NVML API reference, nvmlReturn_t: all of it, in the header's words (nvml.h of CUDA 13.5, nvidia-ml-py 13.615.71).
ERRORS = {
    1: "uninitialized",
    2: "invalid_argument",
    3: "not_supported",
    4: "no_permission",
    5: "already_initialized",
    6: "not_found",
    7: "insufficient_size",
    8: "insufficient_power",
    9: "driver_not_loaded",
    10: "timeout",
    11: "irq_issue",
    12: "library_not_found",
    13: "function_not_found",
    14: "corrupted_inforom",
    15: "gpu_is_lost",
    16: "reset_required",
    17: "operating_system",
    18: "lib_rm_version_mismatch",
    19: "in_use",
    20: "memory",
    21: "no_data",
    22: "vgpu_ecc_not_supported",
    23: "insufficient_resources",
    24: "freq_not_supported",
    25: "argument_version_mismatch",
    26: "deprecated",
    27: "not_ready",
    28: "gpu_not_found",
    29: "invalid_state",
    30: "reset_type_not_supported",
    999: "unknown",
}


class FabricInfo(ctypes.Structure):
    """nvmlGpuFabricInfo_t."""

    _fields_ = [
        ("clusterUuid", ctypes.c_ubyte * 16),
        ("status", ctypes.c_uint),
        ("cliqueId", ctypes.c_uint),
        ("state", ctypes.c_ubyte),
    ]


class FabricInfoV2(ctypes.Structure):
    """nvmlGpuFabricInfo_v2_t."""

    _fields_ = [("version", ctypes.c_uint), *FabricInfo._fields_, ("healthMask", ctypes.c_uint)]


class FabricInfoV3(ctypes.Structure):
    """nvmlGpuFabricInfo_v3_t."""

    _fields_ = [*FabricInfoV2._fields_, ("healthSummary", ctypes.c_ubyte)]


# Structures that the caller of NVML brings along, with their version words (size, and the version from bit 24 on). Not
# those of nvidia-ml-py: to 12.560 their UUID is five times too long, and the state is four bytes instead of one in all.
STRUCTURES: dict[str, tuple[type[ctypes.Structure], int | None]] = {
    "fabric_v3": (FabricInfoV3, 0x03000028),
    "fabric_v2": (FabricInfoV2, 0x02000024),
    "fabric_v1": (FabricInfo, None),
}
# nvmlProcessInfo_v1_t; nvmlProcessInfo_v2_t and that of version 3. Release 12.535.77 of nvidia-ml-py has entries of
# another size, so that what it gives for all processes but the first is nonsense.
PROCESS_ENTRY_BYTES = (16, 24)
# More than any true answer holds; what a broken driver says beyond that is left out.
MAX_ITEMS = 4096
MAX_TEXT = 1024
MAX_DEPTH = 5


def error_name(error: BaseException) -> str:
    """C(gpu_is_lost) and the like. What is missing in nvidia-ml-py itself counts as a missing function, and so does
    the exception that some of its releases have for a library which is older than they are."""
    if isinstance(error, AttributeError) or type(error).__name__ == "NVMLLibraryMismatchError":
        return "function_not_found"
    code = getattr(error, "value", None)
    return ERRORS.get(code, f"error_{code}") if isinstance(code, int) else type(error).__name__


def error_text(error: BaseException) -> str:
    """nvidia-ml-py asks the library for the words, which can fail in turn."""
    try:
        return plain_text(str(error)) or error_name(error)
    except Exception:
        return error_name(error)


def plain_text(value: str | bytes) -> str:
    """nvidia-ml-py gives str, some functions and older releases bytes; C ends a text with a NUL."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return one_line(text.split("\0")[0][:MAX_TEXT])


def plain(value: Any, handles: list[Any], depth: int = 0) -> Any:
    """What nvidia-ml-py returns as what JSON can hold; None for what is neither a value nor a handle."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (str, bytes)):
        return plain_text(value)
    if isinstance(value, ctypes._Pointer):
        handles.append(value)
        return {"handle": len(handles) - 1}
    if depth == MAX_DEPTH:
        return None
    if isinstance(value, ctypes.Structure):
        names = [field[0] for field in value._fields_]
        return {name: plain(getattr(value, name), handles, depth + 1) for name in names}
    if isinstance(value, (list, tuple, ctypes.Array)):
        return [plain(item, handles, depth + 1) for item in value[:MAX_ITEMS]]
    if isinstance(value, ctypes._SimpleCData):
        return plain(value.value, handles, depth + 1)
    if hasattr(value, "__dict__"):
        return {str(name): plain(item, handles, depth + 1) for name, item in vars(value).items()}
    return None


def _made(name: str) -> ctypes.Structure:
    kind, version = STRUCTURES[name]
    # The version is the first field of those that have one.
    return kind() if version is None else kind(version)


def _fault(binding: Any, name: str) -> str | None:
    """What is known to be wrong with the function in this release of nvidia-ml-py."""
    if not hasattr(binding, name):
        return "this release of nvidia-ml-py lacks it"
    if name.endswith("RunningProcesses"):
        entry = getattr(binding, "c_nvmlProcessInfo_v3_t", None) or getattr(binding, "c_nvmlProcessInfo_t", None)
        if entry is not None and ctypes.sizeof(entry) not in PROCESS_ENTRY_BYTES:
            return "this release of nvidia-ml-py has a wrong idea of what the driver fills in"
    return None


def answer(binding: Any, handles: list[Any], name: str, arguments: Sequence[Any]) -> dict[str, Any]:
    """Call one function of C(binding), which is the module pynvml.

    An argument C({"structure": name}) stands for one of C(STRUCTURES); what NVML fills in is the answer.
    """
    fault = _fault(binding, name)
    if fault is not None:
        return {"error": "function_not_found", "text": fault}
    filled = None
    try:
        given = []
        for argument in arguments:
            if isinstance(argument, dict) and "handle" in argument:
                given.append(handles[argument["handle"]])
            elif isinstance(argument, dict):
                filled = _made(argument["structure"])
                given.append(ctypes.byref(filled))
            else:
                given.append(argument)
        returned = getattr(binding, name)(*given)
        return {"value": plain(returned if filled is None else filled, handles)}
    # nvidia-ml-py raises more than its own error: for an attribute that a release lacks, a parameter it does not
    # know, text that is no UTF-8, an array that no memory is left for.
    except Exception as error:
        return {"error": error_name(error), "text": error_text(error)}
