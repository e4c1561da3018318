# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.store.progress import (
    Meter,
    advance,
    closing_line,
    live_line,
    look_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.summary import prune_lines, snapshot_lines

GB = 10**9


def seen(*looks: dict[str, Any], every: float = 1.0) -> Meter:
    meter = Meter(0.0)
    for number, state in enumerate(looks):
        meter = advance(meter, look_of(state), number * every)
    return meter


def fetching(done: float, **more: Any) -> dict[str, Any]:
    return {"phase": "fetching", "total_bytes": 60 * GB, "done_bytes": int(done * GB), "files": 29, **more}


def test_bytes_rate_and_time_left() -> None:
    meter = seen(fetching(20), fetching(22, files_done=12))
    assert live_line(meter) == "fetching 22.00 of 60.00 GB 2.00 GB/s ETA 19 s, 12 of 29 files"


def test_the_rate_is_that_of_the_last_quarter_of_a_minute() -> None:
    meter = seen(*(fetching(done) for done in (0, 30, 31, 32, 33)), every=10.0)
    assert meter.rate_bytes_per_second == pytest.approx(0.1 * GB)


def test_a_phase_of_its_own_has_a_rate_of_its_own() -> None:
    meter = seen(
        {"phase": "checking", "hash_total_bytes": 60 * GB, "hashed_bytes": 59 * GB},
        {"phase": "checking", "hash_total_bytes": 60 * GB, "hashed_bytes": 60 * GB},
        fetching(1),
    )
    assert live_line(meter) == "fetching 1.00 of 60.00 GB, 0 of 29 files"


def test_a_file_that_starts_anew_makes_no_negative_rate() -> None:
    meter = seen(fetching(20), fetching(10), fetching(11))
    assert meter.rate_bytes_per_second == pytest.approx(GB)


def test_a_standstill_says_why() -> None:
    state = fetching(20, retries=2, trouble="m.bin from http://a: no byte came for 30.0 s at 1.00 GB")
    assert live_line(seen(state, state)).endswith("2 retries (m.bin from http://a: no byte came for 30.0 s at 1.00 GB)")


def test_phases_without_bytes() -> None:
    assert live_line(seen({"phase": "listing"})) == "asking the source for its files"
    assert live_line(seen({"phase": "publishing", "total_bytes": GB})) == "publishing"
    assert live_line(seen({})) == "asking the source for its files"


def test_a_state_of_another_release_is_read_as_far_as_it_is_known() -> None:
    assert look_of({"phase": "fetching", "colour": "blue", "trouble": None}).phase == "fetching"


def test_the_end_tells_what_came_and_what_was_there() -> None:
    result = {"path": "/m", "fetched_bytes": 2 * GB, "reused_bytes": GB, "repaired": ["a"]}
    words = "/m: 2.00 GB fetched, 1.00 GB were there, 1 damaged file replaced, after 8 s"
    assert closing_line(result, 8.4) == words
    assert "nothing to fetch" in closing_line({**result, "fetched_bytes": 0, "repaired": []}, 1)


def test_summaries() -> None:
    problem = {"severity": "warning", "message": "No sums.", "remedy": "Add them."}
    result = {
        "path": "/m/1",
        "files": 1234,
        "size_bytes": GB,
        "fetched_bytes": GB,
        "repaired": [],
        "problems": [problem],
    }
    assert snapshot_lines([result]) == ["/m/1: 1,234 files, 1.00 GB, 1.00 GB fetched", "  warning: No sums. Add them."]
    foreseen = {**result, "path": None, "would_fetch_bytes": GB, "problems": []}
    assert snapshot_lines([foreseen])[0].endswith("1.00 GB would be fetched")
    one = {"name": "m", "revision": "1", "size_bytes": GB}
    pruned = {
        "removed": [one],
        "removed_partial": [{"path": "/m/.partial/x", "size_bytes": 0}],
        "kept": [{**one, "revision": "2", "reasons": ["a uses it", "b", "c"]}],
    }
    assert prune_lines(pruned) == [
        "removed m/1 (1.00 GB)",
        "removed /m/.partial/x (0.00 GB)",
        "kept m/2 (1.00 GB): a uses it (and 2 more reasons)",
    ]
    assert prune_lines({"removed": [], "removed_partial": [], "kept": []}) == ["the store is empty"]
