# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import mmap
from types import ModuleType
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.rehearsal.sglang_on_cpu.shim.rehearsal_cpu import pinning

MEBIBYTE = 1 << 20


class Clock:
    """A clock that passes only in sleep."""

    def __init__(self) -> None:
        self.now = 100.0
        self.naps: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.now += seconds


class Mapping:
    """Records what is populated, and how long that takes."""

    def __init__(self, clock: Clock, seconds: float = 0.0) -> None:
        self._clock = clock
        self._seconds = seconds
        self.ranges: list[tuple[int, int]] = []

    def madvise(self, option: int, start: int, length: int) -> None:
        assert option == 23
        self._clock.now += self._seconds
        self.ranges.append((start, length))


@pytest.fixture(name="clock")
def fixture_clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(pinning, "time", clock)
    return clock


def populate(mapping: Any, size_bytes: int, speed: int) -> None:
    pinning.populate_paced(mapping, size_bytes, speed)


def test_every_byte_is_populated_once_at_the_set_speed(clock: Clock) -> None:
    mapping = Mapping(clock)
    size = 64 * MEBIBYTE + mmap.PAGESIZE
    populate(mapping, size, 32 * MEBIBYTE)
    assert clock.now - 100.0 == pytest.approx(size / (32 * MEBIBYTE))
    assert mapping.ranges[0][0] == 0
    for (start, length), (following, _length) in zip(mapping.ranges, mapping.ranges[1:], strict=False):
        assert start + length == following
    assert sum(mapping.ranges[-1]) == size


def test_the_bytes_grow_several_times_a_second(clock: Clock) -> None:
    populate(Mapping(clock), 64 * MEBIBYTE, 32 * MEBIBYTE)
    assert max(clock.naps) <= 0.1


def test_a_machine_slower_than_the_set_speed_is_not_slowed_further(clock: Clock) -> None:
    populate(Mapping(clock, seconds=0.5), 64 * MEBIBYTE, 32 * MEBIBYTE)
    assert clock.naps == []


def test_a_kernel_that_cannot_populate_is_written_to_instead(clock: Clock) -> None:
    class Old(mmap.mmap):
        def madvise(self, *args: int) -> None:
            raise OSError(22, "Invalid argument")

    with Old(-1, 3 * mmap.PAGESIZE) as mapping:
        populate(mapping, 3 * mmap.PAGESIZE, mmap.PAGESIZE)
        assert mapping[:] == bytes(3 * mmap.PAGESIZE)


def allocator() -> ModuleType:
    module = ModuleType("sglang.srt.mem_cache.storage.mmap.mmap_allocator")
    module.__dict__["_mmap_prefaulted"] = lambda fileno, alloc_bytes, flags: "SGLang's own"
    return module


@pytest.mark.parametrize("setting", [None, "", "0"])
def test_without_a_speed_the_allocator_stays_as_it_is(monkeypatch: pytest.MonkeyPatch, setting: str | None) -> None:
    monkeypatch.delenv(pinning.VARIABLE, raising=False)
    if setting is not None:
        monkeypatch.setenv(pinning.VARIABLE, setting)
    module = allocator()
    pinning.pace(module)
    assert module._mmap_prefaulted(-1, 1, 0) == "SGLang's own"


def test_with_a_speed_the_mapping_is_populated_and_shared(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pinning.VARIABLE, str(MEBIBYTE))
    module = allocator()
    pinning.pace(module)
    with module._mmap_prefaulted(-1, 2 * MEBIBYTE, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS) as mapping:
        assert len(mapping) == 2 * MEBIBYTE
    assert sum(clock.naps) == pytest.approx(2.0)


def test_a_speed_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pinning.VARIABLE, "fast")
    with pytest.raises(ValueError, match="REHEARSAL_PIN_BYTES_PER_SECOND is 'fast'"):
        pinning.pace(allocator())


def test_an_allocator_without_the_function_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pinning.VARIABLE, "1000000")
    with pytest.raises(RuntimeError, match="has no _mmap_prefaulted"):
        pinning.pace(ModuleType("renamed"))
