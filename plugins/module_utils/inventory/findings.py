# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wrong with an inventory: one shape for every finding, and all of them in one document. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.problem_codes import CODES
from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import one_line
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import SEVERITIES

SCHEMA = 1


@dataclass(frozen=True)
class Finding:
    """C(hosts) are all of which the same is to be said; C(variable) is None where no single one is meant."""

    code: str
    severity: str
    hosts: tuple[str, ...]
    variable: str | None
    found: str
    expected: str
    remedy: str

    @property
    def message(self) -> str:
        return f"Found {self.found}; expected {self.expected}."

    def as_dict(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "severity": self.severity,
            "problem": CODES[self.code].meaning,
            "hosts": list(self.hosts),
            "variable": self.variable,
            "found": self.found,
            "expected": self.expected,
            "remedy": self.remedy,
        }


def finding(
    code: str,
    hosts: Iterable[str],
    variable: str | None,
    found: str,
    expected: str,
    remedy: str | None = None,
    severity: str | None = None,
) -> Finding:
    """What the table of codes says holds where the case at hand says nothing else."""
    known = CODES[code]
    told = (one_line(text).rstrip(".") for text in (found, expected))
    found, expected = told
    return Finding(
        code,
        severity or known.severity,
        tuple(hosts),
        variable,
        found,
        expected,
        one_line(remedy or known.remedy),
    )


def gathered(findings: Iterable[Finding]) -> list[Finding]:
    """Findings that differ by nothing but the host become one; the gravest come first."""
    hosts: dict[Finding, dict[str, None]] = {}
    for one in findings:
        hosts.setdefault(replace(one, hosts=()), {}).update(dict.fromkeys(one.hosts))
    together = [replace(one, hosts=tuple(names)) for one, names in hosts.items()]
    return sorted(together, key=lambda one: (-SEVERITIES.index(one.severity), one.code, one.variable or "", one.hosts))


def document(findings: Iterable[Finding], hosts: int) -> dict[str, Any]:
    """All findings as plain data, for JSON and for the table. C(hosts): how many were looked at."""
    told = gathered(findings)
    return {
        "schema": SCHEMA,
        "summary": {
            "hosts": hosts,
            "hosts_with_findings": len({name for one in told for name in one.hosts}),
            **{severity: sum(one.severity == severity for one in told) for severity in reversed(SEVERITIES)},
        },
        "findings": [one.as_dict() for one in told],
    }


def grave(told: Mapping[str, Any], fail_at: str) -> list[str]:
    """The codes of the findings for which a check fails: those of this severity and of graver ones."""
    if fail_at not in SEVERITIES:
        return []
    least = SEVERITIES.index(fail_at)
    return sorted({one["code"] for one in told["findings"] if SEVERITIES.index(one["severity"]) >= least})
