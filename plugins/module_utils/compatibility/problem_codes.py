# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every problem and refusal of a solution and of compiled libraries: what it means, and what to do about it."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, ProblemCode

CODES: dict[str, ProblemCode] = {
    "stack_conflict": ProblemCode(
        "error",
        "No driver, line of CUDA and wheels of SGLang hold together with what is asked and what the host is. The "
        "message is a smallest set of facts that exclude each other: without any one of them the others would hold.",
        "Let go of one of what is asked; the remedy says what would then be had.",
    ),
    "cuda_line_unknown": ProblemCode(
        "error",
        "A line of CUDA is asked for that no wheels of SGLang are built for.",
        "Name one of those that the message lists, or leave it to the solution.",
    ),
    "sglang_wheels_unknown": ProblemCode(
        "error",
        "It is not known which wheels the release of SGLang asks for.",
        "Take a release of the span that the message names.",
    ),
    "solution_branch_unknown": ProblemCode(
        "error",
        "The branch of the driver is none that this collection knows of.",
        "Name one of those that the message lists, or a whole release.",
    ),
    "driver_not_in_force": ProblemCode(
        "error",
        "The driver in force was to stay, and there is none.",
        "Leave the driver open, or name a branch.",
    ),
    "python_unknown": ProblemCode(
        "error",
        "The interpreter is none that any wheels are built for, or not named as 3.N.",
        "Name one of those that the message lists.",
    ),
    "gpus_unknown": ProblemCode(
        "info",
        "No GPU is known, so that none constrains the choice.",
        "Nothing to do on a host without GPUs; else give what gpu_topology_info returns.",
    ),
    "system_unknown": ProblemCode(
        "info",
        "Which C library and which interpreters the operating system has is not known, so that they constrain nothing.",
        "Compare ldd --version and python3 --version with what the wheels need.",
    ),
    "driver_older_than_toolkit": ProblemCode(
        "info",
        "The driver runs what is compiled for this line of CUDA, by minor version compatibility, and refuses PTX that "
        "its toolkit makes at run time (error 222, unsupported toolchain).",
        "Nothing to do for what the wheels have compiled; for kernels that are compiled at run time take a driver of "
        "the toolkit's own branch or newer.",
    ),
    "solution_downgrades_driver": ProblemCode(
        "warning",
        "The driver that is chosen is older than the one in force.",
        "Drain the host for it, or choose a release of SGLang that the driver in force serves.",
    ),
    "compiled_at_start": ProblemCode(
        "warning",
        "A library has no machine code for a GPU, only PTX: the driver compiles it at the first start, which takes "
        "minutes, and only where the driver is no older than the toolkit that made the PTX.",
        "Keep the cache (CUDA_CACHE_PATH) where restarts find it, or take wheels that are built for the GPU.",
    ),
}


def problem(code: str, message: str) -> Problem:
    """The problem C(code) with the message of the case at hand."""
    return CODES[code].of(code, message)
