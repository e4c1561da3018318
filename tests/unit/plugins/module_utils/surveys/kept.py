# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Surveys as the role probe keeps them, of machines on paper."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.paper import machine_on_paper

H200: dict[str, Any] = {"board": "NVIDIA H200", "count": 8, "numa_nodes": 2, "memory_gb": 2048}


def problem(code: str, severity: str) -> dict[str, str]:
    return {"code": code, "severity": severity, "message": "It is so.", "remedy": "Mend it."}


def kept(
    host: str = "gpu-1",
    machine: dict[str, Any] | None = None,
    *,
    taken_at: float | None = 1_796_000_000,
    driver: str | None = "580.95.05",
    problems: tuple[dict[str, str], ...] = (),
) -> dict[str, Any]:
    paper = machine_on_paper(machine or H200)
    return {
        "kind": "gpufleet.sglang.survey",
        "schema": 1,
        "host": host,
        "taken_at": taken_at,
        "topology": {**paper, "problems": list(problems), "driver": {"version": driver}},
        "stack": {"problems": [], "driver": {"loaded": {"version": driver}}},
    }
