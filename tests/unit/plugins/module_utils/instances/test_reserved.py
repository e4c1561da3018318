# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.instances.reserved import (
    instance_of_unit,
    reservation_of,
    states_of,
)

PORT = {"first": 30000, "last": 30000, "address": "127.0.0.1"}


def test_what_the_role_wrote_is_read() -> None:
    assert reservation_of({"schema": 1, "gpus": [0], "ports": {"http": PORT}}) == {"gpus": [0], "ports": {"http": PORT}}


@pytest.mark.parametrize(
    "said",
    [
        None,
        [],
        {"schema": 2, "gpus": [], "ports": {}},
        {"schema": 1, "gpus": ["0"], "ports": {}},
        {"schema": 1, "gpus": [], "ports": {"http": {**PORT, "first": "30000"}}},
        {"schema": 1, "gpus": [], "ports": {"http": []}},
    ],
)
def test_anything_else_is_left_out(said: Any) -> None:
    assert reservation_of(said) is None


def test_states_are_those_of_instances() -> None:
    shown = "Id=sglang-a.service\nActiveState=active\n\nActiveState=inactive\nId=sglang-b.service\n\nId=ssh.service\n"
    assert states_of(shown) == {"a": "active", "b": "inactive"}
    assert instance_of_unit("sglang-a.b.service") == "a.b"
    assert instance_of_unit("gpufleet-sandbox-sglang-a.service") is None
