# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a list of instances can be meant: known keys, right types, names of their own. No I/O."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

NAME = "instance"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
# What ArgumentSpecValidator is to look at; that all of it need be said is not for an entry to know.
_LOOKED_AT = ("type", "elements", "choices")


def entry_problems(
    entries: Any, options: Mapping[str, Mapping[str, Any]], prefix: str, of_the_node: Collection[str]
) -> list[str]:
    """What is wrong, a sentence each. C(options) are those of the role; C(of_the_node) are not to be said for one."""
    if not isinstance(entries, (list, tuple)):
        return [f"{prefix}instances is {type(entries).__name__}; expected a list of mappings, one for each instance."]
    known = {
        name.removeprefix(prefix): {key: spec[key] for key in _LOOKED_AT if key in spec}
        for name, spec in options.items()
        if name not in of_the_node
    }
    said: list[str] = []
    names: list[str] = []
    for place, entry in enumerate(entries):
        where = f"{prefix}instances[{place}]"
        if not isinstance(entry, Mapping):
            said.append(f"{where} is {entry!r}; expected a mapping.")
            continue
        name = entry.get(NAME)
        if not isinstance(name, str) or not _NAME.match(name):
            said.append(
                f"{where} has {_shown(name)} for its name; expected {NAME} with letters, digits, dots, dashes and "
                "underscores, as it names files and a unit."
            )
        else:
            where = f"{where} ({name})"
            names.append(name)
        said += _unknown(entry, known, where, prefix)
        said += _mistyped(entry, known, where)
    said += [
        f"{prefix}instances has {names.count(name)} entries of the name {name}; expected a name of its own for each."
        for name in sorted({name for name in names if names.count(name) > 1})
    ]
    return said


def _shown(name: Any) -> str:
    return "nothing" if name is None else repr(name)


def _unknown(entry: Mapping[str, Any], known: Mapping[str, Any], where: str, prefix: str) -> list[str]:
    said = []
    for key in entry:
        if key == NAME or key in known:
            continue
        close = difflib.get_close_matches(str(key).removeprefix(prefix), [NAME, *known], n=1, cutoff=0.6)
        hint = f"the closest is {close[0]}" if close else f"expected variables of the role without {prefix}"
        said.append(f"{where} holds {key}, which is not known; {hint}.")
    return said


def _mistyped(entry: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]], where: str) -> list[str]:
    # Null says what it says for the variable: the default decides.
    stated = {key: value for key, value in entry.items() if key in known and value is not None}
    validator = ArgumentSpecValidator({key: dict(known[key]) for key in stated})
    return [f"{where}: {message}." for message in validator.validate(stated).error_messages]
