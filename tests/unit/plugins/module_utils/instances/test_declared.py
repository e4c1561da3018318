# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpufleet.sglang.plugins.module_utils.instances import declared as core

DEFAULTS = Path(__file__).resolve().parents[5] / "roles" / "sglang" / "defaults" / "main.yml"


def test_what_a_host_does_not_say_is_as_the_role_sglang_has_it() -> None:
    defaults = yaml.safe_load(DEFAULTS.read_text(encoding="utf-8"))
    names = ("sglang_instance", "sglang_host", "sglang_port")
    assert tuple(defaults[name] for name in names) == (core.INSTANCE, core.ADDRESS, core.PORT)
    (one,) = core.declared_of({})
    assert (one.name, one.address, one.port) == (core.INSTANCE, core.ADDRESS, core.PORT)


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({"sglang_instance": "kimi", "sglang_port": "30010"}, [("kimi", "127.0.0.1", 30010)]),
        ({"sglang_port": None, "sglang_host": "::"}, [("main", "::", None)]),
        (
            {
                "sglang_port": 30001,
                "sglang_host": "0.0.0.0",
                "sglang_instances": [
                    {"instance": "a"},
                    {"instance": "b", "port": None, "host": "10.0.0.1"},
                    {"port": 1},
                ],
            },
            [("a", "0.0.0.0", 30001), ("b", "10.0.0.1", None)],
        ),
    ],
)
def test_an_entry_outranks_what_holds_for_all(variables: dict[str, Any], found: list[Any]) -> None:
    assert [(one.name, one.address, one.port) for one in core.declared_of(variables)] == found


def test_an_address_of_ipv6_is_in_brackets() -> None:
    assert core.endpoint("fd00::1", 30000) == "[fd00::1]:30000"
    assert core.endpoint("node-1", 30000) == "node-1:30000"
