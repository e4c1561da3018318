# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""What plans put into the configuration file is what SGLang's parsers read out of it (oracle/config-files.json)."""

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import EXAMINED
from ansible_collections.gpufleet.sglang.tests.conformance.file_cases import CASES, RELEASES, emitted

HERE = Path(__file__).resolve().parent / "oracle"
RECORD = json.loads((HERE / "config-files.json").read_text(encoding="utf-8"))
FLAGS = json.loads((HERE / "flags.json").read_text(encoding="utf-8"))["flags"]
ORDER = [str(release) for release in EXAMINED]


def field_of(flag: str, release: str) -> str:
    index = ORDER.index(release)
    for first, last, facts in FLAGS[flag]:
        if ORDER.index(first) <= index <= ORDER.index(last):
            return str(facts["field"])
    raise AssertionError(f"{release} has no --{flag}")


def test_every_release_read_every_file() -> None:
    assert tuple(RECORD) == RELEASES
    assert all(set(record["cases"]) == set(CASES) for record in RECORD.values())


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("release", RELEASES)
def test_what_is_read_is_what_was_asked_for(release: str, name: str) -> None:
    recorded = RECORD[release]["cases"][name]
    arguments: dict[str, Any] = emitted(release, name)
    assert recorded["arguments"] == arguments
    wanted = {field_of(flag, release): value for flag, value in arguments.items()}
    fields = dict(recorded["fields"])
    assert {field: fields.pop(field) for field in wanted} == wanted
    assert fields == {}
