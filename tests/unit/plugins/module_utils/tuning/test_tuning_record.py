# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.items import data_of, found_file, matches
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.record import (
    Entry,
    Section,
    parse_record,
    render_record,
    section_of,
)

ENTRY = Entry("file", "/etc/fstab", found_file(b"\xff\n", 0o640, 3, 4), {"text": "x"}, ("a=b",), (None, {"text": "y"}))


def test_what_is_written_is_read_back() -> None:
    sections = {"settings": section_of([ENTRY]), "kernel": Section({}, {"words": ["iommu=pt"]})}
    assert parse_record(render_record(sections)) == sections


def test_nothing_to_remember_is_no_record() -> None:
    assert render_record({"settings": Section(), "kernel": Section()}) is None
    assert parse_record(None) == {"settings": Section(), "kernel": Section()}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "tuning_record_broken"),
        ("[]", "tuning_record_broken"),
        ('{"version": 1, "settings": {"entries": [{}]}}', "tuning_record_broken"),
        (
            '{"version": 1, "settings": {"entries": [{"kind": "x", "target": "/a", "before": 1, "ours": 2}]}}',
            "tuning_record_broken",
        ),
        ('{"version": 2}', "tuning_record_version"),
        ("{}", "tuning_record_version"),
    ],
)
def test_what_cannot_be_understood_is_never_taken_for_nothing(text: str, code: str) -> None:
    with pytest.raises(Refusal) as caught:
        parse_record(text)
    assert caught.value.code == code


@pytest.mark.parametrize("data", [b"", b"text \xc3\xa9\n", b"\xff\0"])
def test_a_file_comes_back_to_the_byte(data: bytes) -> None:
    state = found_file(data, 0o600, 0, 0)
    assert data_of(json.loads(json.dumps(state))) == data


def test_only_what_a_goal_speaks_of_counts() -> None:
    found = found_file(b"x", 0o600, 1, 2)
    assert matches("file", found, {"text": "x"})
    assert not matches("file", found, {"text": "x", "mode": 0o644})
    assert not matches("file", found, None)
    assert matches("swap", [{"device": "a", "priority": -2}], [{"device": "a", "priority": 5}])
    assert not matches("swap", [], [{"device": "a"}])
    assert matches("folder", {}, {"any": 1}) and not matches("folder", None, {})
