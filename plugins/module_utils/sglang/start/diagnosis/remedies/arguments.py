# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Remedies for arguments: the flag or value of this release that is closest to what was given. Pure."""

from __future__ import annotations

import difflib
import re

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_fit import facts_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.flags import (
    choices_of,
    flag_absence,
    known_flags,
    translation,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.remedies.case import (
    Case,
    Finding,
    known,
    plain,
)

_FLAG = re.compile(r"--([\w-]+)")


def _named(case: Case) -> str | None:
    found = _FLAG.search(str(case.value("flag") or "")) or _FLAG.search(case.text)
    return found.group(1) if found else None


def flag_unknown(case: Case) -> Finding:
    found, flag, facts = plain(case), _named(case), facts_of(case.plan)
    if flag is None or facts is None:
        return found
    instead = translation(flag, True, facts.version)
    closest = difflib.get_close_matches(flag, known_flags(facts.version, ""), n=1)
    name = next(iter(instead), None) if instead else (closest[0] if closest else None)
    absence = flag_absence(flag, facts.version)
    because = f": {absence}" if absence else ""
    remedy = f"Write --{name} instead." if name else f"Leave --{flag} out."
    return Finding(
        f"SGLang {facts.version} does not know --{flag}{because}.", remedy, known(flag=flag, closest_flag=name)
    )


def flag_ambiguous(case: Case) -> Finding:
    found, flag = plain(case), _named(case)
    candidates = _FLAG.findall(str(case.value("candidates") or ""))
    if flag is None or not candidates:
        return found
    facts = facts_of(case.plan)
    instead = translation(flag, True, facts.version) if facts is not None else None
    # Of the flags that a name was split into, the release's own translation knows which one takes its place.
    name = next((one for one in instead or () if one in candidates), candidates[0])
    others = ", ".join(f"--{one}" for one in candidates)
    return Finding(
        f"--{flag} is the beginning of several flags of this release: {others}.",
        f"Write --{name} if that is what was meant.",
        known(flag=flag, closest_flag=name, candidates=candidates),
    )


def flag_value_invalid(case: Case) -> Finding:
    found, flag, given = plain(case), _named(case), case.value("given")
    facts = facts_of(case.plan)
    choices: list[str] = re.findall(r"'?([\w./-]+)'?", str(case.value("candidates") or ""))
    if not choices and flag is not None and facts is not None:
        choices = list(choices_of(flag, facts.version) or ())
    if flag is None or given is None:
        return found
    closest = difflib.get_close_matches(str(given), choices, n=1)
    kind = case.value("kind")
    whole = f" Expected a value of the kind {kind}." if kind else ""
    if kind == "int" and re.fullmatch(r"\d+\.\d+", str(given)):
        closest = [str(int(float(given)))]
    remedy = f"Set --{flag} to {closest[0]}." if closest else f"Choose one of {', '.join(choices)}." if choices else ""
    return Finding(
        f"--{flag} does not take '{given}'.{whole}",
        remedy or found.remedy,
        known(flag=flag, given=given, closest_value=closest[0] if closest else None, choices=choices or None),
    )


def flag_missing(case: Case) -> Finding:
    found, flag = plain(case), _named(case)
    if flag is None:
        return found
    return Finding(f"SGLang wants --{flag}, which is missing.", f"Give --{flag}.", {"flag": flag})


def rejected(case: Case) -> Finding:
    found = plain(case)
    flag = _named(case)
    return Finding(found.message, found.remedy, known(flag=flag))
