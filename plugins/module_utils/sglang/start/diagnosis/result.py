# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a diagnosis is. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Diagnosis:
    """Why a start failed or stalled.

    C(code) is stable and documented. C(evidence): the lines (C(lines)) and facts that tell it. C(values): the numbers
    that were computed, which the remedy names. C(causes): ranked, where only likely ones are known.
    """

    code: str
    message: str
    remedy: str
    rank: str | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    causes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "message": self.message,
            "remedy": self.remedy,
            "rank": self.rank,
            "evidence": dict(self.evidence),
            "computed": dict(self.values),
            "causes": list(self.causes),
        }
