# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can be chosen on a host, and what is asked and known of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.cuda_lines import BY_VERSION, CudaLine
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.wheels import WHEELS, Wheels
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.branches import BRANCHES, branch_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.versions import version_key

# Python 3.9 is the oldest that any of the releases was made for, 3.14 the newest that any wheels are there for.
PYTHONS = (9, 10, 11, 12, 13, 14)


@dataclass(frozen=True)
class DriverChoice:
    """A release of the driver, or a branch of which any release can be taken (C(release) None)."""

    branch: int
    release: str | None = None

    def reaches(self, minimum: str) -> bool:
        """Whether it is, or can be, this release or a newer one."""
        if self.release is not None:
            return version_key(self.release) >= version_key(minimum)
        return self.branch >= branch_of(minimum)

    @property
    def text(self) -> str:
        return f"branch {self.branch}" if self.release is None else self.release


@dataclass(frozen=True)
class Board:
    """Boards of one kind. C(architecture) is 90 for compute capability 9.0; C(pci_id) is None on paper at times."""

    name: str
    architecture: int
    pci_id: str | None = None
    count: int = 1

    @property
    def for_data_centres(self) -> bool:
        """Those that forward compatibility is made for; boards for desks and games are named GeForce, RTX or TITAN.

        NVIDIA, CUDA Compatibility, "Forward Compatibility", names data center GPUs and "select NGC Server Ready SKUs of
        RTX cards" without saying which: the server editions, which NVIDIA counts among its data center GPUs, are taken
        for such, the others are not.
        """
        if self.name.endswith("Server Edition"):
            return True
        return not any(word in self.name for word in ("GeForce", "RTX", "TITAN", "Quadro"))


@dataclass(frozen=True)
class Host:
    """C(glibc) and C(pythons) are minor releases; None for glibc, and no interpreters, where nothing is known of them.

    C(driver) is the release in force, None where there is none.
    """

    machine: str
    boards: tuple[Board, ...] = ()
    system: str | None = None
    glibc: int | None = None
    pythons: tuple[int, ...] = ()
    driver: str | None = None


@dataclass(frozen=True)
class Wishes:
    """What is fixed; None for what is free. C(keep_driver): the release in force is to stay."""

    wheels: Wheels | None = None
    line: CudaLine | None = None
    driver: DriverChoice | None = None
    keep_driver: bool = False
    python: int | None = None
    forward_compatibility: bool = False


@dataclass(frozen=True)
class Candidate:
    """One choice of everything, whether it holds together or not."""

    wheels: Wheels
    line: CudaLine
    driver: DriverChoice
    python: int


def drivers_of(host: Host, wishes: Wishes) -> tuple[DriverChoice, ...]:
    """In the order in which they are taken: the one in force, long-term branches, production branches, the others."""
    in_force = [DriverChoice(branch_of(host.driver), host.driver)] if host.driver else []
    ranks = {"long_term": 0, "production": 1, "new_feature": 2}
    # A branch whose end is not given is over, or short.
    branches = sorted(BRANCHES.values(), key=lambda one: (one.ends is None, ranks[one.kind], one.number))
    choices = [*in_force, *(DriverChoice(one.number) for one in branches)]
    if wishes.driver is not None and wishes.driver not in choices:
        choices.append(wishes.driver)
    return tuple(choices)


def candidates_of(host: Host, wishes: Wishes) -> tuple[Candidate, ...]:
    """Everything there is, best first: the newest release, its own line before others, the driver that is there."""
    releases = sorted(WHEELS, key=lambda one: one.version, reverse=True)
    if wishes.wheels is not None and wishes.wheels not in releases:
        releases.insert(0, wishes.wheels)
    return tuple(
        Candidate(wheels, BY_VERSION[line], driver, python)
        for wheels in releases
        for line in _lines_of(wheels)
        for driver in drivers_of(host, wishes)
        for python in _pythons_of(host)
    )


def _lines_of(wheels: Wheels) -> tuple[str, ...]:
    return (*wheels.lines, *(line for line in BY_VERSION if line not in wheels.lines))


def _pythons_of(host: Host) -> Sequence[int]:
    return (*host.pythons, *(python for python in PYTHONS if python not in host.pythons))
