# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights import (
    MAX_HEADER_BYTES,
    HeaderError,
    header_length,
    parse_header,
)


def header(**tensors: Any) -> bytes:
    return json.dumps(tensors).encode()


def tensor(dtype: str, shape: list[int], start: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def test_tensors_and_expected_size() -> None:
    content = header(__metadata__={"format": "pt"}, a=tensor("BF16", [2, 3], 0, 12), b=tensor("F8_E4M3", [4], 12, 16))
    shard = parse_header(content)
    assert [(item.name, item.dtype, item.size_bytes) for item in shard.tensors] == [
        ("a", "BF16", 12),
        ("b", "F8_E4M3", 4),
    ]
    assert [item.shape for item in shard.tensors] == [(2, 3), (4,)]
    assert shard.expected_file_bytes == 8 + len(content) + 16


def test_order_in_the_header_does_not_matter() -> None:
    shard = parse_header(header(b=tensor("U8", [4], 12, 16), a=tensor("I32", [3], 0, 12)))
    assert sum(item.size_bytes for item in shard.tensors) == 16


def test_scalars_empty_tensors_and_packed_types() -> None:
    shard = parse_header(
        header(scalar=tensor("F32", [], 0, 4), empty=tensor("F32", [0, 7], 4, 4), packed=tensor("F4", [3], 4, 6))
    )
    assert shard.expected_file_bytes > 6


def test_types_newer_than_the_table_are_counted_by_their_offsets() -> None:
    assert parse_header(header(a=tensor("X9", [2], 0, 5))).tensors[0].size_bytes == 5


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"not json", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[1]", "not a JSON object"),
        (header(a=1), "object"),
        (header(a={"dtype": "F32", "shape": [1]}), "offsets"),
        (header(a=tensor("F32", [1], 0, -4)), "offsets"),
        (header(a={"dtype": "F32", "shape": [1], "data_offsets": [0, True]}), "offsets"),
        (header(a={"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 8]}), "offsets"),
        (header(a=tensor("F32", [1], 4, 0)), "ends before"),
        (header(a={"dtype": "F32", "shape": "1", "data_offsets": [0, 4]}), "shape"),
        (header(a=tensor("F32", [-1], 0, 4)), "shape"),
        (header(a={"dtype": 7, "shape": [1], "data_offsets": [0, 4]}), "dtype"),
        (header(a=tensor("F32", [2], 0, 4)), "needs 8"),
        (header(a=tensor("F32", [10**9, 10**9], 0, 4)), "needs"),
        (header(a=tensor("F32", [1], 0, 4), b=tensor("F32", [1], 2, 6)), "expected 4"),
        (header(a=tensor("F32", [1], 0, 4), b=tensor("F32", [1], 8, 12)), "expected 4"),
        (header(a=tensor("F32", [1], 4, 8)), "expected 0"),
        (b'{"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}, "a": 1}', "names a twice"),
        (header(a=tensor("X9", [1] * 17, 0, 1)), "shape that no tensor needs"),
        (header(a=tensor("X9", [1 << 60], 0, 1)), "shape that no tensor needs"),
    ],
)
def test_headers_that_contradict_themselves_are_refused(content: bytes, said: str) -> None:
    with pytest.raises(HeaderError, match=said):
        parse_header(content)


@pytest.mark.parametrize(
    ("prefix", "file_bytes", "said"),
    [
        (b"", 0, "too few"),
        (b"\x00" * 7, 7, "too few"),
        (struct.pack("<Q", 0), 100, "0 bytes"),
        (struct.pack("<Q", 2**64 - 1), 10**12, "bound"),
        (struct.pack("<Q", MAX_HEADER_BYTES + 1), 10**12, "bound"),
        (struct.pack("<Q", 93), 100, "the file has 100"),
        (b"<!DOCTYPE html>", 500, "bound"),  # a login page saved as a weight file
        (b"version https://git-lfs", 130, "bound"),  # a pointer of Git LFS
    ],
)
def test_header_length_is_bounded_before_anything_is_read(prefix: bytes, file_bytes: int, said: str) -> None:
    with pytest.raises(HeaderError, match=said):
        header_length(prefix, file_bytes)


def test_header_length() -> None:
    assert header_length(struct.pack("<Q", 92), 100) == 92


@pytest.mark.parametrize(
    "header",
    [
        b'{"w": {"dtype": "\\ud800", "shape": [1], "data_offsets": [0, 2]}}',
        b'{"\\udfff": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}}',
        b'{"w": {"dtype": "BF16", "shape": [' + b",".join([b"9" * 60] * 200) + b'], "data_offsets": [0, 2]}}',
    ],
    ids=["dtype is no text", "name is no text", "endless shape"],
)
def test_hostile_header_is_an_error_and_no_crash(header: bytes) -> None:
    with pytest.raises(HeaderError):
        parse_header(header)
