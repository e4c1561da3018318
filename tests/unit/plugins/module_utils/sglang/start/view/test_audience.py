# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.audience import (
    CHOICES,
    LIVE_LINES,
    Audience,
    live_lines_choice,
    shows_live_lines,
)


@pytest.mark.parametrize(
    ("callback", "shown"),
    [
        ("default", True),
        ("ansible.builtin.default", True),
        ("ansible.builtin.minimal", True),
        ("ansible.posix.debug", True),
        ("community.general.yaml", True),
        ("awx_display", True),
        (None, True),
        ("ansible.posix.json", False),
        ("ansible.posix.jsonl", False),
        ("ansible.builtin.oneline", False),
        ("oneline", False),
        ("community.general.null", False),
        ("community.general.dense", False),
        ("community.general.selective", False),
    ],
)
def test_machines_get_no_live_lines(callback: str | None, shown: bool) -> None:
    assert shows_live_lines("auto", Audience(callback)) is shown
    assert shows_live_lines("always", Audience(callback))
    assert not shows_live_lines("never", Audience(callback))


def test_who_hides_hosts_that_are_ok_hides_live_lines_as_well() -> None:
    assert not shows_live_lines("auto", Audience("default", shows_ok=False))
    assert shows_live_lines("always", Audience("default", shows_ok=False))


def test_no_log_hides_them_whatever_is_asked() -> None:
    assert not shows_live_lines("auto", Audience("default", censored=True))
    assert not shows_live_lines("always", Audience("default", censored=True))


def test_the_environment_says_what_auto_is() -> None:
    told = {asked: [live_lines_choice(asked, {LIVE_LINES: value}) for value in CHOICES] for asked in CHOICES}
    assert told == {"auto": ["auto", "always", "never"], "always": ["always"] * 3, "never": ["never"] * 3}
    assert [live_lines_choice("auto", given) for given in ({}, {LIVE_LINES: ""})] == ["auto", "auto"]


@pytest.mark.parametrize("asked", CHOICES)
def test_a_wrong_value_in_the_environment_is_refused_whatever_is_asked(asked: str) -> None:
    with pytest.raises(Refusal) as refused:
        live_lines_choice(asked, {LIVE_LINES: "Never"})
    assert str(refused.value) == (
        "GPUFLEET_LIVE_LINES is 'Never' in the environment. Expected one of auto, always, never."
    )
