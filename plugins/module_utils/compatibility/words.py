# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Words for what the candidates of a conflict have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.choices import Candidate
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.wheels import WHEELS, Wheels
from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.device_code import Target
from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.running import capability_text

T = TypeVar("T")


def joined(words: Sequence[str], conjunction: str) -> str:
    """C(a, b and c)."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {conjunction} {words[-1]}"


def only_one(values: Iterable[T]) -> T | None:
    """The value, where all are the same."""
    different = set(values)
    return different.pop() if len(different) == 1 else None


def releases_text(wheels: Iterable[Wheels]) -> str:
    """C(SGLang 0.5.11 to 0.5.19), neighbours put together; C(no release of SGLang) where there is none."""
    chosen = set(wheels)
    spans: list[list[Wheels]] = []
    neighbour = False
    for one in WHEELS:
        if one in chosen and neighbour:
            spans[-1].append(one)
        elif one in chosen:
            spans.append([one])
        neighbour = one in chosen
    spans += [[one] for one in sorted(chosen - set(WHEELS), key=lambda one: one.version)]
    if not spans:
        return "no release of SGLang"
    texts = [span[0].release + (f" to {span[-1].release}" if len(span) > 1 else "") for span in spans]
    return f"SGLang {joined(texts, 'and')}"


def targets_text(targets: Iterable[Target]) -> str:
    """As compute capabilities: C(8.0, 9.0 and 10.0 (family))."""
    notes = {"": "", "a": "", "f": " (family)"}
    found = {(one.architecture, notes[one.variant]) for one in targets}
    return joined([f"{capability_text(number)}{note}" for number, note in sorted(found)], "and")


def demand_on_driver(left: Sequence[Candidate], forward: bool) -> str:
    """What the lines that are left need; with the packages for forward compatibility an older driver does as well."""
    minima = {one.line.version: one.line.minimum_driver for one in left}
    by_minimum: dict[str, list[str]] = {}
    for version in sorted(minima):
        by_minimum.setdefault(minima[version], []).append(version)
    parts = [f"CUDA {joined(lines, 'and')} needs driver {least} or newer" for least, lines in by_minimum.items()]
    beside = ", or branch 535 and newer with cuda-compat" if forward else ""
    return f"{joined(parts, 'and')}{beside}."
