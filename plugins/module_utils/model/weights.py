# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a safetensors header says about the tensors of one file; pure, on bytes that the caller has read.

Format: https://huggingface.co/docs/safetensors. A file is 8 bytes of header length (little endian), a JSON header
that maps each tensor to dtype, shape and data offsets, and the data. Headers come from downloads, so nothing in them
is trusted: lengths are bounded before anything is read, offsets are held against each other and the file's size.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from dataclasses import dataclass
from typing import Any

PREFIX_BYTES = 8
# The format's own bound; the largest headers seen are a few MB.
MAX_HEADER_BYTES = 100_000_000
# The longest shapes seen have 5 sides (convolutions over video).
MAX_DIMENSIONS = 16
MAX_SIDE = 1 << 48

_DTYPE_BITS = {
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "U16": 16,
    "I16": 16,
    "U32": 32,
    "I32": 32,
    "U64": 64,
    "I64": 64,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "F16": 16,
    "BF16": 16,
    "F32": 32,
    "F64": 64,
    "C64": 64,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
}


class HeaderError(Exception):
    """A header that cannot be what it claims; the message is one sentence about the file."""


@dataclass(frozen=True)
class Tensor:
    name: str
    dtype: str
    size_bytes: int
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class Shard:
    """One file: its tensors, and where its data must end for it to be whole."""

    tensors: tuple[Tensor, ...]
    expected_file_bytes: int


def header_length(prefix: bytes, file_bytes: int) -> int:
    """Length of the JSON header from a file's first eight bytes, bounded by the format and by the file."""
    if len(prefix) < PREFIX_BYTES:
        raise HeaderError(f"it has {file_bytes} bytes, too few for a safetensors file")
    length: int = struct.unpack("<Q", prefix[:PREFIX_BYTES])[0]
    if length > MAX_HEADER_BYTES:
        raise HeaderError(f"its header claims {length:,} bytes, above the format's bound of {MAX_HEADER_BYTES:,}")
    if length < 2:
        raise HeaderError(f"its header claims {length} bytes, too few for JSON")
    if length > file_bytes - PREFIX_BYTES:
        raise HeaderError(f"its header claims {length:,} bytes, and the file has {file_bytes:,}")
    return length


def parse_header(header: bytes) -> Shard:
    """Tensors of one shard; a header that contradicts itself is an error."""
    try:
        entries = json.loads(header.decode("utf-8"), object_pairs_hook=_unique)
    except (UnicodeDecodeError, ValueError, RecursionError):
        raise HeaderError("its header is not JSON") from None
    if not isinstance(entries, dict) or not is_text(entries):
        raise HeaderError("its header is not a JSON object of valid text")
    tensors = []
    spans = []
    for name, entry in entries.items():
        if name == "__metadata__":
            continue
        start, end = _offsets(name, entry)
        tensors.append(
            Tensor(name=name, dtype=str(entry["dtype"]), size_bytes=end - start, shape=tuple(entry["shape"]))
        )
        spans.append((start, end, name))
    position = 0
    for start, end, name in sorted(spans):
        if start != position:
            raise HeaderError(f"its tensor {name} begins at {start}, expected {position}")
        position = end
    return Shard(tuple(tensors), PREFIX_BYTES + len(header) + position)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """JSON's last of two equal names would win in silence, and the first one's bytes would be a gap without a name."""
    entries = dict(pairs)
    if len(entries) != len(pairs):
        twice = Counter(name for name, _entry in pairs).most_common(1)[0][0]
        raise HeaderError(f"its header names {twice} twice")
    return entries


def is_text(value: object) -> bool:
    """Whether JSON holds only characters: an escape such as C(\\ud800) alone is none, and no answer could carry it."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (UnicodeEncodeError, RecursionError):
        return False
    return True


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _offsets(name: str, entry: Any) -> tuple[int, int]:
    if not isinstance(entry, dict):
        raise HeaderError(f"its tensor {name} is not described by an object")
    offsets, shape, dtype = entry.get("data_offsets"), entry.get("shape"), entry.get("dtype")
    if not (isinstance(offsets, list) and len(offsets) == 2 and all(_whole(offset) for offset in offsets)):
        raise HeaderError(f"its tensor {name} has no two data offsets")
    if not (isinstance(shape, list) and all(_whole(side) for side in shape)):
        raise HeaderError(f"its tensor {name} has no shape")
    start, end = offsets
    if end < start:
        raise HeaderError(f"its tensor {name} ends before it begins")
    if len(shape) > MAX_DIMENSIONS or any(side > MAX_SIDE for side in shape):
        raise HeaderError(f"its tensor {name} has a shape that no tensor needs")
    # A dtype that is newer than this table is counted by its offsets alone.
    if isinstance(dtype, str) and dtype in _DTYPE_BITS:
        elements = 1
        for side in shape:
            # A hostile shape must not grow into a number that takes long to print; none is above a byte a bit.
            elements = min(elements * side, 1 << 62)
        expected = -(-elements * _DTYPE_BITS[dtype] // 8)
        if expected != end - start:
            raise HeaderError(f"its tensor {name} has {end - start} bytes, and its shape needs {expected}")
    elif not isinstance(dtype, str):
        raise HeaderError(f"its tensor {name} has no dtype")
    return start, end
