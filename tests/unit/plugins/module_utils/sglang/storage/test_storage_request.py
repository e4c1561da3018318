# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.request import (
    DEFAULT_MIN_FREE_BYTES,
    storage_request,
)

FILES = {"backend": "file", "path": "/srv/kv/", "max_bytes": "200000000000"}


def code_of(given: dict[str, Any]) -> str:
    with pytest.raises(Refusal) as caught:
        storage_request(given)
    return caught.value.code


def test_numbers_may_be_text_and_folders_end_in_a_slash() -> None:
    found = storage_request(FILES)
    assert (found.path, found.max_bytes, found.min_free_bytes) == ("/srv/kv", 200_000_000_000, DEFAULT_MIN_FREE_BYTES)
    assert storage_request({**FILES, "min_free_bytes": 0}).min_free_bytes == 0


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"backend": "eic"}, "storage_backend_unknown"),
        ({"backend": None}, "storage_backend_unknown"),
        ({"max_byte": 1}, "option_unknown"),
        ({"max_bytes": 0}, "storage_size_malformed"),
        ({"max_bytes": "200G"}, "storage_size_malformed"),
        ({"max_bytes": True}, "storage_size_malformed"),
        ({"min_free_bytes": -1}, "storage_size_malformed"),
        ({"path": "kv"}, "storage_path_hidden"),
        ({"path": "/tmp/kv"}, "storage_path_hidden"),
        ({"path": "/home/kv"}, "storage_path_hidden"),
        ({"path": "/"}, "storage_path_hidden"),
        ({"path": "/srv/../etc"}, "storage_path_hidden"),
        ({"mount": "/srv/other"}, "storage_path_outside_mount"),
        ({"mount": "/srv/k"}, "storage_path_outside_mount"),
    ],
)
def test_what_cannot_be_meant(changes: dict[str, Any], code: str) -> None:
    assert code_of({**FILES, **changes}) == code


@pytest.mark.parametrize(
    ("backend", "option"),
    [
        ("mooncake", "path"),
        ("mooncake", "max_bytes"),
        ("nixl", "max_bytes"),
        ("nixl", "min_free_bytes"),
        ("hf3fs", "min_free_bytes"),
        ("lmcache", "prefetch_policy"),
        ("lmcache", "mount"),
    ],
)
def test_an_option_that_the_backend_does_not_take_is_not_ignored(backend: str, option: str) -> None:
    value = {"path": "/srv/kv", "mount": "/srv", "prefetch_policy": "timeout"}.get(option, 10)
    assert code_of({"backend": backend, option: value}) == "storage_option_not_taken"


@pytest.mark.parametrize(
    "extra",
    [
        {"plugin": {"obj": {"access_key": "AKIA"}}},
        {"plugin": {"obj": {"secrete_key": "s"}}},
        {"plugin": {"obj": {"session_token": "s"}}},
        {"password": "s"},
        {"remote_url": "redis://user:word@10.0.0.5:6379"},
        {"backends": [{"api_key": "s"}]},
    ],
)
def test_a_credential_is_refused_and_not_repeated(extra: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as caught:
        storage_request({"backend": "nixl", "path": "/srv/kv", "extra_config": extra})
    assert caught.value.code == "storage_secret_in_config"
    assert not any(word in str(caught.value) for word in ("AKIA", "word@", ": s"))


def test_what_only_sounds_like_one_passes() -> None:
    extra = {"prefetch_timeout_per_ki_token": 0.5, "plugin": {"obj": {"access_key": "", "scheme": "http"}}}
    assert storage_request({"backend": "nixl", "extra_config": extra}).extra_config == extra
