# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Texts that others wrote (firmware, kernels, drivers), as what may be shown.

A terminal obeys control characters, and half of a surrogate pair fits no encoding.
"""

from __future__ import annotations


def without_controls(text: str) -> str:
    """The same text with blanks for what cannot be shown."""
    return text if text.isprintable() else "".join(mark if mark.isprintable() else " " for mark in text)


def one_line(text: str, limit: int | None = None) -> str:
    """One line of C(limit) characters at most, which any encoding of Unicode can hold; blanks in a row become one."""
    return " ".join(without_controls(text).split())[:limit].rstrip()
