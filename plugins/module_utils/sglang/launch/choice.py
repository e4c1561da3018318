# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A value that has to be one of a release's own."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import VersionFacts


def refuse_unknown_choice(option: str, value: str, choices: Iterable[str], facts: VersionFacts) -> None:
    known = list(choices)
    if value in known:
        return
    closest = difflib.get_close_matches(value, known, n=1)
    raise Refusal(
        "choice_unknown",
        f"{option} is '{value}', which SGLang {facts.version} does not know.",
        f"Expected one of {', '.join(known)}" + (f"; the closest is {closest[0]}." if closest else "."),
        {"option": option, "value": value, "choices": known},
    )
