# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the compiled code of an environment means for the GPUs of a node."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.device_code import DeviceCode
from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.environment import Environment, Library
from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.loader import Missing
from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.problem_codes import problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.running import (
    JIT,
    NATIVE,
    best_way,
    capability_text,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem

NONE = "none"
# Every server needs these, on whatever GPU: PyTorch's kernels, its matrix products, the talk between GPUs.
_ALWAYS = re.compile(r"^(?:torch/lib/libtorch_cuda\.so|nvidia/.*/lib/lib(?:cublas|cublasLt|nccl)\.so)")
# SGLang's own kernels. From 0.3.9 on there are two builds, of which it loads one by the GPU (sgl_kernel/load_utils.py):
# that for Hopper on compute capability 9.0 and the other on all others.
_KERNELS = re.compile(r"^sgl_kernel/(?:(sm90|sm100)/)?common_ops\.")
_HOPPER = 90
# Packages whose libraries a server loads, at the start or when a model needs their kernels.
_SERVER = ("torch", "nvidia", "sgl_kernel", "sglang")
# A package that compiles its kernels at run time, and where it looks for nvcc (flashinfer/jit/cpp_ext.py, and
# torch/utils/cpp_extension.py): CUDA_HOME, PATH, /usr/local/cuda.
_COMPILES = "flashinfer"


@dataclass(frozen=True)
class Way:
    """How a GPU runs a library: C(way) is native, jit or none; C(parts) of its C(of) containers have code for it."""

    way: str
    parts: int
    of: int


def essential(path: str, architecture: int) -> bool:
    """Whether a server on this GPU cannot do without the library."""
    if _ALWAYS.match(path):
        return True
    kernels = _KERNELS.match(path)
    if kernels is None:
        return False
    return kernels.group(1) in (None, "sm90" if architecture == _HOPPER else "sm100")


def way_of(code: DeviceCode, architecture: int) -> Way:
    """Native where any of its code is, since sources for one generation of GPUs alone are usual in every library."""
    ways: dict[str | None, int] = {}
    for targets, count in code.items():
        way = best_way(targets, architecture)
        ways[way] = ways.get(way, 0) + count
    native, compiled = ways.get(NATIVE, 0), ways.get(JIT, 0)
    return Way(NATIVE if native else JIT if compiled else NONE, native + compiled, sum(code.values()))


def judged(
    environment: Environment, architectures: Sequence[int], missing: Sequence[Missing], system_compiler: str | None
) -> dict[str, Any]:
    """The result of compiled_architectures_info."""
    compiled = [library for library in environment.libraries if library.code]
    return {
        "packages_path": str(environment.packages),
        "libraries": [_library(library, architectures) for library in compiled],
        "loose_code": [
            {
                "package": loose.package,
                "files": loose.files,
                "targets": {target.name: count for target, count in sorted(loose.targets.items())},
            }
            for loose in environment.loose
        ],
        "gpus": [_gpu(architecture, compiled) for architecture in architectures],
        "missing_libraries": [
            {"library": one.library, "needed_by": list(one.needed_by), "of_driver": one.of_driver} for one in missing
        ],
        "compilers": {"system": system_compiler, "wheels": list(environment.compilers)},
        "read": {
            "libraries": len(environment.libraries),
            "bytes": sum(library.size_bytes for library in environment.libraries),
            "unreadable": list(environment.unreadable),
        },
        "problems": [
            one.as_dict() for one in _problems(environment, compiled, architectures, missing, system_compiler)
        ],
    }


def _library(library: Library, architectures: Iterable[int]) -> dict[str, Any]:
    ways = {capability_text(number): way_of(library.code, number) for number in architectures}
    return {
        "path": library.path,
        "package": library.package,
        "size_bytes": library.size_bytes,
        "targets": [target.name for target in library.targets],
        "parts": sum(library.code.values()),
        "gpus": {capability: {"way": way.way, "parts": way.parts} for capability, way in ways.items()},
    }


def _gpu(architecture: int, libraries: Iterable[Library]) -> dict[str, Any]:
    by_way: dict[str, list[str]] = {NATIVE: [], JIT: [], NONE: []}
    lacking = []
    for library in libraries:
        way = way_of(library.code, architecture).way
        by_way[way].append(library.path)
        if way == NONE and essential(library.path, architecture):
            lacking.append(library.path)
    return {
        "compute_capability": capability_text(architecture),
        "served": not lacking,
        **by_way,
        "lacking": lacking,
    }


def _problems(
    environment: Environment,
    compiled: Sequence[Library],
    architectures: Sequence[int],
    missing: Sequence[Missing],
    system_compiler: str | None,
) -> list[Problem]:
    found = []
    if not compiled:
        found.append(problem("no_device_code", f"No library in {environment.packages} has code for a GPU."))
    for number in architectures:
        for library in (one for one in compiled if essential(one.path, number)):
            way = way_of(library.code, number).way
            built = ", ".join(target.name for target in library.targets)
            if way == NONE:
                message = f"{library.path} is compiled for {built}, and not for compute capability "
                found.append(problem("device_code_missing", f"{message}{capability_text(number)}."))
            elif way == JIT:
                message = f"{library.path} has only PTX for compute capability {capability_text(number)}, of {built}."
                found.append(problem("device_code_ptx_alone", message))
    for one in missing:
        others = f" and {len(one.needed_by) - 1} more" if len(one.needed_by) > 1 else ""
        message = f"{one.library} is asked for by {one.needed_by[0]}{others}, and no folder of the loader has it."
        if not one.of_driver:
            needed = any(path.partition("/")[0] in _SERVER for path in one.needed_by)
            code = "shared_library_missing" if needed else "shared_library_missing_elsewhere"
            found.append(problem(code, message))
        elif architectures:
            found.append(problem("driver_library_missing", message))
    if environment.unreadable:
        found.append(problem("library_unreadable", f"No 64-bit ELF file: {', '.join(environment.unreadable[:5])}."))
    if (environment.packages / _COMPILES).is_dir() and architectures and system_compiler is None:
        said = f"The wheels bring {environment.compilers[0]}." if environment.compilers else "No wheel brings one."
        found.append(problem("compiler_missing", f"No nvcc in PATH or /usr/local/cuda. {said}"))
    return found
