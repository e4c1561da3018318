# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.retry import (
    PROGRESS_BYTES,
    History,
    Limits,
    Trouble,
    after,
    fault_words,
    pause_seconds,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.space import Disk, Need, check_space

GB = 10**9
LIMITS = Limits(attempts=3, corrupt=2, pause_seconds=1.0)


@pytest.mark.parametrize(
    ("need", "free", "reserve", "lacking"),
    [
        (Need(65 * GB, 0, 0, 20), 75 * GB, 10 * GB, None),
        (Need(65 * GB, 0, 0, 20), 75 * GB - 1, 10 * GB, 1),
        (Need(65 * GB, 60 * GB, 0, 20), 15 * GB, 10 * GB, None),
        (Need(65 * GB, 0, 60 * GB, 20), 15 * GB, 10 * GB, None),
        (Need(65 * GB, 60 * GB, 0, 20), 14 * GB, 10 * GB, 1 * GB),
        # What is there already asks for nothing, however full the disk is.
        (Need(65 * GB, 65 * GB, 0, 20), 0, 10 * GB, None),
    ],
)
def test_what_is_missing_and_the_reserve_have_to_fit(need: Need, free: int, reserve: int, lacking: int | None) -> None:
    if lacking is None:
        check_space("tiny", need, Disk("/srv", free, None), reserve)
        return
    with pytest.raises(Refusal) as refused:
        check_space("tiny", need, Disk("/srv", free, None), reserve)
    assert refused.value.code == "store_disk_full"
    assert refused.value.evidence["lacking_bytes"] == lacking


def test_the_refusal_has_every_figure_in_gb() -> None:
    with pytest.raises(Refusal) as refused:
        check_space("tiny", Need(65 * GB, 5 * GB, 0, 20), Disk("/srv", 40 * GB, None), 10 * GB)
    assert refused.value.message == (
        "tiny needs 60.00 GB more on /srv (65.00 GB in all, 5.00 GB there already), and 10.00 GB are to stay free; "
        "40.00 GB are free."
    )
    assert "Free 30.00 GB there" in refused.value.remedy


def test_a_disk_without_inodes_is_refused() -> None:
    with pytest.raises(Refusal) as refused:
        check_space("tiny", Need(GB, 0, 0, 20), Disk("/srv", 100 * GB, 75), 0)
    assert refused.value.code == "store_disk_files"
    check_space("tiny", Need(GB, 0, 0, 20), Disk("/srv", 100 * GB, 76), 0)


def spend(troubles: list[tuple[Trouble, int]], places: int = 1) -> tuple[History, bool]:
    history, again = History(), True
    for trouble, brought in troubles:
        assert again
        history, again = after(history, trouble, brought, places, LIMITS)
    return history, again


def test_attempts_that_bring_nothing_are_counted_between_those_that_do() -> None:
    cut = Trouble("the connection broke")
    assert spend([(cut, 0)] * 2)[1] is True
    assert spend([(cut, 0)] * 3)[1] is False
    assert spend([(cut, 0), (cut, 0), (cut, PROGRESS_BYTES), (cut, 0), (cut, 0)])[1] is True
    # A byte now and then is no progress: it would go on for years.
    assert spend([(cut, 1)] * 3)[1] is False


def test_waiting_in_line_is_no_failure() -> None:
    assert spend([(Trouble("busy", busy=True), 0)] * 50)[1] is True


def test_a_fatal_answer_closes_a_place_and_the_next_is_asked() -> None:
    history, again = spend([(Trouble("404", fatal=True), 0)], places=2)
    assert (history.place, again) == (1, True)
    history, again = after(history, Trouble("404", fatal=True), 0, 2, LIMITS)
    assert again is False


def test_each_place_has_its_own_attempts_in_turn() -> None:
    cut = Trouble("cut")
    history, again = spend([(cut, 0)] * 5, places=2)
    assert (history.place, again) == (1, True)
    assert after(history, cut, 0, 2, LIMITS)[1] is False


def test_wrong_bytes_close_a_place_after_so_many_times_and_tell_whose_fault_it_is() -> None:
    wrong = Trouble("wrong", got_sha256="b" * 64)
    history, again = spend([(wrong, 10 * PROGRESS_BYTES)] * 2)
    assert again is False
    words = fault_words("m.bin", history, ["http://a"], "a" * 64)
    assert (
        "http://a sent it 2 times always with the same wrong bytes (bbbbbbbbbbbb...), so its copy is damaged" in words
    )
    assert "The manifest has aaaaaaaaaaaa..." in words
    other = Trouble("wrong", got_sha256="c" * 64)
    history, _again = spend([(wrong, 0), (other, 0)])
    assert "with other bytes each time, so the way from it or a cache on it alters them" in fault_words(
        "m.bin", history, ["http://a"], None
    )


def test_a_file_that_was_never_wrong_says_how_the_last_attempt_ended() -> None:
    history, _again = spend([(Trouble("status 500"), 0)] * 3)
    words = "m.bin was given up after 3 attempts; the last one ended with: status 500."
    assert fault_words("m.bin", history, ["http://a"], None) == words


def test_pauses_double_up_to_a_minute_and_servers_may_ask_for_longer_ones() -> None:
    pauses = [pause_seconds(History(fruitless=count), Trouble("x"), LIMITS, 1.0) for count in range(1, 12)]
    assert pauses[:7] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0]
    assert max(pauses) == 60.0
    assert pause_seconds(History(), Trouble("x", retry_after_seconds=7), LIMITS, 0.0) == 7
    assert pause_seconds(History(), Trouble("x", retry_after_seconds=86400), LIMITS, 0.0) == 300
    assert pause_seconds(History(fruitless=1), Trouble("x"), LIMITS, 0.0) == 0.5
