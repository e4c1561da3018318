# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of a bundle, read to the last byte."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.bundle.contents import MANIFEST, SIGNATURE, BundleFile

_BLOCK_BYTES = 1 << 20


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def files_of(folder: Path) -> dict[str, BundleFile]:
    """Every file below the folder but for the manifest and its signature."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name not in (MANIFEST, SIGNATURE):
            found[name] = BundleFile(name, path.stat().st_size, sha256_of(path))
    return found
