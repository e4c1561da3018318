# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The branches of NVIDIA's driver for data centres: how long each is maintained and which kernel modules it has.

Kinds and ends: docs.nvidia.com/datacenter/tesla/drivers, "Supported Drivers and CUDA Toolkit Versions", of releases 615
and 620; what release 620 does not list any more is over. The proprietary modules are in the driver installation guides
of releases 590 to 615 and gone from that of 620 ("Kernel Modules"). Release 580 is the last that serves Maxwell, Pascal
and Volta (UNIX graphics feature deprecation schedule, forums.developer.nvidia.com/t/60588).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

_RELEASE = re.compile(r"(\d{3})\.\d{1,3}(\.\d{1,3})?$")


@dataclass(frozen=True)
class Branch:
    """C(kind) is long_term, production or new_feature; C(ends) the month of its end, None where it is over or short."""

    number: int
    kind: str
    ends: str | None = None


BRANCHES: dict[int, Branch] = {
    branch.number: branch
    for branch in (
        Branch(535, "long_term"),
        Branch(550, "production"),
        Branch(560, "new_feature"),
        Branch(565, "new_feature"),
        Branch(570, "production"),
        Branch(575, "new_feature"),
        Branch(580, "long_term", "June 2028"),
        Branch(590, "new_feature"),
        Branch(595, "production", "March 2027"),
        Branch(610, "new_feature"),
        Branch(615, "new_feature"),
        Branch(620, "long_term", "September 2029"),
    )
}
# Where nothing else decides: it is maintained for long and serves everything from Maxwell to Blackwell Ultra.
DEFAULT_BRANCH = 580
LAST_PROPRIETARY = 615
LAST_BEFORE_TURING = 580


def branch_of(release: str) -> int:
    """C(580.95.05) -> 580; refused where that is no release of the driver."""
    match = _RELEASE.match(release)
    if match is None:
        raise Refusal(
            "driver_version_malformed",
            f"version is {release!r}.",
            "Expected an exact release of the driver, quoted, such as '580.95.05', without the packages' revision.",
            {"version": release},
        )
    return int(match.group(1))


def branch_number(text: str) -> int:
    """C(580) or C(R580) -> 580."""
    match = re.match(r"[rR]?(\d{3})$", text.strip())
    if match is None:
        raise Refusal(
            "driver_branch_malformed",
            f"branch is {text!r}.",
            f"Expected one of {', '.join(map(str, BRANCHES))}.",
            {"branch": text},
        )
    return int(match.group(1))
