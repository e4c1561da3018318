# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The constraints of a host: what is asked, what is there, and what wheels, CUDA and driver say of each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache

from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.choices import (
    Board,
    Candidate,
    DriverChoice,
    Host,
    Wishes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.compiled_for import (
    kernel_targets,
    torch_targets,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.cuda_lines import (
    BY_VERSION,
    FORWARD_FROM,
    LINES,
    CudaLine,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.solver import Constraint
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.wheels import WHEELS, Wheels
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.words import (
    demand_on_driver,
    joined,
    only_one,
    releases_text,
    targets_text,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.boards import first_for, too_old
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.branches import LAST_BEFORE_TURING
from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.device_code import Target
from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.running import best_way, capability_text

_METADATA = "the wheels' METADATA and names on PyPI"
_NOTES = "NVIDIA, CUDA Compatibility, Minor Version Compatibility"
_TURING = 75


def constraints_of(host: Host, wishes: Wishes) -> tuple[Constraint, ...]:
    """Wishes first, so that of conflicts of one size the one that is somebody's choice is named."""
    return (
        *_wishes(host, wishes),
        _lines_have_wheels(host),
        _driver_of_line(host, wishes),
        _pythons(),
        *_system(host),
        *(one for board in _by_architecture(host.boards) for one in _code_for(board, host.machine)),
        *(_driver_of_board(board) for board in host.boards if board.pci_id or board.architecture < _TURING),
    )


def _said(text: str) -> Callable[[Sequence[Candidate]], str]:
    return lambda left: text


def _wishes(host: Host, wishes: Wishes) -> list[Constraint]:
    found = []
    if wishes.wheels is not None:
        release = wishes.wheels.release
        found.append(
            Constraint(
                "sglang_version",
                lambda one: one.wheels.release == release,
                _said(f"SGLang {release} is asked for."),
                "request.sglang_version",
                asked=True,
            )
        )
    if wishes.line is not None:
        line = wishes.line
        found.append(
            Constraint(
                "cuda",
                lambda one: one.line == line,
                _said(f"Wheels for CUDA {line.version} are asked for."),
                "request.cuda",
                asked=True,
            )
        )
    driver = wishes.driver
    if driver is not None:
        said = f"The driver in force, {driver.text}, is to stay." if wishes.keep_driver else ""
        found.append(
            Constraint(
                "driver",
                lambda one: one.driver == driver,
                _said(said or f"Driver {driver.text} is asked for."),
                "request.driver",
                asked=True,
            )
        )
    if wishes.python is not None:
        python = wishes.python
        found.append(
            Constraint(
                "python",
                lambda one: one.python == python,
                _said(f"Python 3.{python} is asked for."),
                "request.python",
                asked=True,
            )
        )
    elif host.pythons:
        packaged = joined([f"3.{python}" for python in host.pythons], "and")
        found.append(
            Constraint(
                "python",
                lambda one: one.python in host.pythons,
                _said(f"{host.system} packages Python {packaged}."),
                "the system's repositories; request.python names another that is there",
                asked=True,
            )
        )
    return found


def _lines_have_wheels(host: Host) -> Constraint:
    def says(left: Sequence[Candidate]) -> str:
        wheels = only_one(one.wheels for one in left)
        if wheels is None:
            line = only_one(one.line for one in left)
            if line is None:
                return f"Wheels for {host.machine} exist for some lines of CUDA alone."
            having = [one for one in WHEELS if one.serves(host.machine, line.version)]
            return f"Wheels for CUDA {line.version} and {host.machine} exist of {releases_text(having)}."
        lines = [line for line in wheels.lines if wheels.serves(host.machine, line)]
        if not lines:
            return f"SGLang {wheels.release} has no wheels with CUDA for {host.machine}."
        return (
            f"SGLang {wheels.release} and its torch {wheels.torch} have wheels for {host.machine} and CUDA "
            f"{joined(lines, 'and')} only."
        )

    return Constraint(
        "wheels", lambda one: one.wheels.serves(host.machine, one.line.version), says, f"{_METADATA}, SGLang's guide"
    )


def _driver_of_line(host: Host, wishes: Wishes) -> Constraint:
    forward = wishes.forward_compatibility and all(board.for_data_centres for board in host.boards)

    def holds(one: Candidate) -> bool:
        return one.driver.reaches(one.line.minimum_driver) or (forward and one.driver.branch >= FORWARD_FROM)

    return Constraint("line_driver", holds, lambda left: demand_on_driver(left, forward), _NOTES)


def _pythons() -> Constraint:
    def holds(one: Candidate) -> bool:
        first, last = one.wheels.pythons
        return first <= one.python <= last

    def says(left: Sequence[Candidate]) -> str:
        spans = sorted({one.wheels.pythons for one in left})
        if len(spans) == 1:
            releases = releases_text([one.wheels for one in left])
            return f"The wheels of {releases} are there for Python 3.{spans[0][0]} to 3.{spans[0][1]}."
        first, last = min(span[0] for span in spans), max(span[1] for span in spans)
        return f"Wheels of SGLang are there for Python 3.{first} to 3.{last}, not of each release for each."

    return Constraint("wheels_python", holds, says, _METADATA)


def _system(host: Host) -> list[Constraint]:
    glibc = host.glibc
    if glibc is None:
        return []

    def says(left: Sequence[Candidate]) -> str:
        asked = sorted({one.wheels.glibc for one in left})
        which = releases_text([one.wheels for one in left])
        needs = joined([f"2.{minor}" for minor in asked], "or")
        return f"{host.system} has glibc 2.{glibc}, and the wheels of {which} need {needs}."

    return [Constraint("glibc", lambda one: one.wheels.glibc <= glibc, says, "the wheels' manylinux tags")]


def _by_architecture(boards: Sequence[Board]) -> list[Board]:
    """One board of each compute capability."""
    return list({board.architecture: board for board in reversed(boards)}.values())[::-1]


def _code_for(board: Board, machine: str) -> list[Constraint]:
    def torch(wheels: Wheels, line: CudaLine) -> frozenset[Target]:
        return torch_targets(wheels, line, machine)

    def kernels(wheels: Wheels, line: CudaLine) -> frozenset[Target]:
        return kernel_targets(wheels, line, machine)

    return [
        _has_code(board, machine, "torch", "pytorch/pytorch .ci/manywheel", torch),
        _has_code(board, machine, "kernels", "the kernels' wheels, CMakeLists.txt", kernels),
    ]


def _has_code(
    board: Board, machine: str, whose: str, source: str, targets: Callable[[Wheels, CudaLine], frozenset[Target]]
) -> Constraint:
    capability = capability_text(board.architecture)

    @cache
    def fits(wheels: Wheels, line: CudaLine) -> bool:
        return best_way(targets(wheels, line), board.architecture) is not None

    def says(left: Sequence[Candidate]) -> str:
        wheels = only_one(one.wheels for one in left)
        if wheels is None:
            lines = {one.line for one in left}
            fit = [one for one in WHEELS if any(fits(one, line) for line in lines if one.serves(machine, line.version))]
            name = "PyTorch" if whose == "torch" else "kernels"
            among = "" if len(lines) == len(LINES) else f" for CUDA {_lines_text(lines)}"
            served = f"is served by the {name} of {releases_text(fit)}{among}"
            return f"{board.name} (compute capability {capability}) {served}."
        named = [line for line in LINES if any(one.line == line for one in left) and line.version in wheels.lines]
        lines_named = named or [BY_VERSION[line] for line in wheels.lines]
        built = targets_text(target for line in lines_named for target in targets(wheels, line))
        package = f"torch {wheels.torch}" if whose == "torch" else f"{wheels.kernel_package} {wheels.kernel}"
        return (
            f"{package} of SGLang {wheels.release} for CUDA {_lines_text(lines_named)} has code for compute "
            f"capabilities {built}, and none for {capability} ({board.name})."
        )

    return Constraint(f"{whose}_{board.architecture}", lambda one: fits(one.wheels, one.line), says, source)


def _lines_text(lines: Iterable[CudaLine]) -> str:
    chosen = set(lines)
    return joined([line.version for line in LINES if line in chosen], "and")


def _driver_of_board(board: Board) -> Constraint:
    @cache
    def serves(driver: DriverChoice) -> bool:
        if board.architecture < _TURING and driver.branch > LAST_BEFORE_TURING:
            return False
        return board.pci_id is None or too_old(board.pci_id, driver.branch, driver.release) is None

    def says(left: Sequence[Candidate]) -> str:
        if board.architecture < _TURING:
            return f"Branch {LAST_BEFORE_TURING} is the last of the driver that serves {board.name}."
        driver = only_one(one.driver for one in left)
        first = first_for(board.pci_id or "", driver.branch if driver else FORWARD_FROM)
        return f"{board.name} needs driver {first} or newer."

    key = f"driver_{board.pci_id or board.architecture}"
    return Constraint(key, lambda one: serves(one.driver), says, "NVIDIA/open-gpu-kernel-modules, README.md")
