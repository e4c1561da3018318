# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lines of CUDA that wheels are built for, and what each asks of the driver.

Minima: NVIDIA CUDA Toolkit release notes, "CUDA Toolkit and Minimum Required Driver Version for CUDA Minor Version
Compatibility" (12.x: 525.60.13) and, for 13.x, the driver of 13.0 GA, the first of branch 580. The driver of each
toolkit: the same notes, "CUDA Toolkit and Corresponding Driver Versions", of the first release of the line. An older
driver of the same major line runs compiled code; it cannot compile PTX of a newer toolkit (CUDA Compatibility, "Minor
Version Compatibility"). Architectures: the notes of 12.8 (Blackwell), 12.9 (10.3, 12.1) and 13.0 (no more Maxwell,
Pascal and Volta).
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.versions import version_key


@dataclass(frozen=True)
class CudaLine:
    """C(minimum_driver) runs what is compiled for the line; C(own_driver) came with it and lacks nothing.

    C(first_architecture) and C(architectures_to): what its compiler knows, 75 for compute capability 7.5.
    """

    version: str
    minimum_driver: str
    own_driver: str
    first_architecture: int
    architectures_to: int

    @property
    def suffix(self) -> str:
        """As indexes of wheels name it: cu129."""
        return "cu" + self.version.replace(".", "")

    @property
    def major(self) -> int:
        return int(self.version.partition(".")[0])


_OF_12, _OF_13 = "525.60.13", "580.65.06"
LINES: tuple[CudaLine, ...] = (
    CudaLine("12.6", _OF_12, "560.28.03", 50, 90),
    CudaLine("12.8", _OF_12, "570.26", 50, 120),
    CudaLine("12.9", _OF_12, "575.51.03", 50, 121),
    CudaLine("13.0", _OF_13, _OF_13, 75, 121),
)
BY_VERSION: dict[str, CudaLine] = {line.version: line for line in LINES}


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
