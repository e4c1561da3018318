# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which of two changes an entry of the record tells of: the last one may not have come about. Pure."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.items import State, matches
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.record import Entry


def matches_previous(entry: Entry, current: State) -> bool:
    """Whether a change was interrupted before it came to this."""
    return entry.previous is not None and matches(entry.kind, current, entry.previous[1])


def settled(entry: Entry, current: State) -> Entry:
    """The entry as it holds for what is there: of a change that did not come about, the one before it."""
    if entry.previous is not None and not matches(entry.kind, current, entry.ours) and matches_previous(entry, current):
        return replace(entry, before=entry.previous[0], ours=entry.previous[1], previous=None)
    return entry
