# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the meter showed from moment to moment while one waited."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import RankReading

SAMPLE_SECONDS = 0.5
# So many at most come back from one look; beyond, every second one goes.
MOST_SAMPLES = 40


class Samples:
    def __init__(self, meter: str) -> None:
        self._meter = meter
        self._found: list[dict[str, Any]] = []

    def add(self, at: float, ranks: Iterable[RankReading]) -> None:
        """Nothing is noted where the meter shows nothing by process."""
        held = {one.rank: one.pinned_bytes(self._meter) for one in ranks if one.alive}
        known = {rank: size for rank, size in held.items() if size is not None}
        if known:
            self._found.append({"at": at, "rank_bytes": known})
        if len(self._found) > MOST_SAMPLES:
            # The newest stays: the list has one element more than an even number of them.
            del self._found[1::2]

    def as_list(self) -> list[dict[str, Any]]:
        return list(self._found)
