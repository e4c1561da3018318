# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.store.usage import (
    Candidate,
    Use,
    decide,
    lines_naming,
    paths_in,
    users_of,
)

OLD, MID, NEW = (Candidate("m", name, 10, float(at)) for at, name in enumerate(("old", "mid", "new")))


def gone(uses: list[Use], keep: int = 0, **more: object) -> list[str]:
    blind = more.get("blind", ())
    decisions = decide([OLD, MID, NEW], uses, list(blind) if isinstance(blind, (list, tuple)) else [], keep)
    return [one.revision for one in decisions if one.remove]


@pytest.mark.parametrize(
    ("uses", "keep", "removed"),
    [
        ([], 0, ["old", "mid", "new"]),
        ([], 2, ["old"]),
        ([Use("unit", "m/old")], 1, ["mid"]),
        ([Use("unit", "m/old/config.json")], 1, ["mid"]),
        ([Use("unit", "m/older")], 1, ["old", "mid"]),
        ([Use("unit", "other/old")], 1, ["old", "mid"]),
        ([Use("unit", "m")], 0, []),
        ([Use("unit", "")], 0, []),
    ],
)
def test_what_is_used_stays(uses: list[Use], keep: int, removed: list[str]) -> None:
    assert gone(uses, keep) == removed


def test_what_could_not_be_looked_at_keeps_everything() -> None:
    assert gone([], blind=["/etc/systemd/system"]) == []


def test_who_names_the_link_uses_what_it_leads_to() -> None:
    decisions = decide([OLD, NEW], [Use("unit", "m/current/x")], [], 0, links={"m": "old"})
    assert [(one.revision, one.remove) for one in decisions] == [("old", False), ("new", True)]
    assert users_of("m", "old", [Use("unit", "m/current")], {"m": "old"}) == ["unit"]


def test_every_reason_is_told() -> None:
    one = Candidate("m", "old", 10, 0.0, current=True, known=False)
    decision = decide([one], [Use("a", "m/old"), Use("b", "m/old"), Use("a", "m/old/x")], ["/proc/1"], 1, ["other"])[0]
    assert decision.reasons == (
        "a uses it",
        "b uses it",
        "the link current leads to it",
        "it is number 1 of the newest, 1 of which are kept",
        "this run is about other models",
        "it has no manifest of this store, so it is not the store's to remove",
        "/proc/1 could not be looked at, and may use it",
    )


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("ExecStart=/usr/bin/python -m x --model-path /srv/models/m/old", "/srv/models/m/old"),
        ("ExecStart=x --model-path=/srv/models/m/old --y", "/srv/models/m/old"),
        ('Environment="MODEL=/srv/models/m/old"', "/srv/models/m/old"),
        ("Volume=/srv/models/m/old:/model:ro", "/srv/models/m/old"),
        ("ExecStart=docker run -v /srv/models/m/old:/model x", "/srv/models/m/old"),
        ("model-path: '/srv/models/m/old'", "/srv/models/m/old"),
        ('{"model_path": "/srv/models/m/old", "x": 1}', "/srv/models/m/old"),
        (r'{"model_path": "\/srv\/models\/m\/old"}', "/srv/models/m/old"),
        (r"ExecStart=/bin/x /srv/my\x20models/m/old", "/srv/my models/m/old"),
        ("The model lies in /srv/models/m/old.", "/srv/models/m/old"),
        ("mount=type=bind,source=/srv/models/m/old,target=/x", "/srv/models/m/old"),
    ],
)
def test_paths_are_found_however_they_are_written(text: str, path: str) -> None:
    assert path in paths_in(text) | {
        line.split(" -")[0] for line in lines_naming(text.replace("\\x20", " "), "/srv/my models")
    }
