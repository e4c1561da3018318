# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "roles" / "router" / "files" / "bring_members.py"


@pytest.fixture(name="bring_members", scope="module")
def _bring_members() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bring_members", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ONE, TWO, THREE = (f"http://10.0.0.{number}:30000" for number in (1, 2, 3))


def member(url: str, held_by: str | None = None, **values: Any) -> dict[str, Any]:
    return {"url": url, "kind": "regular", "bootstrap_port": None, "held_by": held_by, "reason": None, **values}


def test_a_router_gets_who_is_missing_and_answers_and_loses_who_is_held_out(
    bring_members: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def ask(method: str, path: str, body: Any) -> Any:
        asked.append((method, path, body))
        return {"workers": [{"id": "7", "url": f"{TWO}/"}, {"id": "8", "url": "http://10.0.0.9:1"}]}

    monkeypatch.setattr(bring_members, "answers", lambda url: url != THREE)
    members = [member(ONE, kind="prefill", bootstrap_port=8998), member(TWO, "operator"), member(THREE)]
    said = bring_members.bring(ask, members, "worker-key")
    assert asked[1:] == [
        ("DELETE", "/workers/7", None),
        ("DELETE", "/workers/8", None),
        (
            "POST",
            "/workers",
            {"url": ONE, "worker_type": "prefill", "bootstrap_port": 8998, "api_key": "worker-key"},
        ),
    ]
    assert said == [
        f"asked to let {TWO}/ go",
        "asked to let http://10.0.0.9:1 go",
        f"asked to take {ONE}",
        f"{THREE} does not answer",
    ]


def test_a_router_that_has_its_members_is_asked_for_nothing(bring_members: ModuleType) -> None:
    asked = []

    def ask(method: str, path: str, body: Any) -> Any:
        asked.append(method)
        return {"workers": [{"id": "7", "url": ONE}]}

    assert bring_members.bring(ask, [member(ONE)], None) == []
    assert asked == ["GET"]
