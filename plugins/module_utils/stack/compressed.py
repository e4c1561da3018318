# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Taking apart what the kernel's modules are compressed with: gzip, xz, zstd. Bounded, whatever the file claims."""

from __future__ import annotations

import ctypes
import lzma
import zlib

GZIP = b"\x1f\x8b"
XZ = b"\xfd7zXZ\x00"
ZSTD = b"\x28\xb5\x2f\xfd"
_LZMA_MEMORY = 256 << 20
_OUTPUT = 1 << 20


class _Buffer(ctypes.Structure):
    """ZSTD_inBuffer and ZSTD_outBuffer, which look the same."""

    _fields_ = [("pointer", ctypes.c_void_p), ("size", ctypes.c_size_t), ("position", ctypes.c_size_t)]


def expand(data: bytes, limit: int) -> bytes | None:
    """The content of what is compressed, or the data itself; None for broken data and for more than C(limit) bytes."""
    if data.startswith(GZIP):
        return _bounded(_gzip(data, limit + 1), limit)
    if data.startswith(XZ):
        return _bounded(_xz(data, limit + 1), limit)
    if data.startswith(ZSTD):
        return _bounded(_zstd(data, limit + 1), limit)
    return _bounded(data, limit)


def _bounded(data: bytes | None, limit: int) -> bytes | None:
    return data if data is not None and len(data) <= limit else None


def _gzip(data: bytes, size: int) -> bytes | None:
    machine = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        found = machine.decompress(data, size)
    except zlib.error:
        return None
    return found if machine.eof or len(found) == size else None


def _xz(data: bytes, size: int) -> bytes | None:
    machine = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_LZMA_MEMORY)
    try:
        found = machine.decompress(data, size)
    except (lzma.LZMAError, EOFError):
        return None
    return found if machine.eof or len(found) == size else None


def _library() -> ctypes.CDLL | None:
    """libzstd, which kmod and the package managers need as well; Python's own binding came with 3.14."""
    try:
        library = ctypes.CDLL("libzstd.so.1")
        library.ZSTD_createDStream.restype = ctypes.c_void_p
        library.ZSTD_freeDStream.argtypes = [ctypes.c_void_p]
        library.ZSTD_decompressStream.argtypes = [
            ctypes.c_void_p,
            ctypes.POINTER(_Buffer),
            ctypes.POINTER(_Buffer),
        ]
        library.ZSTD_decompressStream.restype = ctypes.c_size_t
        library.ZSTD_isError.argtypes = [ctypes.c_size_t]
        library.ZSTD_isError.restype = ctypes.c_uint
    except (OSError, AttributeError):
        return None
    return library


def _zstd(data: bytes, size: int) -> bytes | None:
    library = _library()
    stream = library.ZSTD_createDStream() if library is not None else None
    if library is None or not stream:
        return None
    source = ctypes.create_string_buffer(data, len(data))
    room = ctypes.create_string_buffer(_OUTPUT)
    given = _Buffer(ctypes.addressof(source), len(data), 0)
    found = bytearray()
    try:
        while len(found) < size:
            taken = _Buffer(ctypes.addressof(room), _OUTPUT, 0)
            left = library.ZSTD_decompressStream(stream, ctypes.byref(taken), ctypes.byref(given))
            if library.ZSTD_isError(left):
                return None
            found += memoryview(room)[: taken.position]
            if left == 0 and given.position == given.size:
                return bytes(found)
            if taken.position == 0 and given.position == given.size:
                return None  # the data ends before the frame does
    finally:
        library.ZSTD_freeDStream(stream)
    return bytes(found[:size])
