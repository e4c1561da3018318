# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The catalogue against what every release prints: what it says of a server that goes on is no cause of a failure."""

from collections import Counter

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.catalogue import (
    CAUSES,
    FATAL,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.log_lines import parse_line
from ansible_collections.gpufleet.sglang.tests.conformance.log_renderings import TEXTS, Text, lines_of

# What is said with the level of an error, or with a traceback, may be the end.
ERRORS = frozenset(("error", "exception", "critical", "fatal"))
PREFIXES = ("", "[2026-11-29 14:20:12 TP1] ")
GOES_ON = [text for text in TEXTS if text.how not in ERRORS]
ENDS = {
    "Rank {rank} scheduler is dead. Please check if there are relevant logs.": "scheduler_died",
    "Initialization failed. warmup error: {last_traceback}": "warm_up_failed",
    "Scheduler hit an exception: {traceback}": "scheduler_exception",
}


def test_no_line_of_a_server_that_goes_on_is_a_cause() -> None:
    told: Counter[str] = Counter()
    for text in GOES_ON:
        for line in lines_of(text):
            for prefix in PREFIXES:
                event = parse_line(prefix + line.words, str(text.releases[-1]))
                if event is not None and (event.label in CAUSES | FATAL or event.kind == "exception"):
                    raise AssertionError(f"{line.words} is taken for {event.label}")
                told["lines"] += 1
    print(f"\n{len(GOES_ON)} texts that servers print and go on, {told['lines']} lines, 0 taken for a cause")
    assert len(GOES_ON) > 400


@pytest.mark.parametrize("text", [text for text in TEXTS if text.template in ENDS], ids=lambda text: text.template[:40])
def test_line_that_ends_a_start_is_found_in_each_release_that_prints_it(text: Text) -> None:
    for release in text.releases:
        for line in lines_of(text):
            event = parse_line(PREFIXES[1] + line.words, str(release))
            assert event is not None and event.label == ENDS[text.template]
            assert event.label in FATAL
