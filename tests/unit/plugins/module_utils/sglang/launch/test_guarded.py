# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.guarded import unguarded_by


@pytest.mark.parametrize(
    ("version", "keys", "arguments", "environment", "said"),
    [
        ("0.5.23", ["api_key", "admin_api_key"], {}, {}, None),
        ("0.5.7", ["api_key"], {}, {}, None),
        ("0.5.7", ["admin_api_key"], {}, {}, "0.5.8 or later"),
        ("0.5.23", ["api_key"], {"grpc-port": 5000}, {}, "grpc-port"),
        ("0.5.23", ["api_key"], {"--smg_grpc_mode": True}, {}, "--smg_grpc_mode"),
        ("0.5.23", ["api_key"], {"smg-grpc-mode": False}, {}, None),
        ("0.5.23", ["api_key"], {"tokenizer-worker-num": 2}, {}, "expected 1"),
        ("0.5.23", ["api_key"], {"tokenizer-worker-num": 1}, {}, None),
        ("0.5.23", ["api_key"], {}, {"SGLANG_RUST_SERVER": "1"}, "SGLANG_RUST_SERVER"),
        ("0.5.23", ["api_key"], {}, {"SGLANG_RUST_SERVER": "false"}, None),
        ("0.5.23", [], {"grpc-port": 5000}, {"SGLANG_RUST_SERVER": "1"}, None),
    ],
)
def test_what_lets_requests_in_past_the_keys(
    version: str, keys: list[str], arguments: dict[str, Any], environment: dict[str, Any], said: str | None
) -> None:
    found = unguarded_by(version, keys, arguments, environment)
    if said is None:
        assert found == []
    else:
        assert len(found) == 1
        assert said in found[0]
