# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Flags that pass through a plan: refused where they undermine it or the release does not take them, else put so that
its configuration file reads them as they are meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.beside_flags import BESIDE_FLAGS
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.choice import refuse_unknown_choice
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.flags import (
    LIST,
    NOTHING,
    choices_of,
    flag_absence,
    has_flag,
    known_flags,
    taken_from_file,
    takes,
    translation,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.harmless_flags import HARMLESS_FLAGS
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.plan_flags import (
    COUNTED_FLAGS,
    EXCLUDES_HICACHE,
    OWNED_FLAGS,
    SECRET_FLAGS,
    UNPLANNED_FLAGS,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import VersionFacts

# The others that pass by their name are owned by an option or refused.
_WEIGHED = (
    COUNTED_FLAGS | HARMLESS_FLAGS | frozenset(EXCLUDES_HICACHE) | frozenset(UNPLANNED_FLAGS) | frozenset(BESIDE_FLAGS)
)
_FLAG = re.compile(r"[a-z0-9][a-z0-9-]*\Z")


@dataclass(frozen=True)
class ExtraArguments:
    """C(arguments) are what goes into the configuration file."""

    arguments: Mapping[str, Any]
    problems: tuple[Problem, ...]


def flag_name(key: str) -> str:
    """C(--max_running_requests) -> C(max-running-requests)."""
    return str(key).lstrip("-").replace("_", "-")


def settle_extra_arguments(facts: VersionFacts, given: Mapping[str, Any], hicache_enabled: bool) -> ExtraArguments:
    """Flags as this release reads them; what it would not, or not as meant, is refused."""
    arguments: dict[str, Any] = {}
    problems: list[Problem] = []
    for key, value in given.items():
        flag = flag_name(key)
        _refuse_unplanned(str(key), flag, value)
        _refuse_by_name(facts, str(key), flag)
        if value is None:
            continue
        _refuse_beside_plan(str(key), flag, value, hicache_enabled)
        settled, problem = _settle(facts, str(key), flag, value)
        twice = sorted(set(settled) & set(arguments))
        if twice:
            raise Refusal(
                "extra_argument_twice",
                f"extra_arguments gives {twice[0]} twice, once as {key}.",
                "Keep one of the two.",
                {"flag": twice[0]},
            )
        arguments.update(settled)
        problems += [problem] if problem else []
        if flag in BESIDE_FLAGS and value is not False:
            problems.append(_uncounted(str(key), BESIDE_FLAGS[flag]))
        elif not _WEIGHED.intersection((flag, *settled)):
            problems.append(_unweighed(facts, str(key)))
    return ExtraArguments(arguments, tuple(problems))


def _refuse_by_name(facts: VersionFacts, key: str, flag: str) -> None:
    if not _FLAG.match(flag):
        raise Refusal(
            "extra_argument_malformed",
            f"extra_arguments holds {key!r}, which is no flag.",
            "Expected the name of a flag without its leading dashes, such as schedule-policy.",
            {"flag": flag},
        )
    if flag in SECRET_FLAGS:
        raise Refusal(
            "secret_in_arguments",
            f"extra_arguments holds {key}: SGLang prints its arguments in the journal and under /server_info.",
            "Leave it out. The role sglang hands keys over as credentials (sglang_api_key, sglang_admin_api_key).",
            {"flag": flag},
        )
    if flag in OWNED_FLAGS:
        raise Refusal(
            "extra_argument_owned",
            f"extra_arguments holds {key}, which the plan decides.",
            f"Set {OWNED_FLAGS[flag]} instead.",
            {"flag": flag},
        )
    # argparse takes any unambiguous beginning of a flag for the flag.
    longer = [] if has_flag(flag, facts.version) else known_flags(facts.version, beginning=flag)
    if longer and translation(flag, True, facts.version) is None:
        raise Refusal(
            "extra_argument_shortened",
            f"extra_arguments holds {key}, which the server may take for {longer[0]}.",
            f"Write the flag in full: {', '.join(longer[:5])}.",
            {"flag": flag, "beginning_of": longer},
        )


def _refuse_unplanned(key: str, flag: str, value: Any) -> None:
    # What is switched off is as the plan has it.
    if flag in UNPLANNED_FLAGS and value not in (None, False):
        raise Refusal(
            "extra_argument_unplanned",
            f"extra_arguments holds {key}: {UNPLANNED_FLAGS[flag]}, which the plan does not count.",
            "Leave it out.",
            {"flag": flag},
        )


def _uncounted(key: str, why: str) -> Problem:
    return Problem(
        "extra_argument_uncounted",
        "warning",
        f"extra_arguments holds {key}: {why}, which the plan does not count.",
        "Leave more of each GPU free (a lower mem_fraction_static, or leave_bytes) until a start has measured it.",
    )


def _unweighed(facts: VersionFacts, key: str) -> Problem:
    return Problem(
        "extra_argument_unweighed",
        "info",
        f"extra_arguments holds {key}, which is not weighed by the plan: what it takes of GPUs or host memory in "
        f"SGLang {facts.version} was not read.",
        "Compare what a start with it takes with the plan, or leave it out.",
    )


def _refuse_beside_plan(key: str, flag: str, value: Any, hicache_enabled: bool) -> None:
    if hicache_enabled and flag in EXCLUDES_HICACHE and value is not False:
        raise Refusal(
            "extra_argument_excludes_hicache",
            f"extra_arguments holds {key}, and HiCache is on: {EXCLUDES_HICACHE[flag]}.",
            "Leave it out, or set hicache.enabled to false.",
            {"flag": flag},
        )


def _settle(facts: VersionFacts, key: str, flag: str, value: Any) -> tuple[dict[str, Any], Problem | None]:
    version = facts.version
    if taken_from_file(flag, version):
        return {flag: _readable(facts, key, flag, value)}, None
    # Releases without a file cannot be started by this collection, and are planned all the same.
    if has_flag(flag, version) and not facts.reads_config_file:
        return {flag: _readable(facts, key, flag, value)}, None
    settled = translation(flag, value, version)
    if settled is None:
        absence = flag_absence(flag, version)
        if absence is not None:
            raise Refusal(
                "extra_argument_absent",
                f"extra_arguments holds {key}, which SGLang {version} does not know: {absence}.",
                "Correct or leave out the flag.",
                {"flag": flag},
            )
        raise Refusal(
            "extra_argument_not_in_file",
            f"extra_arguments holds {key}, which SGLang {version} takes on its command line and refuses in the "
            "configuration file that this collection starts it with.",
            "Leave it out, or take a release that reads it.",
            {"flag": flag},
        )
    settled = {name: _readable(facts, name, name, item) for name, item in settled.items()}
    words = ", ".join(f"{name}: {item}" for name, item in settled.items()) or "nothing, as it is off"
    reason = "does not know" if not has_flag(flag, version) else "does not take from a configuration file"
    return settled, Problem(
        "extra_argument_translated",
        "info",
        f"extra_arguments holds {key}, which SGLang {version} {reason}; the plan gives {words}, which means the same.",
        "Write it so in extra_arguments.",
    )


def _readable(facts: VersionFacts, key: str, flag: str, value: Any) -> Any:
    """The value as the file of every release gives it to the flag unchanged."""
    kind = takes(flag)
    if kind == NOTHING:
        if not isinstance(value, bool):
            raise Refusal(
                "extra_argument_malformed",
                f"extra_arguments gives {key} the value {value!r}, and the flag takes none.",
                "Expected true or false.",
                {"flag": flag},
            )
        return value
    if isinstance(value, (list, tuple)):
        if kind != LIST:
            raise Refusal(
                "extra_argument_malformed",
                f"extra_arguments gives {key} a list, and the flag takes one value.",
                "Expected a single value.",
                {"flag": flag},
            )
        return [_word(facts, flag, item) for item in value]
    return _word(facts, flag, value)


def _word(facts: VersionFacts, flag: str, value: Any) -> Any:
    # Before 0.5.8 a file's true is a flag without a value, before 0.5.14 a mapping is written as Python's, not JSON.
    if isinstance(value, bool):
        value = "true" if value else "false"
    elif isinstance(value, Mapping):
        value = json.dumps(value)
    choices = choices_of(flag, facts.version)
    if choices is not None:
        refuse_unknown_choice(f"extra_arguments.{flag}", str(value), choices, facts)
    return value
