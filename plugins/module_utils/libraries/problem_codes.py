# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every problem of compiled libraries: code, severity, what it means, what to do about it."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, ProblemCode

CODES: dict[str, ProblemCode] = {
    "device_code_missing": ProblemCode(
        "error",
        "A library that every server needs has no code for a GPU of the node: the server fails with 'no kernel image "
        "is available for execution on the device', at times not before graphs are captured.",
        "Install wheels that are built for the GPU: stack_solution names the release and the line of CUDA.",
    ),
    "device_code_ptx_alone": ProblemCode(
        "warning",
        "A library that every server needs has PTX alone for a GPU: the driver compiles it at the first start, which "
        "takes minutes, and only where the driver is no older than the toolkit that made the PTX.",
        "Keep the driver's cache (CUDA_CACHE_PATH) where restarts find it, or take wheels built for the GPU.",
    ),
    "no_device_code": ProblemCode(
        "info",
        "Nothing in the environment is compiled for GPUs, as with builds for the CPU.",
        "Nothing to do on a host without GPUs; else install the wheels for CUDA.",
    ),
    "shared_library_missing": ProblemCode(
        "error",
        "A library asks for another that is neither in the environment nor where the loader looks. What needs it fails "
        "when it is imported, for kernels that are chosen by GPU or model not before the model is loaded.",
        "Install the package that has it: of CUDA the nvidia-* wheels of the line that the wheels are built for, else "
        "one of the distribution.",
    ),
    "shared_library_missing_elsewhere": ProblemCode(
        "warning",
        "A library of a package that a server can do without asks for another that is not there, as with packages for "
        "CUDA beside a PyTorch for the CPU.",
        "Install builds of one kind; nothing to do where the package is not used.",
    ),
    "driver_library_missing": ProblemCode(
        "warning",
        "A library of the NVIDIA driver is not where the loader looks.",
        "Install the driver, its libraries for computing included; run ldconfig where it was installed by hand.",
    ),
    "library_unreadable": ProblemCode(
        "warning",
        "A file that is named like a shared library is none that this host could load, or may not be read.",
        "Run the task with become; install the environment anew where a file is cut off.",
    ),
    "compiler_missing": ProblemCode(
        "warning",
        "FlashInfer and SGLang compile kernels at run time for what is not in their wheels, and look for nvcc in "
        "CUDA_HOME, in PATH and in /usr/local/cuda: without it such a kernel fails when it is first used.",
        "Install the toolkit (role gpufleet.sglang.cuda), or set CUDA_HOME of the service to the folder above the bin "
        "in which a wheel has nvcc.",
    ),
    "environment_missing": ProblemCode(
        "error",
        "The folder is no virtual environment.",
        "Name the folder in which bin/python of the environment is.",
    ),
    "compute_capability_malformed": ProblemCode(
        "error",
        "What is given as compute capability is none.",
        "Give it as the driver does, quoted, for example '9.0'.",
    ),
}


def problem(code: str, message: str) -> Problem:
    """The problem C(code) with the message of the case at hand."""
    return CODES[code].of(code, message)
