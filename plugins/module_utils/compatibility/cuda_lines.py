# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lines of CUDA that wheels are built for, and what each asks of the driver.

Minima: NVIDIA, CUDA Compatibility, "Minor Version Compatibility", table 1: branch 525 for 12.x and 580 for 13.x. The
releases are the first of these branches for data centres: the table "CUDA Toolkit and Corresponding Driver Versions" of
the toolkits' release notes gives 525.60.13 for 12.0 and 580.65.06 for 13.0, as several public projects quote it, and
NVIDIA/open-gpu-kernel-modules has no older tag of branch 580. The driver of each line is that of its first release in
the same table, likewise as quoted; the names of NVIDIA's installers (cuda_12.6.0_560.28.03_linux.run,
cuda_12.9.0_575.51.03_linux.run) have the same, but that of 12.8.0 has 570.86.10 where the table has 570.26, of which
there is no tag there. The pages of the release notes themselves were not at hand.

An older driver of the same major line runs compiled code; it cannot compile PTX of a newer toolkit.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.versions import version_key


@dataclass(frozen=True)
class CudaLine:
    """C(minimum_driver) runs what is compiled for the line; C(own_driver) came with it and lacks nothing."""

    version: str
    minimum_driver: str
    own_driver: str

    @property
    def suffix(self) -> str:
        """As indexes of wheels name it: cu129."""
        return "cu" + self.version.replace(".", "")

    @property
    def major(self) -> int:
        return int(self.version.partition(".")[0])


_OF_12, _OF_13 = "525.60.13", "580.65.06"
LINES: tuple[CudaLine, ...] = (
    CudaLine("12.6", _OF_12, "560.28.03"),
    CudaLine("12.8", _OF_12, "570.26"),
    CudaLine("12.9", _OF_12, "575.51.03"),
    CudaLine("13.0", _OF_13, _OF_13),
)
BY_VERSION: dict[str, CudaLine] = {line.version: line for line in LINES}

# The oldest branch that packages for forward compatibility build on: the variable NVIDIA_REQUIRE_CUDA of NVIDIA's
# images for CUDA 12.9.1, 13.0.2, 13.1.1, 13.2.0 and 13.3.0 begins with 535 in each. Which of the later branches it
# names differs from image to image (550, 565, 570 and 575 for 13.0.2), so that only the oldest is held to.
FORWARD_FROM = 535


def line_of(text: str) -> CudaLine:
    """C(12.9) or C(cu129) as a line."""
    asked = str(text).strip().lower()
    for line in LINES:
        if asked in (line.version, line.suffix):
            return line
    known = ", ".join(line.version for line in LINES)
    raise Refusal(
        "cuda_line_unknown",
        f"cuda is {str(text)!r}, and no wheels of SGLang are built for that.",
        f"Expected one of {known}, quoted, or none for the line that suits best.",
        {"cuda": str(text)},
    )


def lacks_own_driver(line: CudaLine, release: str | None, branch: int) -> bool:
    """Whether this driver is older than the one that came with the line; of a branch its newest release counts."""
    if release is not None:
        return version_key(release) < version_key(line.own_driver)
    return branch < int(line.own_driver.partition(".")[0])
