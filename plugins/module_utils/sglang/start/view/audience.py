# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether anybody reads along. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

CHOICES = ("auto", "always", "never")
# Of the controller's environment; what it says stands in for auto.
LIVE_LINES = "GPUFLEET_LIVE_LINES"
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


def live_lines_choice(asked: str, environment: Mapping[str, str]) -> str:
    """What was asked for; for auto what the environment says. A value there that means nothing is refused."""
    told = environment.get(LIVE_LINES) or "auto"
    if told not in CHOICES:
        raise Refusal(
            "out_of_range",
            f"{LIVE_LINES} is {told!r} in the environment.",
            f"Expected one of {', '.join(CHOICES)}.",
            {LIVE_LINES: told},
        )
    return told if asked == "auto" else asked


def shows_live_lines(choice: str, audience: Audience) -> bool:
    """What no_log hides is never shown; otherwise as asked, and by default where a person reads along."""
    if audience.censored or choice == "never":
        return False
    if choice == "always":
        return True
    name = (audience.callback or "").rpartition(".")[2]
    return name not in MACHINE_CALLBACKS and audience.shows_ok
