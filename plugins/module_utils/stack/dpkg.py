# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Debian's and Ubuntu's packages from dpkg's own database, which works below another root and without dpkg."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import Package, Pin
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree, shown
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.packages import kind_of, release_of

STATUS = "var/lib/dpkg/status"
_STATUS_LIMIT = 256 << 20
_PREFERENCES_LIMIT = 256
# Of these a package's files are not there.
_GONE = ("not-installed", "config-files")


def stanzas(text: str) -> Iterator[dict[str, str]]:
    """Paragraphs of C(Field: value); of values with more than one line the first."""
    fields: dict[str, str] = {}
    for line in text.split("\n"):
        if not line.strip():
            if fields:
                yield fields
            fields = {}
        elif line[0] not in " \t#":
            name, colon, value = line.partition(":")
            if colon:
                fields[name] = value.strip()
    if fields:
        yield fields


def parse_status(text: str) -> tuple[Package, ...]:
    """/var/lib/dpkg/status: C(Status: want flag status), where C(hold) as want is what apt-mark hold sets."""
    found = []
    for block in re.split(r"\n\s*\n", text):
        # Most of the packages do not matter, so the name is looked at before the rest is.
        named = re.search(r"^Package:[ \t]*(\S+)", block, re.MULTILINE)
        kind = kind_of(named.group(1)) if named else None
        if named is None or kind is None:
            continue
        fields = next(stanzas(block), {})
        words = fields.get("Status", "").split()
        if len(words) != 3 or words[2] in _GONE:
            continue
        name, version = named.group(1), fields.get("Version", "")
        found.append(
            Package(
                name=name,
                version=version,
                architecture=fields.get("Architecture"),
                source=fields.get("Source", name).split(" ")[0],
                kind=kind,
                status=words[2] if words[1] == "ok" else "reinstall-required",
                held=words[0] == "hold",
                driver_release=release_of(name, version),
            )
        )
    return tuple(sorted(found, key=lambda package: (package.name, package.architecture or "")))


def parse_preferences(text: str, path: str) -> tuple[Pin, ...]:
    """apt_preferences(5): stanzas that name packages of ours; C(*) concerns all and is left out."""
    pins = []
    for fields in stanzas(text):
        names = fields.get("Package", "")
        priority = fields.get("Pin-Priority", "")
        if re.search(r"nvidia|cuda|libnv|nvlsm|linux-(image|headers|generic)", names):
            number = int(priority) if re.match(r"^-?\d{1,6}$", priority) else None
            pins.append(Pin(names, fields.get("Pin"), number, path))
    return tuple(pins)


def read_dpkg(tree: Tree) -> tuple[Package, ...] | None:
    text = tree.text(STATUS, _STATUS_LIMIT)
    return None if text is None else parse_status(text)


def read_preferences(tree: Tree) -> tuple[Pin, ...]:
    names = [f"etc/apt/preferences.d/{name}" for name in tree.names("etc/apt/preferences.d")]
    # apt takes files without an ending or with .pref, and no others.
    taken = [name for name in names if re.match(r"^[\w.:-]+$", name.rpartition("/")[2])]
    taken = [name for name in taken if name.endswith(".pref") or "." not in name.rpartition("/")[2]]
    found: list[Pin] = []
    for path in ["etc/apt/preferences", *taken[:_PREFERENCES_LIMIT]]:
        found += parse_preferences(tree.text(path) or "", shown(path) or path)
    return tuple(found)
