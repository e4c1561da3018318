# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of the CUDA runtime that HiCache's host pools call, done by the kernel instead of a driver."""

from __future__ import annotations

import ctypes
from types import ModuleType
from typing import Any

_SUCCESS = 0
# Asked for by models of sparse latent attention before they know that there is no card (arg_groups/model_hook.py):
# that of a Hopper, for which they keep their plain rows.
_CAPABILITY = (9, 0)
# cudaErrorMemoryAllocation, which cudaHostRegister gives when pages cannot be locked (CUDA Runtime API, cudaError).
_OUT_OF_MEMORY = 2


class HostRegistration:
    """cudaHostRegister and its kin: registered memory is locked, so it is pinned, and the lock can be refused."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        for call in (self._libc.mlock, self._libc.munlock):
            call.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
            call.restype = ctypes.c_int
        self._bytes_at: dict[int, int] = {}

    def cudaHostRegister(self, address: int, size_bytes: int, flags: int) -> int:
        if self._libc.mlock(address, size_bytes) != 0:
            return _OUT_OF_MEMORY
        self._bytes_at[address] = size_bytes
        return _SUCCESS

    def cudaHostUnregister(self, address: int) -> int:
        self._libc.munlock(address, self._bytes_at.pop(address, 0))
        return _SUCCESS

    def cudaGetErrorString(self, code: int) -> str:
        return {_SUCCESS: "no error", _OUT_OF_MEMORY: "out of memory"}.get(code, "unrecognized error code")


class Event:
    """A device event on a device whose work is done when the call returns."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def record(self, *args: Any) -> None:
        pass

    def wait(self, *args: Any) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: Event) -> float:
        return 0.0


class Stream:
    """A device stream on such a device."""

    device_index = 0
    device_type = 0
    stream_id = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *args: Any) -> None:
        pass

    def wait_stream(self, *args: Any) -> None:
        pass

    def wait_event(self, *args: Any) -> None:
        pass

    def record_event(self, event: Event | None = None) -> Event:
        return event or Event()

    def synchronize(self) -> None:
        pass

    def query(self) -> bool:
        return True


def stand_in(torch: ModuleType) -> None:
    """Gives torch a CUDA runtime for host memory, and its CPU device the streams and events of an accelerator."""
    runtime = HostRegistration()
    torch.cuda.cudart = lambda: runtime
    torch.cuda.get_device_capability = lambda device=None: _CAPABILITY
    torch.cpu.Event = Event
    torch.cpu.Stream = Stream
    torch.cpu.current_stream = lambda *args: Stream()
    torch.cpu.stream = lambda stream: stream or Stream()
