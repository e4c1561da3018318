# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What has to hold of every solution and of every conflict, whatever the host and whatever is asked."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable

from hypothesis import strategies as st

from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.choices import (
    PYTHONS,
    Board,
    DriverChoice,
    Host,
    Wishes,
    candidates_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.constraints import constraints_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.cuda_lines import LINES
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.solution import solution_as_dict, solve
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.wheels import WHEELS
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.branches import BRANCHES, branch_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.running import architecture_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.catalogue import CATALOGUE

Draw = Callable[..., Any]
Examples = Callable[[Callable[[Any], None], st.SearchStrategy[Any]], None]

RELEASES = ("535.216.03", "550.90.07", "565.57.01", "570.86.15", "570.133.20", "575.57.08", "580.65.06", "580.95.05",
            "590.48.01", "595.58.03", "620.10.01")  # fmt: skip
BOARDS = tuple(
    Board(board.name, number, board.pci_id)
    for board in CATALOGUE
    if (number := architecture_of(board.compute_capability)) is not None
)


@st.composite
def hosts(draw: Draw) -> Host:
    known = draw(st.booleans())
    return Host(
        machine=draw(st.sampled_from(("x86_64", "x86_64", "aarch64"))),
        boards=tuple(draw(st.lists(st.sampled_from(BOARDS), max_size=3, unique=True))),
        system="a system" if known else None,
        glibc=draw(st.sampled_from((28, 31, 34, 36, 41))) if known else None,
        pythons=tuple(draw(st.lists(st.sampled_from(PYTHONS), min_size=1, max_size=2, unique=True))) if known else (),
        driver=draw(st.none() | st.sampled_from(RELEASES)),
    )


@st.composite
def cases(draw: Draw) -> tuple[Host, Wishes]:
    host = draw(hosts())
    exact = st.sampled_from(RELEASES).map(lambda release: DriverChoice(branch_of(release), release))
    driver = draw(st.none() | st.sampled_from(sorted(BRANCHES)).map(DriverChoice) | exact)
    keep = host.driver is not None and draw(st.booleans())
    return host, Wishes(
        wheels=draw(st.none() | st.sampled_from(WHEELS)),
        line=draw(st.none() | st.sampled_from(LINES)),
        driver=DriverChoice(branch_of(host.driver), host.driver) if keep and host.driver else driver,
        keep_driver=keep,
        python=draw(st.none() | st.sampled_from(PYTHONS)),
        forward_compatibility=draw(st.booleans()),
    )


def test_a_solution_satisfies_everything_and_nothing_better_does(examples: Examples) -> None:
    def check(case: tuple[Host, Wishes]) -> None:
        host, wishes = case
        try:
            solution = solve(host, wishes)
        except Refusal:
            return
        constraints = constraints_of(host, wishes)
        assert all(constraint.holds(solution.chosen) for constraint in constraints)
        for better in candidates_of(host, wishes):
            if better == solution.chosen:
                break
            assert not all(constraint.holds(better) for constraint in constraints)
        if solution.instead is not None:
            assert solution.instead.driver.release == host.driver
            assert all(constraint.holds(solution.instead) for constraint in constraints)
        found = solution_as_dict(solution)
        assert found["wheels"]["index_suffix"] in (None, solution.chosen.line.suffix)
        assert all(line.endswith(".") for line in found["explanation"])
        # The same wishes, fixed to what was chosen, have the same answer.
        fixed = dataclasses.replace(
            wishes, wheels=solution.chosen.wheels, line=solution.chosen.line, python=solution.chosen.python
        )
        assert solve(host, fixed).chosen == solution.chosen

    examples(check, cases())


def test_a_conflict_is_one_and_none_of_its_members_is_idle(examples: Examples) -> None:
    def check(case: tuple[Host, Wishes]) -> None:
        host, wishes = case
        try:
            solve(host, wishes)
        except Refusal as refusal:
            parts: Any = refusal.evidence["conflict"]
            changes: Any = refusal.evidence["changes"]
        else:
            return
        constraints = {constraint.key: constraint for constraint in constraints_of(host, wishes)}
        candidates = candidates_of(host, wishes)
        members = [constraints[part["constraint"]] for part in parts]
        everything = set(range(len(candidates)))
        fitting = [{place for place in everything if one.holds(candidates[place])} for one in members]
        assert not everything.intersection(*fitting)
        for left_out, member in enumerate(members):
            assert everything.intersection(*fitting[:left_out], *fitting[left_out + 1 :]), member.key
        assert all(part["statement"].endswith(".") and part["source"] for part in parts)
        # What is promised for letting go of something is had.
        freed = {
            "sglang_version": dataclasses.replace(wishes, wheels=None),
            "cuda": dataclasses.replace(wishes, line=None),
            "driver": dataclasses.replace(wishes, driver=None, keep_driver=False),
            "python": dataclasses.replace(wishes, python=None),
        }
        for change in changes:
            without = freed[change["let_go_of"]]
            free = host if change["let_go_of"] != "python" else dataclasses.replace(host, pythons=())
            assert solve(free, without).chosen.wheels.release in change["then"]

    examples(check, cases())
