# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The speed of a counter that grows, out of samples that come as they come. Pure arithmetic.

The speed in force is the mean since it last changed for good. A change counts where the samples before and after it
are each steady and differ clearly; speed that comes and goes is no change, and a pause is a part of it.
"""

from __future__ import annotations

from collections.abc import Sequence

# The past is cut into slices of this length, or of the distance of the samples where that is more.
SLICE_SECONDS = 0.5
SLICES = 120
# The least that two sides of a change have to last, and how clearly it has to stand out.
LEAST_SLICES = 4
EXPLAINED = 0.55
DIFFERENT = 0.15
# Slower than this against before is a pause, not a speed.
PAUSED = 0.1


def speed(points: Sequence[tuple[float, int]]) -> float | None:
    """Bytes a second that are in force by the last of C(points): (time, bytes), oldest first. None while unknown."""
    points = _growing(points)
    if len(points) < 2 or points[-1][0] <= points[0][0]:
        return None
    slices, seconds = _slices(points)
    whole = sum(slices) / (len(slices) * seconds)
    begin = _since_change(slices)
    present = sum(slices[begin:]) / ((len(slices) - begin) * seconds)
    if present < PAUSED * whole:
        present = whole
    return present if present > 0 else None


def _growing(points: Sequence[tuple[float, int]]) -> Sequence[tuple[float, int]]:
    """From the last point at which nothing had grown yet."""
    if not points:
        return points
    least = points[0][1]
    begin = next((index for index, (_at, size) in enumerate(points) if size > least), None)
    return points if begin is None else points[max(0, begin - 1) :]


def _slices(points: Sequence[tuple[float, int]]) -> tuple[list[float], float]:
    """Bytes that came in each of the slices of equal length, with that length."""
    begin, end = points[0][0], points[-1][0]
    apart = (end - begin) / (len(points) - 1)
    count = max(1, min(SLICES, round((end - begin) / max(SLICE_SECONDS, apart))))
    seconds = (end - begin) / count
    sizes: list[float] = []
    index = 0
    before: float = points[0][1]
    for number in range(1, count + 1):
        moment = begin + number * seconds
        while index + 2 < len(points) and points[index + 1][0] < moment:
            index += 1
        (left_at, left), (right_at, right) = points[index], points[index + 1]
        share = min(1.0, (moment - left_at) / (right_at - left_at)) if right_at > left_at else 1.0
        there = left + share * (right - left)
        sizes.append(max(0.0, there - before))
        before = there
    return sizes, seconds


def _since_change(slices: Sequence[float]) -> int:
    """The first slice after the last change of speed."""
    begin = 0
    while True:
        found = _change(slices[begin:])
        if found is None:
            return begin
        begin += found


def _change(slices: Sequence[float]) -> int | None:
    """Where a sequence falls in two steady parts, None if it is one, or many."""
    count, total = len(slices), sum(slices)
    squares = sum(size * size for size in slices)
    scatter = squares - total * total / count if count else 0.0
    best, place, left = 0.0, None, 0.0
    for index in range(1, count):
        left += slices[index - 1]
        if index < LEAST_SLICES or count - index < LEAST_SLICES:
            continue
        first, second = left / index, (total - left) / (count - index)
        explained = (first - second) ** 2 * index * (count - index) / count
        if explained > best and abs(first - second) > DIFFERENT * max(first, second):
            best, place = explained, index
    return place if place is not None and best >= EXPLAINED * scatter else None
