# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The wheel of a wheelhouse for each pin, or what is missing, by name. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.asked import Wheelhouse
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.requirements import Requirement, with_hashes
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.wheels import (
    Target,
    Wheel,
    candidates,
    fits,
    why_not,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

_NAMED = 12


@dataclass(frozen=True)
class Chosen:
    """C(requirements) as pip gets them, with the hashes that the wheelhouse's own list has where they had none."""

    requirements: tuple[Requirement, ...]
    wheels: tuple[Wheel, ...]


def _named(names: Sequence[str]) -> str:
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _pin(requirement: Requirement) -> str:
    return f"{requirement.name}{requirement.specifier}"


def choose(
    requirements: Iterable[Requirement], wheelhouse: Wheelhouse, target: Target, where: str, *, hashes_required: bool
) -> Chosen:
    """Raises Refusal for the first kind of thing that pip would refuse after minutes, with all names of that kind."""
    wanted, wheels = [], []
    missing: list[str] = []
    foreign: list[str] = []
    unlisted: list[str] = []
    differing: list[str] = []
    for one in requirements:
        there = candidates(wheelhouse.wheels, one.name, one.version)
        fitting = [wheel for wheel in there if fits(wheel, target)]
        if not there:
            missing.append(_pin(one))
        elif not fitting:
            foreign.append(f"{there[0].file} ({why_not(there[0], target)})")
        listed = wheelhouse.sums or {}
        sums = [listed[wheel.file] for wheel in fitting if wheel.file in listed]
        if one.hashes and sums and not set(sums) & set(one.hashes):
            differing.append(fitting[0].file)
        if fitting and not one.hashes and hashes_required and wheelhouse.sums is not None and not sums:
            unlisted.append(fitting[0].file)
        wanted.append(with_hashes(one, sums) if hashes_required and not one.hashes else one)
        wheels += fitting[:1]
    if missing:
        raise Refusal(
            "wheel_missing",
            f"{where} has no wheel of {_named(missing)}.",
            "Fill it anew from the same pins (the playbook gpufleet.sglang.bundle proves it complete before it "
            "leaves), or pin what it has.",
            {"missing": missing},
        )
    if foreign:
        raise Refusal(
            "wheel_for_another_target",
            f"{where} has wheels that this node cannot take: {_named(foreign)}.",
            f"Expected wheels for {target.words()}: fetch them for the node's Python and platform, or point "
            "sglang_python at the Python that they are for.",
            {"wheels": foreign, "target": target.tag, "platform": target.platform},
        )
    if differing:
        raise Refusal(
            "wheel_hash_differs",
            f"The SHA256SUMS of {where} has other hashes than the requirements for {_named(differing)}.",
            "Both have to come from one bundle; use the requirements that lie beside the wheels.",
            {"wheels": differing},
        )
    if unlisted:
        raise Refusal(
            "wheel_not_in_sums",
            f"The SHA256SUMS of {where} does not name {_named(unlisted)}.",
            "Expected every wheel in it, as it was when the folder was filled; carry the folder over again.",
            {"wheels": unlisted},
        )
    return Chosen(tuple(wanted), tuple(dict.fromkeys(wheels)))
