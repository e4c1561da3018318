# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the page of a role says: its README.md, out of its argument specification, its metadata and an example."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.tools.markup import cell, code, to_markdown

MAIN = "main"
NAMES = {"EL": "RHEL, Rocky Linux and AlmaLinux"}
RELEASES = {"bookworm": "12", "trixie": "13", "jammy": "22.04", "noble": "24.04"}


@dataclass(frozen=True)
class Role:
    """Entry points and metadata as meta/argument_specs.yml and meta/main.yml hold them; the example is a playbook."""

    name: str
    entry_points: Mapping[str, Mapping[str, Any]]
    metadata: Mapping[str, Any]
    example: str
    collection: str = "gpufleet.sglang"


def page(role: Role) -> str:
    main = role.entry_points[MAIN]
    others = {name: entry for name, entry in role.entry_points.items() if name != MAIN}
    sections = [
        f"# {role.collection}.{role.name}\n\n{_sentence(main['short_description'])}",
        *(to_markdown(text) for text in _paragraphs(main.get("description"))),
        f"## Requirements\n\n{_requirements(role)}",
        f"## Example\n\n```yaml\n{role.example.removeprefix('---').strip()}\n```",
        f"## Variables\n\n{_table(main.get('options', {}))}",
        *(_entry_point(role, name, entry) for name, entry in sorted(others.items())),
        (
            f"---\n\nMade by `tools/describe-roles` out of [meta/argument_specs.yml](meta/argument_specs.yml);"
            f" `ansible-doc -t role {role.collection}.{role.name}` shows the same."
        ),
    ]
    return "\n\n".join(sections) + "\n"


def example_mistakes(role: Role, variables: Mapping[str, Any]) -> list[str]:
    """What is wrong with the variables that the example gives the role."""
    options = role.entry_points[MAIN].get("options", {})
    required = {name for name, option in options.items() if option.get("required")}
    return [
        *(f"{name} is no variable of the role" for name in sorted(variables.keys() - options.keys())),
        *(f"{name} is required and missing" for name in sorted(required - variables.keys())),
    ]


def _sentence(text: str) -> str:
    return to_markdown(text) + ("" if text.endswith(".") else ".")


def _paragraphs(text: str | Sequence[str] | None) -> list[str]:
    return [text] if isinstance(text, str) else list(text or [])


def _requirements(role: Role) -> str:
    lines = [f"- ansible-core {role.metadata['min_ansible_version']} or later on the controller"]
    for platform in role.metadata.get("platforms", []):
        releases = ", ".join(RELEASES.get(release, release) for release in platform["versions"])
        lines.append(f"- {NAMES.get(platform['name'], platform['name'])} {releases}")
    return "\n".join(lines)


def _entry_point(role: Role, name: str, entry: Mapping[str, Any]) -> str:
    texts = [_sentence(entry["short_description"])]
    texts.append(f"`ansible.builtin.include_role` with `tasks_from: {name}`.")
    texts += [to_markdown(text) for text in _paragraphs(entry.get("description"))]
    options = entry.get("options", {})
    if options == role.entry_points[MAIN].get("options", {}):
        texts.append("It takes the variables above." if options else "It takes no variables.")
    else:
        texts.append(_table(options))
    return f"## Entry point {code(name)}\n\n" + "\n\n".join(texts)


def _table(options: Mapping[str, Mapping[str, Any]]) -> str:
    if not options:
        return "None."
    rows = [
        f"| {code(name)} | {cell(_kind(option))} | {cell(_default(option))} | {cell(_meaning(option))} |"
        for name, option in _flat(options)
    ]
    return "\n".join(["| variable | type | default | meaning |", "| --- | --- | --- | --- |", *rows])


def _flat(options: Mapping[str, Mapping[str, Any]], above: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every option, required ones first; the keys of a dictionary follow it, as C(option.key) or C(option[].key)."""
    for name, option in sorted(options.items(), key=lambda pair: not pair[1].get("required")):
        yield above + name, option
        inner = "[]." if option.get("type") == "list" else "."
        yield from _flat(option.get("options", {}), above + name + inner)


def _kind(option: Mapping[str, Any]) -> str:
    kind = option.get("type", "str")
    return f"{kind} of {option['elements']}" if "elements" in option else kind


def _default(option: Mapping[str, Any]) -> str:
    if option.get("required"):
        return "**required**"
    default = option.get("default")
    return "" if default is None else code(default if isinstance(default, str) and default else json.dumps(default))


def _meaning(option: Mapping[str, Any]) -> str:
    texts = [to_markdown(text) for text in _paragraphs(option["description"])]
    if "choices" in option:
        texts.append("One of " + ", ".join(code(str(choice)) for choice in option["choices"]) + ".")
    return "\n\n".join(texts)
