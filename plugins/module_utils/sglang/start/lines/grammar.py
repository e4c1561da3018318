# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All rows of the grammar, by release. A release newer than those that were read keeps the open rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import (
    EXAMINED,
    OLDEST,
    parse_version,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.anchors import (
    anchors_of,
    by_common_word,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.capture_rows import CAPTURE_ROWS
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.compile_rows import COMPILE_ROWS
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.device_rows import DEVICE_ROWS
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.failure_rows import FAILURE_ROWS
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.host_rows import HOST_ROWS
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.load_rows import LOAD_ROWS
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.rows import Row
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.serve_rows import SERVE_ROWS

START_ROWS: tuple[Row, ...] = (*LOAD_ROWS, *DEVICE_ROWS, *COMPILE_ROWS, *CAPTURE_ROWS, *HOST_ROWS, *SERVE_ROWS)
GRAMMAR: tuple[Row, ...] = (*START_ROWS, *FAILURE_ROWS)


@dataclass(frozen=True)
class Grammar:
    """The rows of a release in their order, and which of them a line may match.

    C(places): of the rows that want an anchor in a line; C(groups): the anchors that hold a word; C(always): places of
    the rows that want no anchor.
    """

    rows: tuple[Row, ...]
    places: Mapping[str, tuple[int, ...]]
    groups: tuple[tuple[str, tuple[str, ...]], ...]
    always: tuple[int, ...]

    def candidates(self, line: str) -> list[Row]:
        """Rows worth matching against the line, in their order; none at all for almost every line of a log."""
        groups = [anchors for word, anchors in self.groups if word in line]
        if not groups and not self.always:
            return []
        found = set(self.always)
        for anchors in groups:
            for anchor in anchors:
                if anchor in line:
                    found.update(self.places[anchor])
        return [self.rows[place] for place in sorted(found)]


def _grammar(rows: tuple[Row, ...]) -> Grammar:
    places: dict[str, list[int]] = {}
    always = []
    for place, row in enumerate(rows):
        anchors = anchors_of(row.regex)
        for anchor in anchors:
            places.setdefault(anchor, []).append(place)
        if not anchors:
            always.append(place)
    return Grammar(
        rows=rows,
        places={anchor: tuple(held) for anchor, held in places.items()},
        groups=tuple(by_common_word(places).items()),
        always=tuple(always),
    )


@lru_cache(maxsize=64)
def grammar_of(version: str | None) -> Grammar:
    """The grammar of a release; of one that is not known, the forms of all."""
    if version is None:
        return _grammar(GRAMMAR)
    release = parse_version(version).read_as
    return _grammar(tuple(row for row in GRAMMAR if row.holds(release)))


def grammar_is_read(version: str) -> bool:
    """Whether the lines of this very release were read; if not, those of C(grammar_read_as) are taken for its own."""
    return parse_version(version) in EXAMINED


def grammar_read_as(version: str) -> str:
    """The newest release that was read and is not newer than the given one; the oldest for one before all of them."""
    return str(max((one for one in EXAMINED if one <= parse_version(version).read_as), default=OLDEST))
