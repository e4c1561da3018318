# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.differences import package_diff
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.record import (
    as_text,
    new_record,
    read_record,
    with_check,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.retention import (
    Environment,
    judge,
    named_in,
)

FOLDER = "/opt/sglang/releases"
UNIT = f"[Service]\nExecStart={FOLDER}/0.5.22-bbbbbbbbbbbb/bin/python -m sglang.launch_server\n"


def gone(environments: list[Environment], used: dict[str, str], wanted: list[str], keep: int) -> list[str]:
    return [one.environment.name for one in judge(environments, used, wanted, keep) if one.reason is None]


def test_what_is_used_or_asked_for_stays_and_does_not_count_among_the_newest() -> None:
    there = [Environment(name, 10, at) for name, at in {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}.items()]
    assert gone(there, {"a": "a unit"}, ["e"], 1) == ["c", "b"]
    assert gone(there, {}, ["e"], 0) == ["d", "c", "b", "a"]
    assert gone(there, {}, ["e"], 9) == []


def test_what_was_never_finished_goes_unless_it_is_used() -> None:
    there = [Environment("half", 10, None), Environment("held", 10, None), Environment("whole", 10, 1)]
    assert gone(there, {"held": "process 7 runs it"}, [], 5) == ["half"]


def test_names_are_found_in_units_and_in_maps() -> None:
    assert named_in(UNIT, FOLDER) == {"0.5.22-bbbbbbbbbbbb"}
    maps = f"7f00-7f01 r-xp 0 fe:00 1 {FOLDER}/0.5.9-aaaaaaaaaaaa/lib/python3.11/site-packages/torch/lib/libtorch.so\n"
    assert named_in(maps, FOLDER + "/") == {"0.5.9-aaaaaaaaaaaa"}
    assert named_in("/opt/sglang/releases.old/0.5.9-x/bin", FOLDER) == frozenset()


def record(digest: str = "d") -> dict[str, object]:
    return new_record(
        version="0.5.23",
        digest=digest,
        installer="pip 23.0.1",
        python="/usr/bin/python3",
        packages={"torch": "2.13.0+cpu"},
        installed_at=5,
        size_bytes=7,
        hashed=True,
    )


def test_only_a_whole_record_of_these_pins_counts() -> None:
    text = as_text(record())
    assert read_record(text, "d") is not None
    assert read_record(text, "other") is None
    assert read_record(text[: len(text) // 2]) is None
    assert read_record("[]") is None
    assert read_record(None) is None


def test_a_check_is_added_to_those_that_passed() -> None:
    twice = with_check(with_check(record(), "NVIDIA H200", {"seconds": 1}), "cpu", {"seconds": 2})
    assert set(twice["checks"]) == {"NVIDIA H200", "cpu"}


def test_the_diff_shows_only_what_differs() -> None:
    diff = package_diff(
        {"Torch": "2.12.0", "einops": "0.8.2", "pip": "23"}, "torch==2.13.0\neinops==0.8.2\nuvloop==1\n"
    )
    assert (diff["before"], diff["after"]) == ("torch==2.12.0\n", "torch==2.13.0\nuvloop==1\n")
