# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server that is started with keys compares them, and says them to nobody."""

from __future__ import annotations

import copy
import dataclasses
import importlib.util
import json
import pickle
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FILE = Path(__file__).resolve().parents[3] / "roles" / "sglang" / "files" / "launch_with_keys.py"
KEY = "sk-0123456789"


def _loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("launch_with_keys", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LAUNCHER = _loaded()


@dataclasses.dataclass
class Arguments:
    """As ServerArgs has them."""

    port: int = 30000
    api_key: str | None = None
    admin_api_key: str | None = None
    tokenizer_worker_num: int = 1


def prepared(keys: dict[str, str], **said: Any) -> Arguments:
    made: Arguments = LAUNCHER.with_hidden_keys(lambda words: Arguments(**said), keys)([])
    return made


def test_arguments_show_no_key_in_any_way() -> None:
    arguments = prepared({"api_key": KEY, "admin_api_key": "sk-admin-key"})
    shown = [
        repr(arguments),
        str(arguments.api_key),
        f"{arguments=}",
        json.dumps(dataclasses.asdict(arguments)),
        json.dumps(vars(arguments)),
        repr(vars(arguments)),
        repr(pickle.loads(pickle.dumps(arguments.api_key))),
        pickle.dumps(vars(arguments), protocol=0).decode("latin-1"),
        repr(copy.deepcopy(arguments)),
        repr(copy.copy(arguments.api_key)),
    ]
    assert [text for text in shown if "sk-" in text] == []
    assert all("<hidden>" in text for text in shown)


def test_the_servers_own_header_has_the_key() -> None:
    arguments = prepared({"api_key": KEY})
    assert bool(arguments.api_key) is True
    assert f"Bearer {arguments.api_key}" == f"Bearer {KEY}"
    hidden: Any = arguments.api_key
    assert "Bearer " + hidden == f"Bearer {KEY}"


def test_the_middleware_gets_the_keys_and_not_the_words() -> None:
    got: list[dict[str, Any]] = []

    def since_0_5_8(app: Any, *, api_key: str | None, admin_api_key: str | None) -> None:
        got.append({"app": app, "api_key": api_key, "admin_api_key": admin_api_key})

    def before(app: Any, api_key: str) -> None:
        got.append({"app": app, "api_key": api_key})

    hidden = LAUNCHER.HiddenKey(KEY)
    keys = {"api_key": KEY}
    LAUNCHER.guarded_by(since_0_5_8, keys)("app", api_key=hidden, admin_api_key=None)
    LAUNCHER.guarded_by(before, keys)("app", hidden)
    assert got == [{"app": "app", "api_key": KEY, "admin_api_key": None}, {"app": "app", "api_key": KEY}]


@pytest.mark.parametrize(
    ("keys", "said", "why"),
    [
        ({"api_key": KEY}, {"api_key": "sk-in-the-file"}, "among the arguments"),
        ({"api_key": KEY}, {"tokenizer_worker_num": 2}, "tokenizer_worker_num"),
        ({"other_key": KEY}, {}, "takes no other_key"),
    ],
)
def test_what_would_not_be_asked_for_does_not_start(keys: dict[str, str], said: dict[str, Any], why: str) -> None:
    with pytest.raises(SystemExit) as ended:
        prepared(keys, **said)
    assert why in str(ended.value)
    assert "sk-" not in str(ended.value)


def test_keys_are_read_from_the_credentials(tmp_path: Path) -> None:
    assert LAUNCHER.read_keys(tmp_path) == {}
    (tmp_path / "api_key").write_text(f"{KEY}\n", encoding="utf-8")
    assert LAUNCHER.read_keys(tmp_path) == {"api_key": KEY}


@pytest.mark.parametrize("content", ["", "\n", "two words", "sk-ü", "<hidden>"])
def test_what_is_no_key_ends_the_start_without_being_said(tmp_path: Path, content: str) -> None:
    (tmp_path / "api_key").write_text(content, encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        LAUNCHER.read_keys(tmp_path)
    assert "is no key" in str(ended.value)
    assert not content.strip() or content == "<hidden>" or content not in str(ended.value)


def test_without_credentials_there_is_no_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    with pytest.raises(SystemExit) as ended:
        LAUNCHER.main()
    assert "no credential" in str(ended.value)
