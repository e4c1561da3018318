# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wrong, how bad it is and what to do about it: one shape for every finding of the collection."""

from __future__ import annotations

from dataclasses import dataclass

SEVERITIES = ("info", "warning", "error")


@dataclass(frozen=True)
class Problem:
    """One finding. C(code) is stable and documented, C(message) one sentence, C(remedy) what to do."""

    code: str
    severity: str
    message: str
    remedy: str

    def as_dict(self) -> dict[str, str]:
        return {"code": self.code, "severity": self.severity, "message": self.message, "remedy": self.remedy}


@dataclass(frozen=True)
class ProblemCode:
    """What every problem of one code has in common, for the code that states it and for the documentation."""

    severity: str
    meaning: str
    remedy: str

    def of(self, code: str, message: str) -> Problem:
        return Problem(code=code, severity=self.severity, message=message, remedy=self.remedy)


class Refusal(Exception):
    """Raised by the pure core when a request cannot be honoured.

    C(evidence) holds the computed values behind the refusal (bytes under names ending in C(_bytes)),
    so that a caller can act on them without reading the sentence.
    """

    def __init__(self, code: str, message: str, remedy: str, evidence: dict[str, object] | None = None) -> None:
        super().__init__(f"{message} {remedy}".strip())
        self.code = code
        self.message = message
        self.remedy = remedy
        self.evidence = dict(evidence or {})

    def as_dict(self) -> dict[str, object]:
        return {"code": self.code, "message": self.message, "remedy": self.remedy, "evidence": self.evidence}

    def as_result(self) -> dict[str, object]:
        """What a failed task returns."""
        return {"failed": True, "msg": str(self), "failure": self.as_dict()}
