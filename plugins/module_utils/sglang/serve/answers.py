# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What came back over HTTP, read as if whoever answered meant harm: any type, any size, any secret in it. No I/O."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import one_line

# Beyond this, counts are no longer whole in JSON numbers, and no server has so many of anything.
LARGEST_COUNT = 1 << 53
SHOWN_CHARACTERS = 300
REDACTED = "********"


@dataclass(frozen=True)
class Answer:
    """C(status) 0: no whole HTTP answer came; C(body) says why. C(late): none came in the time that it had.

    C(hidden): what may be in the body and never be shown.
    """

    status: int
    body: str
    seconds: float = 0.0
    late: bool = False
    hidden: tuple[str, ...] = field(default=(), repr=False)

    def data(self) -> Any:
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    def mapping(self) -> Mapping[str, Any]:
        """The body's object, empty if it holds none or is no success."""
        data = self.data() if self.status == 200 else None
        return data if isinstance(data, Mapping) else {}

    def words(self) -> str:
        """Status and what was said, for a person: without secrets, on one line, shortened in this order."""
        data = self.data()
        said = _message_of(data) if isinstance(data, Mapping) else None
        text = shown(said or self.body, self.hidden)
        return text if not self.status else f"{self.status}: {text}" if text else str(self.status)


def _message_of(data: Mapping[str, Any]) -> str | None:
    inner = data.get("error")
    for found in (inner.get("message") if isinstance(inner, Mapping) else inner, data.get("message")):
        if isinstance(found, str) and found:
            return found
    return None


def redacted(text: str, hidden: Iterable[str]) -> str:
    """The longest first, so that no rest of one is left where another is its beginning."""
    for secret in sorted((one for one in hidden if one), key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    return text


def shown(text: str, hidden: Iterable[str], limit: int = SHOWN_CHARACTERS) -> str:
    return one_line(redacted(text, hidden), limit)


def without_secrets(value: Any, hidden: tuple[str, ...]) -> Any:
    """The same value with every text in it redacted, keys too."""
    if isinstance(value, str):
        return redacted(value, hidden)
    if isinstance(value, Mapping):
        return {without_secrets(key, hidden): without_secrets(one, hidden) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_secrets(one, hidden) for one in value]
    return value


def count(value: Any) -> int | None:
    """A whole number that is not negative, whatever JSON type says it; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, float) and (not math.isfinite(value) or value != int(value)):
        return None
    return int(value) if 0 <= value <= LARGEST_COUNT else None


def flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def text_of(value: Any, hidden: Iterable[str], limit: int = SHOWN_CHARACTERS) -> str | None:
    return shown(value, hidden, limit) or None if isinstance(value, str) else None


def rows(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list, none if it is no list."""
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []
