# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""apt.conf(5) as far as settings of unattended-upgrades are written in it."""

from __future__ import annotations

import re

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree

_TOKEN = re.compile(
    r"""(?P<space>\s+)|(?P<comment>//[^\n]*|\#[^\n]*|/\*.*?(?:\*/|\Z))"""
    r"""|(?P<mark>[{};])|"(?P<text>(?:\\.|[^"\\])*)"|(?P<name>[^\s{};"]+)""",
    re.DOTALL,
)
_FILES_LIMIT = 512


def parse(text: str, into: dict[str, list[str]]) -> None:
    """Adds the settings of one file: lower-case names with C(::) to their values.

    A value replaces the one before it, values in a list are added; C(#clear) takes a name and all below it away. A
    name is written C(A::B "x";), C(A { B "x"; };) or, for lists, C(A { "x"; "y"; };).
    """
    scope: list[str] = []
    name: str | None = None
    value: str | None = None
    clearing = False
    at = 0
    while at < len(text):
        if text.startswith("#clear", at):
            clearing, at = True, at + len("#clear")
            continue
        match = _TOKEN.match(text, at)
        if match is None:
            at += 1
            continue
        at = match.end()
        kind = match.lastgroup
        if kind == "name":
            name = match.group("name").lower() if name is None else name
        elif kind == "text":
            value = re.sub(r"\\(.)", r"\1", match.group("text"))
        elif kind == "mark" and match.group("mark") == "{":
            scope.append((name or "").rstrip(":"))
            name = value = None
        elif kind == "mark":
            here = "::".join(part for part in [*scope, name or ""] if part)
            if clearing:
                for known in [known for known in into if known == here or known.startswith(f"{here}::")]:
                    del into[known]
            elif value is not None:
                # A name that ends in :: adds to a list, as a value without a name does.
                is_list = name is None or name.endswith("::")
                here = here.rstrip(":")
                into[here] = [*into.get(here, []), value] if is_list else [value]
            if match.group("mark") == "}" and scope:
                scope.pop()
            name = value = None
            clearing = False


def read_apt_conf(tree: Tree) -> dict[str, list[str]]:
    """apt.conf.d in the order of names, then apt.conf, as apt reads them."""
    found: dict[str, list[str]] = {}
    names = [name for name in tree.names("etc/apt/apt.conf.d") if re.match(r"^[\w-]+(\.conf)?$", name)]
    for path in [*(f"etc/apt/apt.conf.d/{name}" for name in names[:_FILES_LIMIT]), "etc/apt/apt.conf"]:
        parse(tree.text(path) or "", found)
    return found
