# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import hashlib
import json

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.manifest import (
    ListedFile,
    Manifest,
    ManifestFile,
    chosen,
    content_sha256,
    fingerprint,
    listing_from_sums,
    manifest_from_text,
    safe_path,
)

ONE = ManifestFile("config.json", 3, "a" * 64)
TWO = ManifestFile("sub/model.safetensors", 5, "b" * 64)


def test_the_digest_can_be_made_with_sha256sum_and_is_of_no_order() -> None:
    text = f"{'a' * 64}  3  config.json\n{'b' * 64}  5  sub/model.safetensors\n"
    assert content_sha256([TWO, ONE]) == content_sha256([ONE, TWO]) == hashlib.sha256(text.encode()).hexdigest()


def test_a_manifest_comes_back_as_it_was_written() -> None:
    manifest = Manifest((ONE, TWO), {"kind": "hub"})
    assert manifest_from_text(manifest.as_text(), "here") == manifest
    assert manifest.size_bytes == 8


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": 2}, "its schema is 2, expected 1"),
        ({"content_sha256": "c" * 64}, "and it states cccc"),
        ({"files": [{"path": "../x", "size_bytes": 1, "sha256": "a" * 64}]}, "no path below the model's folder"),
        ({"files": [ONE.as_dict(), ONE.as_dict()]}, "twice"),
        ({"files": [{"path": "x", "size_bytes": -1, "sha256": "a" * 64}]}, "not a manifest"),
        ({"files": [{"path": "x", "size_bytes": 1, "sha256": "A" * 64}]}, "has no SHA-256"),
        ({"files": None}, "not a manifest"),
    ],
)
def test_a_manifest_that_cannot_be_is_refused(change: dict[str, object], words: str) -> None:
    data = {**json.loads(Manifest((ONE,), {}).as_text()), **change}
    with pytest.raises(Refusal, match=words) as refused:
        manifest_from_text(json.dumps(data), "http://mirror/.manifest.json")
    assert refused.value.code == "store_manifest_malformed"
    assert "http://mirror/.manifest.json" in refused.value.message


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '"x"'])
def test_what_is_no_manifest_at_all_is_refused(text: str) -> None:
    with pytest.raises(Refusal, match="cannot be used"):
        manifest_from_text(text, "here")


@pytest.mark.parametrize(
    ("path", "safe"),
    [
        ("model-00001-of-00002.safetensors", True),
        ("original/params.json", True),
        ("/etc/passwd", False),
        ("a/../../b", False),
        ("./a", False),
        ("a//b", False),
        ("", False),
        ("a\nb", False),
        ("a\\b", False),
        (".manifest.json", False),
        ("sub/.verified.json", False),
        ("x" * 1025, False),
    ],
)
def test_paths_stay_below_the_folder_and_off_the_stores_own_names(path: str, safe: bool) -> None:
    assert safe_path(path) is safe


def test_sums_are_read_as_sha256sum_writes_them() -> None:
    text = f"{'A' * 64} *model.bin\n\n# made by hand\n{'b' * 64}  ./a b.json\n"
    assert listing_from_sums(text, "here") == (
        ListedFile("model.bin", None, "a" * 64),
        ListedFile("a b.json", None, "b" * 64),
    )
    with pytest.raises(Refusal, match="line 1 is not a SHA-256"):
        listing_from_sums("<html>404</html>", "here")


def test_patterns_choose_files() -> None:
    files = [ListedFile(path) for path in ("original/a.pth", "model.safetensors", "config.json")]
    assert [file.path for file in chosen(files, [], ["original/*"])] == ["config.json", "model.safetensors"]
    assert [file.path for file in chosen(files, ["*.json"], [])] == ["config.json"]
    assert len(chosen(files, [], [])) == 3


def test_the_fingerprint_changes_with_whatever_a_source_says_of_a_file() -> None:
    told = [
        ListedFile("a", 1),
        ListedFile("a", 2),
        ListedFile("a", 1, validator="x"),
        ListedFile("a", 1, sha256="a" * 64),
        ListedFile("b", 1),
    ]
    assert len({fingerprint([file]) for file in told}) == len(told)
