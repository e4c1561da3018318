# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every refusal of a plan of CUDA: what it means, and what to do about it."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import ProblemCode

CODES: dict[str, ProblemCode] = {
    "cuda_package_brings_driver": ProblemCode(
        "error",
        "In the place of a release of the toolkit a metapackage is named that installs a driver as well.",
        "Name the release, such as '13.0'.",
    ),
    "cuda_package_moves": ProblemCode(
        "error",
        "In the place of a release of the toolkit a metapackage is named that follows the newest one.",
        "Name the release, such as '13.0'.",
    ),
    "cuda_version_malformed": ProblemCode(
        "error",
        "What is named is no release of the CUDA toolkit.",
        "Give its first two numbers, quoted.",
    ),
    "cuda_wanted_and_unwanted": ProblemCode(
        "error",
        "A release of the toolkit is to be installed and to be removed.",
        "Name it in one of the two lists.",
    ),
    "cuda_default_not_installed": ProblemCode(
        "error",
        "/usr/local/cuda is to lead to a toolkit that is not among those to be installed.",
        "Add it to cuda_toolkits, or choose one of them.",
    ),
    "cuda_repository_missing": ProblemCode(
        "error",
        "The packages are to come from a mirror or a folder, and it is not said where that is.",
        "Set cuda_repository_url.",
    ),
    "forward_compatibility_unsupported": ProblemCode(
        "error",
        "NVIDIA's packages for forward compatibility work on boards for data centres alone.",
        "Take a newer driver, or wheels of a line of CUDA that the driver serves.",
    ),
    "forward_compatibility_without_driver": ProblemCode(
        "error",
        "Forward compatibility stands in for a part of a driver, and there is none.",
        "Install the driver first.",
    ),
    "forward_compatibility_needless": ProblemCode(
        "error",
        "The driver serves the line of CUDA by itself.",
        "Leave the package for forward compatibility out.",
    ),
    "forward_compatibility_driver_too_old": ProblemCode(
        "error",
        "The driver is older than those that forward compatibility builds on.",
        "Install a newer driver first.",
    ),
}
