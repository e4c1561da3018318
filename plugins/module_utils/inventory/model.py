# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An inventory and the roles that it is for, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# The hosts of this group are provisioned, those of the other only planned.
NODES, PAPER = "sglang", "sglang_paper"


@dataclass(frozen=True)
class Role:
    """C(options) are those of all its entry points, as an argument specification has them; C(handed_over) are the
    variables that it sets itself. C(played_in) are the groups whose hosts it is meant for. C(strict): what has its
    prefix and is none of its variables is refused when it is played. C(not_played) are options that only checks know.
    """

    name: str
    options: Mapping[str, Mapping[str, Any]]
    handed_over: frozenset[str] = frozenset()
    played_in: tuple[str, ...] = ()
    strict: bool = True
    not_played: frozenset[str] = frozenset()

    @property
    def prefix(self) -> str:
        return f"{self.name}_"

    @property
    def known(self) -> frozenset[str]:
        return frozenset(self.options) | self.handed_over


@dataclass(frozen=True)
class Host:
    """C(variables) are what was made of the templates, C(unresolved) says why nothing could be made of some.

    C(addresses) are those of its facts, C(interfaces) the names of the interfaces that have them. C(topology) is a
    survey of the machine that was kept, None where there is none.
    """

    name: str
    groups: frozenset[str] = frozenset()
    variables: Mapping[str, Any] = field(default_factory=dict)
    unresolved: Mapping[str, str] = field(default_factory=dict)
    addresses: tuple[str, ...] = ()
    interfaces: Mapping[str, str] = field(default_factory=dict)
    topology: Mapping[str, Any] | None = None

    @property
    def is_node(self) -> bool:
        return NODES in self.groups

    @property
    def serves(self) -> bool:
        """Whether it has instances of SGLang, there or on paper."""
        return bool(self.groups & {NODES, PAPER})

    @property
    def stated(self) -> frozenset[str]:
        return frozenset(self.variables) | frozenset(self.unresolved)


@dataclass(frozen=True)
class Removal:
    """A variable that is gone: what replaces it, None where nothing does, and since which release."""

    replaced_by: str | None
    since: str
    note: str = ""
