# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A wheel of pure Python out of files in memory: the same bytes whenever and wherever it is made.

https://packaging.python.org/en/latest/specifications/binary-distribution-format/ and
https://packaging.python.org/en/latest/specifications/recording-installed-packages/#the-record-file
"""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

TAG = "py3-none-any"
MADE = (2026, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Wheel:
    """C(files): content by path. C(name) and C(version) as file names have them."""

    name: str
    version: str
    summary: str
    files: Mapping[str, bytes]
    requires: Sequence[str] = ()
    requires_python: str = ">=3.10"

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.version}-{TAG}.whl"

    def content(self) -> bytes:
        info = f"{self.name}-{self.version}.dist-info"
        metadata = [
            "Metadata-Version: 2.1",
            f"Name: {self.name}",
            f"Version: {self.version}",
            f"Summary: {self.summary}",
            f"Requires-Python: {self.requires_python}",
            *(f"Requires-Dist: {one}" for one in self.requires),
        ]
        described = ["Wheel-Version: 1.0", "Generator: scripted_release", "Root-Is-Purelib: true", f"Tag: {TAG}"]
        files = {
            **dict(sorted(self.files.items())),
            f"{info}/METADATA": "".join(f"{line}\n" for line in metadata).encode(),
            f"{info}/WHEEL": "".join(f"{line}\n" for line in described).encode(),
        }
        record = f"{info}/RECORD"
        rows = [f"{path},sha256={_digest(content)},{len(content)}\n" for path, content in files.items()]
        files[record] = "".join([*rows, f"{record},,\n"]).encode()
        buffer = io.BytesIO()
        # Stored and not compressed: another zlib makes other bytes.
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
            for path, content in files.items():
                entry = zipfile.ZipInfo(path, MADE)
                entry.create_system = 3
                entry.external_attr = 0o100644 << 16
                archive.writestr(entry, content)
        return buffer.getvalue()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode("ascii")
