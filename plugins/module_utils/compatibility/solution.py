# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The best choice that holds together, in a form for people and for roles, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.choices import (
    Candidate,
    Host,
    Wishes,
    candidates_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.compiled_for import (
    kernel_targets,
    torch_targets,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.constraints import constraints_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.cuda_lines import (
    lacks_own_driver,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.problem_codes import problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.solver import (
    Constraint,
    chosen_by,
    in_common,
    satisfying,
    smallest_conflict,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.wheels import KERNEL_INDEX, TORCH_INDEX
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.boards import first_for
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.branches import branch_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.running import JIT, best_way, capability_text
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.versions import version_key


@dataclass(frozen=True)
class Solution:
    """C(instead): what would be had with the driver that is in force, where the best choice asks for another."""

    chosen: Candidate
    host: Host
    wishes: Wishes
    instead: Candidate | None = None

    @property
    def minimum_driver(self) -> str | None:
        """The oldest release that wheels and boards take; None where the packages take the place of a newer one."""
        branch = self.chosen.driver.branch
        of_boards = [first_for(board.pci_id, branch) for board in self.host.boards if board.pci_id]
        of_line = None if self.forward_package else self.chosen.line.minimum_driver
        return max((one for one in (of_line, *of_boards) if one), key=version_key, default=None)

    @property
    def forward_package(self) -> str | None:
        """The package that takes the place of a newer driver."""
        line = self.chosen.line
        if self.chosen.driver.reaches(line.minimum_driver):
            return None
        return "cuda-compat-" + line.version.replace(".", "-")

    @property
    def driver_stays(self) -> bool:
        return self.host.driver is not None and self.chosen.driver.release == self.host.driver


def solve(host: Host, wishes: Wishes) -> Solution:
    """The best candidate of all; refused with the smallest conflict and what could be let go of."""
    candidates = candidates_of(host, wishes)
    constraints = constraints_of(host, wishes)
    masks = [satisfying(one, candidates) for one in constraints]
    fitting = chosen_by(in_common(masks, len(candidates)), candidates)
    if not fitting:
        raise _refusal(constraints, masks, candidates)
    kept = [one for one in fitting if one.driver.release == host.driver] if host.driver else []
    changes = fitting[0].driver.release != host.driver
    return Solution(fitting[0], host, wishes, kept[0] if kept and changes else None)


def _refusal(constraints: Sequence[Constraint], masks: Sequence[int], candidates: Sequence[Candidate]) -> Refusal:
    count = len(candidates)
    conflict = smallest_conflict(masks, count)
    parts, changes = [], []
    for place in conflict:
        one = constraints[place]
        others = in_common((masks[other] for other in conflict if other != place), count)
        statement = one.says(chosen_by(others, candidates))
        parts.append({"constraint": one.key, "statement": statement, "source": one.source, "asked": one.asked})
        rest = in_common((mask for other, mask in enumerate(masks) if other != place), count)
        if one.asked and rest:
            changes.append({"let_go_of": one.key, "then": _short(chosen_by(rest, candidates)[0])})
    advice = [f"without {_ASKED[change['let_go_of']]}, {change['then']} would do" for change in changes]
    return Refusal(
        "stack_conflict",
        " ".join(str(part["statement"]) for part in parts),
        f"Let go of one: {'; or '.join(advice)}." if advice else _NOTHING_ASKED,
        {"conflict": parts, "changes": changes},
    )


_NOTHING_ASKED = "No choice of release, CUDA line, driver or interpreter changes that; other hardware or systems do."
_ASKED = {
    "sglang_version": "this release of SGLang",
    "cuda": "this line of CUDA",
    "driver": "this driver",
    "python": "these interpreters",
}


def _short(one: Candidate) -> str:
    return (
        f"SGLang {one.wheels.release} for CUDA {one.line.version} with driver "
        f"{one.driver.text} and Python 3.{one.python}"
    )


def solution_as_dict(solution: Solution) -> dict[str, Any]:
    chosen, host = solution.chosen, solution.host
    wheels, line = chosen.wheels, chosen.line
    suffix = None if line.version == wheels.default_line else line.suffix
    instead = solution.instead
    return {
        "sglang_version": wheels.release,
        "python": f"3.{chosen.python}",
        "cuda_line": line.version,
        "wheels": {
            "index_suffix": suffix,
            "torch": {"version": wheels.torch, "index": suffix and f"{TORCH_INDEX}{suffix}"},
            "kernels": {
                "package": wheels.kernel_package,
                "version": wheels.kernel,
                "index": suffix and f"{KERNEL_INDEX}{suffix}/",
            },
            "flashinfer": {"package": "flashinfer_python", "version": wheels.flashinfer},
        },
        "driver": {
            "branch": chosen.driver.branch,
            "release": chosen.driver.release,
            "minimum": solution.minimum_driver,
            "in_force": host.driver,
            "stays": solution.driver_stays,
            "forward_compatibility_package": solution.forward_package,
        },
        "with_driver_in_force": instead
        and {"sglang_version": instead.wheels.release, "cuda_line": instead.line.version},
        "explanation": explanation(solution),
        "problems": [one.as_dict() for one in problems_of(solution)],
    }


def explanation(solution: Solution) -> list[str]:
    """Why this and nothing else, a sentence a choice."""
    chosen, host, wishes = solution.chosen, solution.host, solution.wishes
    wheels, line = chosen.wheels, chosen.line
    lines = [
        f"SGLang {wheels.release} is asked for."
        if wishes.wheels is not None
        else f"SGLang {wheels.release} is the newest release that holds together with all the rest.",
        f"Its wheels for CUDA {line.version} are "
        + ("those on PyPI" if line.version == wheels.default_line else f"in the indexes for {line.suffix}")
        + f": torch {wheels.torch}, {wheels.kernel_package} {wheels.kernel}, flashinfer_python {wheels.flashinfer}.",
        _driver_sentence(solution),
        f"Python 3.{chosen.python} is "
        + ("asked for" if wishes.python else f"what {host.system} packages" if host.pythons else "one that it runs on")
        + ".",
    ]
    for board in host.boards:
        lines.append(
            f"{board.count} x {board.name} (compute capability {capability_text(board.architecture)}): code of torch "
            f"is {best_way(torch_targets(wheels, line, host.machine), board.architecture)}, of the kernels "
            f"{best_way(kernel_targets(wheels, line, host.machine), board.architecture)}."
        )
    if solution.instead is not None:
        lines.append(
            f"With driver {host.driver}, which is in force, SGLang {solution.instead.wheels.release} for CUDA "
            f"{solution.instead.line.version} is the newest that would run."
        )
    return lines


def _driver_sentence(solution: Solution) -> str:
    driver, line, host = solution.chosen.driver, solution.chosen.line, solution.host
    if solution.forward_package is not None:
        return (
            f"Driver {driver.text} is older than {line.minimum_driver}, which CUDA {line.version} needs; "
            f"{solution.forward_package} makes up for it."
        )
    needs = f"CUDA {line.version} and these boards need {solution.minimum_driver} or newer"
    if solution.driver_stays:
        return f"Driver {host.driver} is in force and stays: {needs}."
    there = "no driver is in force" if host.driver is None else f"{host.driver} is in force"
    return f"Driver {driver.text} is to be installed, {there}: {needs}."


def problems_of(solution: Solution) -> list[Problem]:
    chosen, host = solution.chosen, solution.host
    found = []
    if not host.boards:
        found.append(problem("gpus_unknown", "Neither the topology nor the survey of the software names a GPU."))
    if host.system is None:
        found.append(problem("system_unknown", "The operating system is not one whose libraries are known."))
    driver, line = chosen.driver, chosen.line
    if solution.forward_package is None and lacks_own_driver(line, driver.release, driver.branch):
        message = f"CUDA {line.version} came with driver {line.own_driver}, and driver {driver.text} is older."
        found.append(problem("driver_older_than_toolkit", message))
    if host.driver is not None and not solution.driver_stays and branch_of(host.driver) > driver.branch:
        found.append(
            problem("solution_downgrades_driver", f"Driver {host.driver} is in force, {driver.text} is chosen.")
        )
    compiled = [
        board.name
        for board in host.boards
        if JIT
        in (
            best_way(torch_targets(chosen.wheels, line, host.machine), board.architecture),
            best_way(kernel_targets(chosen.wheels, line, host.machine), board.architecture),
        )
    ]
    if compiled:
        found.append(problem("compiled_at_start", f"Compiled by the driver, as there is PTX alone: {compiled[0]}."))
    return found
