# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bars of one kind, drawn to one scale over a grid, with the figures of segments that are too narrow below."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from ansible_collections.gpufleet.sglang.plugins.module_utils.picture.bars import NAMES, Bar, Segment
from ansible_collections.gpufleet.sglang.plugins.module_utils.picture.scale import (
    BAR_HEIGHT,
    BAR_STEP,
    BAR_WIDTH,
    BAR_X,
    LINE_CHARACTERS,
    LINE_STEP,
    MARGIN,
    PLACE_X,
    SMALL,
    Scale,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.picture.style import ink_on, paint
from ansible_collections.gpufleet.sglang.plugins.module_utils.picture.svg import element, round_steps, text, text_width
from ansible_collections.gpufleet.sglang.plugins.module_utils.picture.words import beside, told_bar

_TICKS = 7


def draw_group(title: str, bars: Sequence[Bar], y: float, scale: Scale) -> tuple[list[str], float]:
    """Bars of one scale over its grid, the axis below them."""
    bottom = y + 10 + len(bars) * BAR_STEP
    parts = [text(title, MARGIN, y, "head")]
    for step in round_steps(scale.largest_bytes / scale.unit_bytes, _TICKS):
        x = BAR_X + scale.pixels(step * scale.unit_bytes)
        parts += [
            element("line", x1=x, y1=y + 6, x2=x, y2=bottom + 2, class_="grid"),
            text(f"{step:,.10g} {scale.unit}" if step else "0", x, bottom + 15, "small", "middle"),
        ]
    for place, strip in enumerate(bars):
        parts.append(_bar(strip, y + 10 + place * BAR_STEP, scale))
    y = bottom + 18
    narrow = _narrow(bars, scale)
    if narrow:
        for line in textwrap.wrap(f"Too narrow for a figure: {', '.join(narrow)}", LINE_CHARACTERS):
            y += LINE_STEP
            parts.append(text(line, BAR_X, y, "small"))
    return parts, y


def _bar(strip: Bar, y: float, scale: Scale) -> str:
    parts = [element("title", told_bar(strip, scale))]
    parts.append(text(strip.label, MARGIN, y + 14, "label"))
    if strip.place:
        parts.append(text(strip.place, PLACE_X, y + 14, "small"))
    at, labels = 0, []
    for place, segment in enumerate(strip.segments):
        x, width = BAR_X + scale.pixels(at), scale.pixels(segment.size_bytes)
        hover = f"{NAMES.get(segment.kind, segment.kind)} {segment.detail}".strip()
        parts.append(
            element(
                "rect",
                [element("title", f"{hover}: {scale.told(segment.size_bytes, 2)}")],
                x=x,
                y=y,
                width=width,
                height=BAR_HEIGHT,
                **paint(segment.kind),
            )
        )
        if place:
            parts.append(element("line", x1=x, y1=y, x2=x, y2=y + BAR_HEIGHT, class_="cut"))
        room = scale.pixels(_before_limit(segment, at, strip))
        label = _label(segment, room, scale)
        if label:
            labels.append(text(label, x + room / 2, y + 14, ink_on(segment.kind), "middle"))
        at += segment.size_bytes
    if strip.short_bytes:
        short, beyond = strip.short_bytes, scale.pixels(strip.limit_bytes or 0)
        parts.append(
            element("rect", x=BAR_X + beyond, y=y, width=scale.pixels(short), height=BAR_HEIGHT, class_="short")
        )
    parts += labels
    if strip.limit_bytes is not None:
        x = BAR_X + scale.pixels(strip.limit_bytes)
        parts.append(element("line", x1=x, y1=y - 3, x2=x, y2=y + BAR_HEIGHT + 3, class_="limit"))
    said, kind = beside(strip, scale)
    parts.append(text(said, BAR_X + BAR_WIDTH + 12, y + 14, kind))
    return element("g", parts)


def _before_limit(segment: Segment, at: int, strip: Bar) -> int:
    """What of a segment is not hatched: of a bar that is short, only what lies before the limit has room for text."""
    end = at + segment.size_bytes
    if strip.short_bytes and strip.limit_bytes is not None:
        end = min(end, strip.limit_bytes)
    return max(0, end - at)


def _label(segment: Segment, room: float, scale: Scale) -> str:
    """The longest label that fits into so many pixels, or none; the axis tells the unit of a bare number."""
    size, kind = scale.told(segment.size_bytes, 1), segment.kind
    short = "KV" if kind == "kv" else NAMES.get(kind, kind).split(",")[0].split(" and ")[0]
    for label in (f"{segment.detail or short} {size}", size, size.split(" ", maxsplit=1)[0]):
        if text_width(label, SMALL) + 4 <= room:
            return label
    return ""


def _narrow(bars: Sequence[Bar], scale: Scale) -> list[str]:
    """Name and figure of what is drawn somewhere without one; from the least to the most where bars differ."""
    sizes: dict[str, list[int]] = {}
    for strip in bars:
        for segment in strip.segments:
            if not _label(segment, scale.pixels(segment.size_bytes), scale):
                sizes.setdefault(segment.kind, []).append(segment.size_bytes)
    return [f"{NAMES.get(kind, kind)} {_span(found, scale)}" for kind, found in sizes.items()]


def _span(sizes: Sequence[int], scale: Scale) -> str:
    """Two digits below 1, as a tenth says little there."""
    low, high = (scale.told(size, 1 if size >= scale.unit_bytes else 2) for size in (min(sizes), max(sizes)))
    return low if low == high else f"{low} to {high}"
