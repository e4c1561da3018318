# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.bundle.apt import own_sources, unresolved
from ansible_collections.gpufleet.sglang.plugins.module_utils.bundle.archive import (
    Deb,
    packages_index,
    release_file,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.bundle.contents import (
    BundleFile,
    manifest_files,
    manifest_text,
    parts,
    summary_lines,
    verify,
    verify_models,
    verify_sums,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.bundle.fetching import pip_target, uv_platform
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.wheels import Target
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

FILES = (
    BundleFile("wheels/cu130/torch.whl", 554_581_699, "a" * 64),
    BundleFile("wheels/cu130/sglang.whl", 9_000_000, "b" * 64),
    BundleFile("debs/bookworm/numactl.deb", 40_000, "c" * 64),
)
FOUND = {one.path: one for one in FILES}


def test_a_manifest_is_read_as_it_was_written() -> None:
    text = manifest_text(FILES, {"lines": ["cu130"]})
    assert set(manifest_files(text, "/srv/bundle")) == set(FILES)
    assert manifest_text(reversed(FILES), {"lines": ["cu130"]}) == text


def test_every_file_that_differs_is_named() -> None:
    verify(FILES, FOUND, "/srv/bundle")
    changed = {**FOUND, FILES[0].path: BundleFile(FILES[0].path, FILES[0].size_bytes, "f" * 64)}
    del changed[FILES[2].path]
    changed["wheels/cu130/evil.whl"] = BundleFile("wheels/cu130/evil.whl", 1, "e" * 64)
    with pytest.raises(Refusal) as refused:
        verify(FILES, changed, "/srv/bundle")
    assert refused.value.evidence == {
        "missing": ["debs/bookworm/numactl.deb"],
        "changed": ["wheels/cu130/torch.whl"],
        "extra": ["wheels/cu130/evil.whl"],
        "folder": "/srv/bundle",
    }
    for path in (FILES[0].path, FILES[2].path, "wheels/cu130/evil.whl"):
        assert path in refused.value.message


@pytest.mark.parametrize("path", ["../etc/passwd", "/etc/passwd", "wheels//x", "wheels/./x"])
def test_a_manifest_that_leaves_the_bundle_is_refused(path: str) -> None:
    with pytest.raises(Refusal) as refused:
        manifest_files(manifest_text([BundleFile(path, 1, "a" * 64)], {}), "/srv/bundle")
    assert refused.value.code == "bundle_manifest_unreadable"


@pytest.mark.parametrize(
    ("text", "code"),
    [(None, "bundle_manifest_missing"), ("{", "bundle_manifest_unreadable"), ("{}", "bundle_manifest_unreadable")],
)
def test_what_is_no_manifest_is_refused(text: str | None, code: str) -> None:
    with pytest.raises(Refusal) as refused:
        manifest_files(text, "/srv/bundle")
    assert refused.value.code == code


def test_what_is_in_it_is_said_by_part() -> None:
    assert parts(FILES)["wheels/cu130"] == {"files": 2, "size_bytes": 563_581_699}
    lines = summary_lines(parts(FILES))
    assert lines[-1].split() == ["in", "all", "3", "files", "0.564", "GB"]


def model(*files: tuple[str, int, str]) -> str:
    return json.dumps({"files": [{"path": path, "size_bytes": size, "sha256": digest} for path, size, digest in files]})


def test_a_model_comes_with_all_of_its_files_or_with_none() -> None:
    text = model(("config.json", 10, "a" * 64), ("w.safetensors", 20, "b" * 64))
    config = BundleFile("models/q/config.json", 10, "a" * 64)
    weights = BundleFile("models/q/w.safetensors", 20, "b" * 64)
    verify_models({"models/q": text}, {})
    verify_models({"models/q": text}, {one.path: one for one in (config, weights)})
    with pytest.raises(Refusal, match=r"w\.safetensors"):
        verify_models({"models/q": text}, {config.path: config})
    with pytest.raises(Refusal) as refused:
        verify_models({"models/q": "{}"}, {})
    assert refused.value.code == "bundle_model_manifest"


def test_nothing_is_sealed_that_is_not_what_was_fetched() -> None:
    sums = {"wheels/cu130/SHA256SUMS": "a" * 64 + "  torch.whl\n" + "b" * 64 + "  sglang.whl\n"}
    index = {"debs/bookworm/Packages": f"Package: numactl\nFilename: ./numactl.deb\nSHA256: {'c' * 64}\n"}
    verify_sums({**sums, **index}, FOUND)
    changed = {**FOUND, FILES[2].path: BundleFile(FILES[2].path, 1, "f" * 64)}
    del changed[FILES[1].path]
    with pytest.raises(Refusal) as refused:
        verify_sums({**sums, **index}, changed)
    assert refused.value.evidence["files"] == ["debs/bookworm/numactl.deb", "wheels/cu130/sglang.whl"]


def test_the_index_of_packages_has_what_apt_needs() -> None:
    index = packages_index([Deb("numactl_2_amd64.deb", "Package: numactl\nVersion: 2\n", 5, "a" * 64)])
    assert index == (
        "Package: numactl\nVersion: 2\nFilename: ./numactl_2_amd64.deb\nSize: 5\nSHA256: " + "a" * 64 + "\n"
    )
    release = release_file("bookworm", "Mon, 30 Nov 2026 08:00:00 GMT", {"Packages": index.encode()})
    assert f" {len(index)} Packages\n" in release


def test_the_own_sources_are_taken_for_another_suite_of_the_same_distribution_alone() -> None:
    files = [
        ("debian.sources", "URIs: http://deb.debian.org/debian\nSuites: bookworm bookworm-updates\n"),
        ("vendor.list", "deb https://vendor.example.com/apt bookworm main\n"),
        ("node.sources", "URIs: https://deb.nodesource.com/node_20.x\nSuites: nodistro\n"),
    ]
    assert own_sources(files, "bookworm", "trixie") == {
        "debian.sources": "URIs: http://deb.debian.org/debian\nSuites: trixie trixie-updates\n"
    }


def test_what_apt_lacks_is_named() -> None:
    output = (
        "E: Unable to locate package numactll\n"
        " python3-venv : Depends: python3.11-venv (>= 3.11.2-1~) but it is not installable\n"
        "E: Package 'foo' has no installation candidate\n"
    )
    assert unresolved(output) == ["foo", "numactll", "python3.11-venv"]


def test_wheels_are_fetched_for_the_target() -> None:
    target = Target((3, 11), "aarch64", (2, 36))
    words = pip_target(target)
    assert words[words.index("--python-version") + 1] == "3.11"
    assert {"manylinux_2_36_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"} <= set(words)
    assert "manylinux_2_37_aarch64" not in words
    assert uv_platform(target) == "aarch64-manylinux_2_36"
