# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tables of plugins/module_utils/sglang/ out of what the parsers answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import EXAMINED

NOTHING, VALUE, LIST = "nothing", "value", "list"
History = list[list[Any]]  # [first release, last release, facts]
_WIDTH = 112
_RELEASES = [str(release) for release in EXAMINED]
_HEADER = '''# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""{subject}

Made by tests/conformance/record_flags.py out of the parsers of the wheels (ServerArgs.add_cli_args, and what reads
their configuration file). Not to be edited.
"""

from __future__ import annotations

'''


class Holds(Protocol):
    def __call__(self, facts: Mapping[str, Any], name: str) -> bool: ...


def there(facts: Mapping[str, Any], name: str) -> bool:
    return True


def not_in_file(facts: Mapping[str, Any], name: str) -> bool:
    return facts["in_file"] is False


def spans_of(history: History, holds: Callable[[Mapping[str, Any]], bool]) -> list[tuple[str, str]]:
    """First and last release of each run of releases whose facts hold."""
    spans: list[tuple[str, str]] = []
    for first, last, facts in history:
        if not holds(facts):
            continue
        if spans and _RELEASES.index(first) == _RELEASES.index(spans[-1][1]) + 1:
            spans[-1] = (spans[-1][0], last)
        else:
            spans.append((first, last))
    return spans


def table_of(names: Mapping[str, History], holds: Holds) -> list[tuple[str, str, str]]:
    """(first release, last release, names): when what is asked holds of each, by its history."""
    rows: dict[tuple[str, str], list[str]] = {}
    for name, history in names.items():
        for span in spans_of(history, partial(holds, name=name)):
            rows.setdefault(span, []).append(name)
    return [
        (*span, " ".join(sorted(names)))
        for span, names in sorted(rows.items(), key=lambda row: tuple(_RELEASES.index(release) for release in row[0]))
    ]


def same_field(flags: Mapping[str, History]) -> list[str]:
    """Flags that store the same kind of value in the same field of one release."""
    groups: list[set[str]] = []
    for release in _RELEASES:
        fields: dict[tuple[str, str], set[str]] = {}
        for name, history in flags.items():
            for first, last, facts in history:
                # The negative of a switch stores the opposite.
                opposite = name.startswith("no-") and name[3:] in flags
                there = _RELEASES.index(first) <= _RELEASES.index(release) <= _RELEASES.index(last)
                if there and not facts["stores_constant"] and not opposite:
                    fields.setdefault((facts["field"], facts["takes"]), set()).add(name)
        for names in fields.values():
            if len(names) > 1:
                groups = [
                    *(group for group in groups if not group & names),
                    names.union(*(g for g in groups if g & names)),
                ]
    return sorted(" ".join(sorted(group)) for group in groups)


def choices_of(history: History) -> list[tuple[str, str, str]]:
    """(first release, last release, values)."""
    values = {value for _first, _last, facts in history for value in facts["choices"] or ()}
    return table_of(dict.fromkeys(values, history), lambda facts, name: name in (facts["choices"] or ()))


def takes_of(flags: Mapping[str, History], kind: str) -> str:
    return " ".join(name for name, history in flags.items() if history[-1][2]["takes"] == kind)


def _text(words: str, indent: str, between: str = " ") -> str:
    """A string, over as many lines as it takes."""
    lines: list[str] = []
    line = ""
    for word in words.split(between):
        if line and len(indent) + len(line) + len(word) > _WIDTH:
            lines, line = [*lines, line], ""
        line += word + between
    lines.append(line.removesuffix(between))
    return "\n".join(f'{indent}"{part}"' for part in lines)


def _row(row: tuple[str, str, str], indent: str) -> str:
    """One line where it fits, as the formatter would have it."""
    first, last, names = row
    line = f'{indent}("{first}", "{last}", "{names}"),\n'
    if len(line) <= _WIDTH + 8:
        return line
    return f'{indent}(\n{indent}    "{first}",\n{indent}    "{last}",\n{_text(names, indent + "    ")},\n{indent}),\n'


def _rows(name: str, rows: list[tuple[str, str, str]]) -> str:
    return f"{name}: tuple[tuple[str, str, str], ...] = (\n{''.join(_row(row, '    ') for row in rows)})\n"


def tables_of(flags: Mapping[str, History]) -> dict[str, str]:
    """The files, by name."""
    lifetimes = _HEADER.format(subject="Which releases have which flags of C(sglang.launch_server), as data.")
    lifetimes += "# (first release, last release, flags)\n" + _rows("LIFETIMES", table_of(flags, there))
    lifetimes += "# On the command line and not in the configuration file, of releases that read one.\n"
    lifetimes += _rows("NOT_IN_FILE", table_of(flags, not_in_file))
    lifetimes += "# Flags that one release at least stores in the same field.\nSAME_FIELD: tuple[str, ...] = (\n"
    lifetimes += "".join(f"{_text(group, '    ')},\n" for group in same_field(flags)) + ")\n"
    for name, kind in (("TAKES_NOTHING", NOTHING), ("TAKES_LIST", LIST)):
        lifetimes += f"{name} = (\n{_text(takes_of(flags, kind), '    ')}\n)\n"
    choices = _HEADER.format(subject="Values that flags of C(sglang.launch_server) take, by release, as data.")
    choices += "# (flags, (first release, last release, values)); a flag takes any value where there is none.\n"
    choices += "CHOICES: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (\n"
    alike: dict[tuple[tuple[str, str, str], ...], list[str]] = {}
    for name, history in flags.items():
        alike.setdefault(tuple(choices_of(history)), []).append(name)
    for rows, names in alike.items():
        if rows:
            choices += f"    (\n{_text(' '.join(names), '        ')},\n        (\n"
            choices += "".join(_row(row, " " * 12) for row in rows)
            choices += "        ),\n    ),\n"
    choices += ")\n"
    return {"flag_lifetimes.py": lifetimes, "flag_choices.py": choices}
