# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which environments may go. Pure.

One goes only where nothing names it: no unit, no file that brings an earlier generation back, no link, no process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Environment:
    """C(installed_at) is None for one that was never finished."""

    name: str
    size_bytes: int
    installed_at: int | None


@dataclass(frozen=True)
class Verdict:
    """C(reason): why it stays; None where it goes."""

    environment: Environment
    reason: str | None


def named_in(text: str, folder: str) -> frozenset[str]:
    """The environments below C(folder) that a text names, such as a unit or the memory map of a process."""
    return frozenset(re.findall(re.escape(folder.rstrip("/")) + r"/([A-Za-z0-9][A-Za-z0-9.+_-]*)", text))


def judge(
    environments: Iterable[Environment], used: Mapping[str, str], wanted: Iterable[str], keep: int
) -> list[Verdict]:
    """C(used): why, by name. C(keep): so many more of the newest that were finished."""
    wanted = frozenset(wanted)
    newest_first = sorted(environments, key=lambda one: (one.installed_at or 0, one.name), reverse=True)
    verdicts = []
    spare = keep
    for one in newest_first:
        reason = "it is asked for" if one.name in wanted else used.get(one.name)
        if reason is None and one.installed_at is not None and spare > 0:
            spare -= 1
            reason = f"it is one of the {keep} newest that are kept" if keep > 1 else "it is the newest that is kept"
        verdicts.append(Verdict(one, reason))
    return verdicts
