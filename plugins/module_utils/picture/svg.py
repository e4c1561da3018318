# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""SVG elements as text. Whatever text goes in is escaped, and what XML cannot hold becomes a blank."""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import without_controls

_MARKUP = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}
# Rough width of a character of a sans-serif font, in parts of its size; on the wide side, so that labels fit.
_CHARACTER = 0.58


def escaped(text: str) -> str:
    return "".join(_MARKUP.get(mark, mark) for mark in without_controls(text))


def number(value: float) -> str:
    """Thousandths of a pixel, without trailing zeros."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def element(name: str, content: Iterable[str] | str = (), **attributes: str | float) -> str:
    """C(class_) and the like stand for names that Python keeps to itself; underscores become hyphens.

    A text as content is escaped, elements within are not.
    """
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value) if isinstance(value, str) else number(value)}"'
        for key, value in attributes.items()
    )
    inner = escaped(content) if isinstance(content, str) else "".join(content)
    return f"<{name}{told}>{inner}</{name}>" if inner else f"<{name}{told}/>"


def text(content: str, x: float, y: float, kind: str, anchor: str = "start") -> str:
    return element("text", content, x=x, y=y, class_=kind, text_anchor=anchor)


def text_width(content: str, size: float) -> float:
    return len(content) * size * _CHARACTER


def round_steps(largest: float, steps: int) -> list[float]:
    """From 0 up to C(largest), in about so many steps of 1, 2 or 5 times a power of ten."""
    if largest <= 0:
        return [0.0]
    power = 1.0
    while power * 10 <= largest / steps:
        power *= 10
    while power > largest / steps:
        power /= 10
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= largest / steps)
    return [step * place for place in range(int(largest / step) + 1)]
