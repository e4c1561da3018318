# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long each release takes to end after SIGTERM, beside the requests in flight.

Source: C(sigterm_watchdog) of managers/tokenizer_manager.py in every wheel from 0.4.7 to 0.5.23.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import Version, parse_version


@dataclass(frozen=True)
class StopFacts:
    """C(poll_seconds): how often it looks for the signal, and for requests; C(exit_seconds): it waits for its ranks."""

    poll_seconds: int
    exit_seconds: int


_TABLE: tuple[tuple[str, StopFacts], ...] = (
    ("0.4.7", StopFacts(5, 0)),
    # Ranks are asked to end and have 15 s for it.
    ("0.5.14", StopFacts(5, 15)),
    # Those that are killed have 60 s to be gone.
    ("0.5.19", StopFacts(5, 75)),
)


def stop_facts(version: Version) -> StopFacts:
    """Of a release, the newest that was read for any later one."""
    known = [facts for since, facts in _TABLE if parse_version(since) <= version]
    return known[-1] if known else _TABLE[0][1]
