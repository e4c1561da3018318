# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether anybody reads along. Pure."""

from __future__ import annotations

from dataclasses import dataclass

CHOICES = ("auto", "always", "never")
# Callbacks that own standard output: a document for a program (json, jsonl: ansible.posix), a line for each host
# (oneline), a screen that is drawn with control characters (dense: community.general), or nothing on purpose (null,
# selective: community.general).
MACHINE_CALLBACKS = frozenset(("json", "jsonl", "oneline", "dense", "null", "selective"))


@dataclass(frozen=True)
class Audience:
    """How the play was asked to print.

    C(callback): the standard output callback, C(None) if unknown. C(shows_ok): its display_ok_hosts.
    C(censored): the task has no_log.
    """

    callback: str | None = None
    shows_ok: bool = True
    censored: bool = False


def shows_live_lines(choice: str, audience: Audience) -> bool:
    """What no_log hides is never shown; otherwise as asked, and by default where a person reads along."""
    if audience.censored or choice == "never":
        return False
    if choice == "always":
        return True
    name = (audience.callback or "").rpartition(".")[2]
    return name not in MACHINE_CALLBACKS and audience.shows_ok
