# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.hub import (
    git_blob_hash,
    listing_from_answer,
    plain_etag,
    revision_url,
    with_head,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.listing import listing_from_index
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.manifest import ListedFile
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.source import (
    HUB,
    Source,
    check_content_sha256,
    file_url,
    source_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.reading import goes_directly

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_each_kind_of_source() -> None:
    assert source_of("/data/m/", [], None, [HUB], None) == Source("folder", ("/data/m",))
    assert source_of(None, ["http://a/m/"], None, [HUB], None) == Source("mirror", ("http://a/m",))
    assert source_of(None, [], "Qwen/Qwen3-32B", [HUB], COMMIT) == Source("hub", (HUB,), "Qwen/Qwen3-32B")
    assert source_of(None, [], None, [HUB], None) is None


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("/a", ["http://b"], None, [], None), "store_source_unclear"),
        (("a", [], None, [], None), "store_source_invalid"),
        ((None, ["ftp://b"], None, [], None), "store_source_invalid"),
        ((None, ["http://"], None, [], None), "store_source_invalid"),
        ((None, ["http://[::1"], None, [], None), "store_source_invalid"),
        ((None, ["http://b?token=x"], None, [], None), "store_source_invalid"),
        ((None, ["http://user:secret@b/m"], None, [], None), "store_source_secret"),
        ((None, [], "a/b/c", [HUB], COMMIT), "store_source_invalid"),
        ((None, [], "a/b", [HUB], "main"), "store_revision_not_exact"),
        ((None, [], "a/b", [HUB], None), "store_revision_not_exact"),
    ],
)
def test_a_source_that_cannot_be_asked_is_refused(options: tuple[Any, ...], code: str) -> None:
    with pytest.raises(Refusal) as refused:
        source_of(*options)
    assert refused.value.code == code
    assert "secret" not in str(refused.value)
    assert "token=x" not in str(refused.value)


def test_a_digest_is_64_digits() -> None:
    check_content_sha256(None)
    check_content_sha256("a" * 64)
    with pytest.raises(Refusal, match="64 lower-case"):
        check_content_sha256("A" * 64)


def test_addresses_are_quoted() -> None:
    assert file_url(Source("mirror", ("http://a/m",)), 0, "a b/ü.json", None) == "http://a/m/a%20b/%C3%BC.json"
    hub = Source("hub", ("http://a", "http://b"), "org/m")
    assert file_url(hub, 1, "config.json", COMMIT) == f"http://b/org/m/resolve/{COMMIT}/config.json"
    assert revision_url("http://a", "org/m", COMMIT) == f"http://a/api/models/org/m/revision/{COMMIT}?blobs=true"


def test_the_hubs_answer_has_sums_of_large_files_and_gits_names_of_small_ones() -> None:
    siblings = [
        {"rfilename": "config.json", "size": 10, "blobId": "c" * 40},
        {"rfilename": "m.safetensors", "size": 134, "blobId": "d" * 40, "lfs": {"sha256": "e" * 64, "size": 999}},
        {"rfilename": "from-a-mirror.json"},
    ]
    files = listing_from_answer(json.dumps({"sha": COMMIT, "siblings": siblings}), COMMIT, "here")
    assert files == (
        ListedFile("config.json", 10, None, "c" * 40),
        ListedFile("m.safetensors", 999, "e" * 64),
        ListedFile("from-a-mirror.json"),
    )


@pytest.mark.parametrize(
    "text",
    ["", "<html>", "{}", json.dumps({"sha": "f" * 40, "siblings": []}), json.dumps({"sha": COMMIT, "siblings": [1]})],
)
def test_another_answer_is_refused(text: str) -> None:
    with pytest.raises(Refusal) as refused:
        listing_from_answer(text, COMMIT, "here")
    assert refused.value.code == "store_hub_answer"


def test_the_head_of_a_file_says_what_a_list_left_out() -> None:
    large = {"X-Linked-Etag": f'"{"a" * 64}"', "X-Linked-Size": "77", "ETag": '"cdn"', "Content-Length": "1"}
    assert with_head(ListedFile("m"), large) == ListedFile("m", 77, "a" * 64, None, "a" * 64)
    small = {"etag": f'W/"{"b" * 40}"', "content-length": "5"}
    assert with_head(ListedFile("c"), small) == ListedFile("c", 5, None, "b" * 40, "b" * 40)
    assert with_head(ListedFile("c", 9), {"Last-Modified": "today"}).validator == "today"


def test_etags_and_git() -> None:
    assert [plain_etag(text) for text in ('W/"a"', '"a"', "a", '""', None)] == ["a", "a", "a", None, None]
    total = git_blob_hash(6)
    total.update(b"hello\n")
    # git hash-object of a file with "hello".
    assert total.hexdigest() == "ce013625030ba8dba906f756967f9e9ca394464a"


def test_indexes_of_servers() -> None:
    html = (
        '<a href="../">up</a><a href="?C=M;O=A">time</a><a href="/abs">x</a><a href="http://else/">x</a>'
        '<a href="a%20b.json">a b</a><a href="./c.bin">c</a><a href="sub/">sub</a><a name="n">n</a>'
    )
    assert listing_from_index(html, "text/html") == ((ListedFile("a b.json"), ListedFile("c.bin")), ("sub",))
    told = [
        {"name": "sub", "type": "directory"},
        {"name": "m.bin", "type": "file", "size": 3, "mtime": "Mon"},
        {"name": "../x", "type": "file", "size": 3},
    ]
    files, folders = listing_from_index(json.dumps(told), "application/json; charset=utf-8")
    assert (files, folders) == ((ListedFile("m.bin", 3, validator="Mon"),), ("sub",))
    assert listing_from_index("{", "application/json") == ((), ())


@pytest.mark.parametrize(
    ("host", "no_proxy", "directly"),
    [
        ("mirror.example", "", False),
        ("mirror.example", "mirror.example", True),
        ("mirror.example", "localhost, .example", True),
        ("mirror.example", "ample", False),
        ("10.0.0.1", "*", True),
        ("Mirror.Example", "example", True),
    ],
)
def test_no_proxy_names_hosts_and_domains(host: str, no_proxy: str, directly: bool) -> None:
    assert goes_directly(host, no_proxy) is directly
