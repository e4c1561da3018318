# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of an environment, C(installed.json): written last, so that without it nothing is installed. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

RECORD = "installed.json"
SCHEMA = 2


def new_record(
    *,
    version: str,
    digest: str,
    installer: str,
    python: str,
    packages: Mapping[str, str],
    installed_at: int,
    size_bytes: int,
    hashed: bool,
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "sglang": version,
        "digest": digest,
        "installer": installer,
        "python": python,
        "packages": dict(sorted(packages.items())),
        "installed_at": installed_at,
        "size_bytes": size_bytes,
        "hashed": hashed,
        "checks": {},
    }


def read_record(text: str | None, digest: str | None = None) -> dict[str, Any] | None:
    """None for what is no whole record, or one of another environment: both mean that it is not installed."""
    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA or not isinstance(found.get("digest"), str):
        return None
    if digest is not None and found["digest"] != digest:
        return None
    return found


def with_check(record: Mapping[str, Any], key: str, result: Mapping[str, Any]) -> dict[str, Any]:
    return {**record, "checks": {**(record.get("checks") or {}), key: dict(result)}}


def as_text(record: Mapping[str, Any]) -> str:
    return json.dumps(record, indent=1, sort_keys=True) + "\n"
