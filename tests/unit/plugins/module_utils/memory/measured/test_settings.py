# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.measured.settings import (
    IDENTITY,
    LOADING,
    RUNNING,
    differing,
    settings_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.options import SERVER_OPTIONS
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import founding

# Where and under what name it answers, and what a start tells by itself or a plan decides.
NO_SETTINGS = {
    "numa_nodes",
    "host",
    "port",
    "served_model_name",
    "model_path",
    "mem_fraction_static",
    "mem_fraction_auto",
    "leave_bytes",
    "target_tokens",
}


def test_settings_survive_the_ledger() -> None:
    found = settings_of(founding())
    assert json.loads(json.dumps(found)) == found
    assert all(not differing(found, json.loads(json.dumps(found)), group) for group in found)


@pytest.mark.parametrize("option", sorted(SERVER_OPTIONS))
def test_every_option_of_the_server_is_a_setting_or_known_to_be_none(option: str) -> None:
    before = settings_of(founding())
    after = settings_of(founding(server={option: "something else"}))
    changed = [group for group in (IDENTITY, LOADING, RUNNING) if differing(before, after, group)]
    assert len(changed) == (0 if option in NO_SETTINGS else 1)


@pytest.mark.parametrize(
    ("change", "group", "name"),
    [
        ({"speculative": {"algorithm": "EAGLE3"}}, LOADING, "speculative"),
        ({"hicache": {"enabled": False}}, RUNNING, "hicache.enabled"),
        ({"model": {"manifest_sha256": "x"}}, IDENTITY, "model_manifest_sha256"),
    ],
)
def test_a_difference_is_named(change: dict[str, Any], group: str, name: str) -> None:
    assert differing(settings_of(founding()), settings_of(founding(**change)), group) == [name]


@pytest.mark.parametrize("empty", [{}, None])
def test_a_ledger_older_than_an_option_is_no_other_setting(empty: dict[str, str] | None) -> None:
    asked = settings_of(founding(server={"environment": empty, "extra_arguments": {}, "gpus": []}))
    older = {
        group: {name: value for name, value in found.items() if name not in ("environment", "extra_arguments", "gpus")}
        for group, found in asked.items()
    }
    assert not [name for group in asked for name in differing(older, asked, group)]
    given = settings_of(founding(server={"environment": {"SGLANG_SWITCH": "1"}}))
    assert differing(older, given, RUNNING) == ["environment"]


def test_an_option_of_no_is_not_an_option_that_is_left_empty() -> None:
    assert differing({RUNNING: {"enable_metrics": False}}, {RUNNING: {}}, RUNNING) == ["enable_metrics"]


def test_how_much_host_memory_is_pinned_is_no_setting_of_the_gpu() -> None:
    assert settings_of(founding(hicache={"ratio": 2.0})) == settings_of(founding())
