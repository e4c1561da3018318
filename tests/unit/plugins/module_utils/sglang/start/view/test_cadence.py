# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.cadence import (
    Shown,
    is_due,
    pause_seconds,
    with_sign_of_life,
)


def shown_at(texts: dict[float, str], until: float) -> list[tuple[float, str]]:
    """What a watcher shows that looks every half second and sees, from each moment on, the text given for it."""
    last: Shown | None = None
    lines = []
    for half in range(int(until * 2) + 1):
        now = half / 2
        text = texts[max(at for at in texts if at <= now)]
        if is_due(last, text, now, 0.0):
            lines.append((now, with_sign_of_life(text, last, now)))
            last = Shown(now, text)
    return lines


def test_first_line_comes_after_two_seconds() -> None:
    assert shown_at({0.0: "starting"}, 10) == [(2.0, "starting")]


def test_what_changes_is_shown_but_not_more_often_than_every_three_seconds() -> None:
    texts = {0.0: "starting", 2.5: "loading", 3.0: "allocating", 9.0: "capturing"}
    assert shown_at(texts, 12) == [(2.0, "starting"), (5.0, "allocating"), (9.0, "capturing")]


def test_what_stays_the_same_gives_a_sign_of_life_every_thirty_seconds() -> None:
    assert shown_at({0.0: "loading"}, 70) == [
        (2.0, "loading"),
        (32.0, "loading, 32 s so far"),
        (62.0, "loading, 62 s so far"),
    ]


@pytest.mark.parametrize(("seconds", "most"), [(60, 21), (600, 70), (3600, 175)])
def test_the_longer_it_takes_the_further_apart_the_lines_are(seconds: int, most: int) -> None:
    lines = shown_at({half / 2: f"pinning {half}" for half in range(2 * seconds + 1)}, seconds)
    assert len(lines) <= most
    gaps = [later - earlier for (earlier, _text), (later, _other) in zip(lines, lines[1:])]
    assert gaps == sorted(gaps)
    assert max(gaps) <= 30.5


def test_pause_is_bounded_at_both_ends() -> None:
    assert [pause_seconds(elapsed) for elapsed in (0.0, 60.0, 200.0, 600.0, 9999.0)] == [3.0, 3.0, 10.0, 30.0, 30.0]
