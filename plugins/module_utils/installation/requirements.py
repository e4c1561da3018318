# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pins of Python packages, as a requirements file holds them. Pure.

What pip reads is https://pip.pypa.io/en/stable/reference/requirements-file-format/; of that, what pins packages is read
here, and what would make an installation depend on something else is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

# name[extras]==version ; marker --hash=sha256:...
_LINE = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?P<extras>\[[^\]]*\])?\s*"
    r"(?P<specifier>(?:(?:[=<>!~]=?=?|===)\s*[^;,\s]+\s*,?\s*)*)"
    r"(?:;\s*(?P<marker>.+))?\Z"
)
_HASH = re.compile(r"\s--hash[=\s]sha256:([0-9a-f]{64})(?=\s|\Z)")
_ANY_HASH = re.compile(r"\s--hash[=\s]\S+")
_EXACT = re.compile(r"===?\s*([^\s,*]+)\s*\Z")
# They say where to look, which is for the role's own options, or read further files, which are not on the node.
_OPTION = re.compile(r"(-[a-zA-Z]|--[a-z-]+)(?=[=\s]|\Z)")


@dataclass(frozen=True)
class Requirement:
    """C(version) is the exact pin, None where the line leaves a choice. C(name) is normalised (PEP 503)."""

    name: str
    version: str | None
    specifier: str
    extras: str = ""
    marker: str = ""
    hashes: tuple[str, ...] = ()

    def text(self) -> str:
        line = f"{self.name}{self.extras}{self.specifier}" + (f" ; {self.marker}" if self.marker else "")
        return " \\\n    ".join([line, *(f"--hash=sha256:{one}" for one in self.hashes)])


def normalised(name: str) -> str:
    """C(Partial.JSON_parser) -> C(partial-json-parser)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _joined_lines(text: str) -> Iterable[str]:
    held = ""
    for line in text.splitlines():
        held += line.rstrip()
        if held.endswith("\\"):
            held = held[:-1] + " "
            continue
        stripped = re.sub(r"(^|\s)#.*$", "", held).strip()
        held = ""
        if stripped:
            yield stripped


def parse_requirements(text: str) -> tuple[Requirement, ...]:
    """The pins of a file in its order. Raises Refusal for a line that pins no package."""
    found = []
    for line in _joined_lines(text):
        if option := _OPTION.match(line):
            raise Refusal(
                "requirements_line",
                f"The requirements hold the option {option.group(1)}.",
                "Expected packages only: where to find them is said by sglang_index_url, sglang_extra_index_urls and "
                "sglang_wheelhouse, and lines of other files belong into this one.",
                {"line": option.group(1)},
            )
        hashes = tuple(_HASH.findall(line))
        match = _LINE.match(_ANY_HASH.sub("", line).strip())
        if match is None:
            # Never the line itself: an address may hold a password.
            shown = re.split(r"[\s@:=<>!~;\[]", line, maxsplit=1)[0][:64]
            raise Refusal(
                "requirements_line",
                f"The requirements hold a line that pins no package by name and version; it begins with '{shown}'.",
                "Expected lines such as torch==2.14.1, each with its --hash=sha256:... where hashes are required.",
                {"line": shown},
            )
        specifier = re.sub(r"\s+", "", match["specifier"] or "")
        exact = _EXACT.match(specifier)
        found.append(
            Requirement(
                name=normalised(match["name"]),
                version=exact.group(1) if exact else None,
                specifier=specifier,
                extras=re.sub(r"\s+", "", match["extras"] or "").lower(),
                marker=(match["marker"] or "").strip(),
                hashes=tuple(sorted(set(hashes))),
            )
        )
    return tuple(found)


def canonical_text(requirements: Iterable[Requirement]) -> str:
    """The same for two files that pin the same, whatever their order and comments."""
    lines = (one.text() for one in sorted(requirements, key=lambda one: (one.name, one.marker, one.specifier)))
    return "".join(f"{line}\n" for line in lines)


def all_hashed(requirements: Iterable[Requirement]) -> bool:
    return all(one.hashes for one in requirements)


def with_hashes(requirement: Requirement, hashes: Iterable[str]) -> Requirement:
    return replace(requirement, hashes=tuple(sorted(set(hashes))))


def version_of(requirements: Iterable[Requirement], name: str) -> str | None:
    """The exact version that is pinned of a package, without the label of its build; None where none is."""
    for one in requirements:
        if one.name == name and one.version:
            return one.version.split("+", 1)[0]
    return None
