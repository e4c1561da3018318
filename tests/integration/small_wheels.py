# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Wheels of a few bytes that stand for the gigabytes of a release: real pip and uv install them on a real node.

What is installed is real where the size does not matter: names, tags, hashes, imports, links, records.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

TAG = "py3-none-any"


def wheel(folder: Path, name: str, version: str, modules: Mapping[str, bytes], tag: str = TAG) -> Path:
    """C(modules): content by path in the wheel. https://packaging.python.org/en/latest/specifications/binary-distribution-format/"""
    info = f"{name}-{version}.dist-info"
    files = {
        **modules,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n".encode(),
    }
    rows = [
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()},{len(content)}"
        for path, content in files.items()
    ]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for inner, content in files.items():
            # Always the same bytes, so that hashes hold from one run to the next.
            archive.writestr(zipfile.ZipInfo(inner, (2026, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    return path


def sglang_wheel(folder: Path, version: str) -> Path:
    return wheel(
        folder,
        "sglang",
        version,
        {"sglang/__init__.py": f"__version__ = {version!r}\n".encode(), "sglang/launch_server.py": b"import torch\n"},
    )


def torch_wheel(folder: Path, padding_bytes: int = 0) -> Path:
    """C(padding_bytes): so much that unpacking it takes long enough to be interrupted."""
    return wheel(
        folder,
        "torch",
        "2.13.0",
        {"torch/__init__.py": b"__version__ = '2.13.0'\n", "torch/padding": bytes(padding_bytes)},
    )


def write_sums(folder: Path) -> None:
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(folder.glob("*.whl"))]
    (folder / "SHA256SUMS").write_text("".join(sums))
