# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Long lines that a logger wrote in parts, put together again.

journald breaks a line after LineMax (48 KiB by default), conmon after 8 KiB, Docker after 16 KiB. SGLang prints its
arguments as one line of several KiB.
"""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.collector import LONGEST_MESSAGE


class Parts:
    """What each stream has begun to say. What goes beyond a bound is dropped, the beginning tells."""

    def __init__(self) -> None:
        self._begun: dict[str, list[str]] = {}

    def join(self, stream: str, text: str, goes_on: bool) -> str | None:
        """The whole message with its last part, None before."""
        if not goes_on and stream not in self._begun:
            return text
        parts = self._begun.setdefault(stream, [])
        if sum(len(part) for part in parts) < LONGEST_MESSAGE:
            parts.append(text)
        return None if goes_on else "".join(self._begun.pop(stream))

    def rest(self) -> list[str]:
        """What was begun and not ended."""
        begun = ["".join(parts) for parts in self._begun.values()]
        self._begun.clear()
        return begun
