# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a bundle holds: its manifest, and what differs from it. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

MANIFEST = "bundle.json"
SIGNATURE = "bundle.json.asc"
SCHEMA = 1
_NAMED = 10


@dataclass(frozen=True)
class BundleFile:
    """C(path) is below the bundle's folder, with slashes. C(sha256) is None where it was not read."""

    path: str
    size_bytes: int
    sha256: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return {"path": self.path, "size_bytes": self.size_bytes, "sha256": self.sha256}


def part_of(path: str) -> str:
    """C(wheels/cu130/x.whl) -> C(wheels/cu130): what a person calls one thing."""
    folders = path.split("/")[:-1]
    return "/".join(folders[:2]) if folders else path


def parts(files: Iterable[BundleFile]) -> dict[str, dict[str, int]]:
    """Files and bytes of each part."""
    found: dict[str, dict[str, int]] = {}
    for one in files:
        part = found.setdefault(part_of(one.path), {"files": 0, "size_bytes": 0})
        part["files"] += 1
        part["size_bytes"] += one.size_bytes
    return dict(sorted(found.items()))


def summary_lines(found: Mapping[str, Mapping[str, int]]) -> list[str]:
    width = max((len(name) for name in found), default=0)
    lines = [
        f"{name:<{width}}  {part['files']:>5} files  {format_gb(part['size_bytes'], 3):>12}"
        for name, part in found.items()
    ]
    files, size = sum(one["files"] for one in found.values()), sum(one["size_bytes"] for one in found.values())
    return [*lines, f"{'in all':<{width}}  {files:>5} files  {format_gb(size, 3):>12}"]


def manifest_text(files: Iterable[BundleFile], facts: Mapping[str, Any]) -> str:
    ordered = sorted(files, key=lambda one: one.path)
    data = {"schema": SCHEMA, **facts, "files": [one.as_dict() for one in ordered]}
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def manifest_files(text: str | None, folder: str) -> tuple[BundleFile, ...]:
    """Raises Refusal for what is no manifest of a bundle, or one that names files outside of it."""
    if text is None:
        raise Refusal(
            "bundle_manifest_missing",
            f"{folder} has no {MANIFEST}.",
            "Expected the folder that the playbook gpufleet.sglang.bundle has made, carried over whole.",
            {"folder": folder},
        )
    try:
        data = json.loads(text)
        if data["schema"] != SCHEMA:
            raise ValueError
        files = tuple(BundleFile(one["path"], int(one["size_bytes"]), one["sha256"]) for one in data["files"])
    except (ValueError, KeyError, TypeError):
        raise Refusal(
            "bundle_manifest_unreadable",
            f"{MANIFEST} of {folder} is no manifest of a bundle.",
            "Carry it over again: it was cut or changed on its way.",
            {"folder": folder},
        ) from None
    for one in files:
        if one.path.startswith("/") or any(part in ("", ".", "..") for part in one.path.split("/")):
            raise Refusal(
                "bundle_manifest_unreadable",
                f"{MANIFEST} of {folder} names a path that leaves the bundle.",
                "Do not use this bundle.",
                {"folder": folder},
            )
    return files


def _named(paths: list[str]) -> str:
    rest = len(paths) - _NAMED
    return ", ".join(paths[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def verify(expected: Iterable[BundleFile], found: Mapping[str, BundleFile], folder: str) -> None:
    """Raises Refusal with every file that is missing, that differs, or that came to it."""
    wanted = {one.path: one for one in expected}
    missing = sorted(set(wanted) - set(found))
    extra = sorted(set(found) - set(wanted))
    changed = sorted(
        path
        for path, one in wanted.items()
        if path in found and (found[path].size_bytes, found[path].sha256) != (one.size_bytes, one.sha256)
    )
    problems = []
    if missing:
        problems.append(f"{_named(missing)} missing")
    if changed:
        problems.append(f"{_named(changed)} changed")
    if extra:
        problems.append(f"{_named(extra)} not of it")
    if problems:
        raise Refusal(
            "bundle_differs",
            f"The bundle in {folder} is not the one that was sealed: {'; '.join(problems)}.",
            "Carry these files over again, or take away what is not of it; nothing of the bundle was used.",
            {"missing": missing, "changed": changed, "extra": extra, "folder": folder},
        )


def verify_sums(texts: Mapping[str, str], found: Mapping[str, BundleFile]) -> None:
    """C(texts): each SHA256SUMS and index of packages by its path. A file that changed here shall not be sealed."""
    wrong = []
    for path, text in texts.items():
        folder = path.rsplit("/", 1)[0]
        for name, digest in _listed(text):
            one = found.get(f"{folder}/{name}")
            if one is None or one.sha256 != digest:
                wrong.append(f"{folder}/{name}")
    if wrong:
        raise Refusal(
            "bundle_part_differs",
            f"Files are gone or others than when they were fetched: {_named(sorted(wrong))}.",
            "Remove the folders that they are in and make the bundle again.",
            {"files": sorted(wrong)},
        )


def _listed(text: str) -> list[tuple[str, str]]:
    """Names and digests, of what sha256sum(1) prints or of an index of packages."""
    names = re.findall(r"^Filename: \./(\S+)$", text, re.MULTILINE)
    if names:
        return list(zip(names, re.findall(r"^SHA256: ([0-9a-f]{64})$", text, re.MULTILINE)))
    return [(name, digest) for digest, name in re.findall(r"^([0-9a-f]{64})  (\S+)$", text, re.MULTILINE)]


def verify_models(texts: Mapping[str, str], found: Mapping[str, BundleFile]) -> None:
    """C(texts): the manifests of models by their folder in the bundle. A model comes with all of its files or none."""
    for folder, text in texts.items():
        try:
            files = [
                (str(one["path"]), int(one["size_bytes"]), str(one["sha256"])) for one in json.loads(text)["files"]
            ]
        except (ValueError, KeyError, TypeError):
            raise Refusal(
                "bundle_model_manifest",
                f"The manifest of {folder} is none of a model.",
                "Expected the .manifest.json that role gpufleet.sglang.model_store keeps in the model's folder.",
                {"folder": folder},
            ) from None
        there = [path for path, _size, _sum in files if f"{folder}/{path}" in found]
        if not there:
            continue
        wrong = [
            path
            for path, size, digest in files
            if f"{folder}/{path}" not in found
            or (found[f"{folder}/{path}"].size_bytes, found[f"{folder}/{path}"].sha256) != (size, digest)
        ]
        if wrong:
            raise Refusal(
                "bundle_model_incomplete",
                f"{folder} lacks files of its manifest, or has others under their names: {_named(sorted(wrong))}.",
                "Verify the model where it was copied from, and make the bundle again.",
                {"folder": folder, "files": sorted(wrong)},
            )
