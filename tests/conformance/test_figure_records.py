# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Figures that a start tells, read from the lines of starts that others published, against what was read of them.

A row says what its lines hold in GiB. Where the lines are in a form of their own (a report in a person's words, a log
of another program around SGLang), nothing is read, and never something wrong.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.log_lines import parse_line
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.startup_figures import figures
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.expectation import Expectation
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import Observation
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.startup import advance
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import initial
from ansible_collections.gpufleet.sglang.tests.conformance.recorded_data import DATA, needs_recorded_data
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import RUNNING

pytestmark = needs_recorded_data
PATH = DATA / "sglang" / "startup-logs.json"
ROWS: list[dict[str, Any]] = json.loads(PATH.read_text(encoding="utf-8")) if PATH.is_file() else []
FIGURES = {
    "avail_before_weights_gib": "available_before_load_bytes",
    "avail_after_weights_gib": "available_after_load_bytes",
    "avail_after_pool_gib": "available_after_pool_bytes",
    "avail_end_gib": "available_at_end_bytes",
}
_RELEASE = re.compile(r"^\d+\.\d+\.\d+(\.post\d+)?$")


def read(row: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """(figures, tokens) of the row's lines; where its release is not known, in the forms of all."""
    version = str(row["sglang_version"] or "")
    release = version if _RELEASE.match(version) else None
    events = [parse_line(line, release) for line in row["raw"] or []]
    found = tuple(replace(event, timestamp=float(number)) for number, event in enumerate(events) if event is not None)
    state = advance(initial(Expectation(), 0.0), Observation(at=1.0, unit=RUNNING, events=found, lines=len(found)))
    return figures(state), state.max_total_num_tokens


def size_told(row: dict[str, Any], name: str) -> bool:
    """Whether one of the row's lines has the number, in the words of SGLang."""
    number = f"{row[name]:.2f}"
    return any(re.search(rf"(avail mem|available_gpu_mem)={re.escape(number)} GB", line) for line in row["raw"] or [])


def is_of_several(row: dict[str, Any]) -> bool:
    """Whether a line comes twice, of two ranks or of target and draft: the figures are then the least of them."""
    words = ("Load weight end.", "Memory pool end.")
    found = [word for line in row["raw"] or [] for word in words if word in line]
    return len(set(found)) < len(found)


@pytest.mark.parametrize("row", ROWS, ids=[str(row["id"]) for row in ROWS])
def test_figures_are_those_of_the_lines(row: dict[str, Any]) -> None:
    found, tokens = read(row)
    for name, figure in FIGURES.items():
        if row[name] is None or not size_told(row, name):
            continue
        if is_of_several(row):
            # Never more than what the one leaves that the row tells.
            assert found[figure] is None or found[figure] <= (row[name] + 0.01) * GIB
        else:
            assert found[figure] == pytest.approx(row[name] * GIB, abs=GIB / 100), (figure, row["raw"])
    said = [re.search(r"max_total_num_tokens=(\d+), ", line) for line in row["raw"] or []]
    if any(said):
        assert tokens in {int(match.group(1)) for match in said if match}


def test_enough_rows_tell_something() -> None:
    plain = [row for row in ROWS if not is_of_several(row)]
    told = {name: sum(row[name] is not None and size_told(row, name) for row in plain) for name in FIGURES}
    print(f"{len(ROWS)} rows, {len(plain)} of one rank and model; compared: {told}")
    assert len(ROWS) == 44
    assert min(told.values()) >= 4
