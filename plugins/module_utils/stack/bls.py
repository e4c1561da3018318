# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Entries of the Boot Loader Specification (loader/entries/*.conf): RHEL's GRUB and systemd-boot build menus of them.

Pure. The orders are GRUB's (blscfg: file names, newest first) and systemd-boot's (the specification's section on
sorting).
"""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.versions import version_key

# Boot counting adds the tries left and done to a file's name: entry+3-1.conf.
_COUNTED = re.compile(r"\+(\d+)(?:-(\d+))?$")


@dataclass(frozen=True)
class BlsEntry:
    """C(id) is the file's name without C(.conf) and without the numbers of boot counting.

    C(for_grub): it has keys that only GRUB knows (grub_class, grub_users), as RHEL's and Fedora's have.
    """

    id: str
    title: str | None = None
    version: str | None = None
    sort_key: str | None = None
    machine_id: str | None = None
    kernel: str | None = None
    options: str | None = None
    tries_left: int | None = None
    for_grub: bool = False


def parse_entry(file_name: str, text: str) -> BlsEntry:
    stem = file_name[: -len(".conf")] if file_name.endswith(".conf") else file_name
    counted = _COUNTED.search(stem)
    values: dict[str, str] = {}
    options: list[str] = []
    for line in text.splitlines():
        key, _space, value = line.strip().partition(" ")
        if not key or key.startswith("#"):
            continue
        if key == "options":
            options.append(value.strip())
        else:
            values[key] = value.strip()
    return BlsEntry(
        id=stem[: counted.start()] if counted else stem,
        title=values.get("title"),
        version=values.get("version"),
        sort_key=values.get("sort-key"),
        machine_id=values.get("machine-id"),
        kernel=values.get("linux") or values.get("uki") or values.get("efi"),
        options=" ".join(options) or None,
        tries_left=int(counted.group(1)[:9]) if counted else None,
        for_grub=any(key.startswith("grub_") for key in values),
    )


def in_grubs_order(entries: Sequence[BlsEntry]) -> list[BlsEntry]:
    """Newest first, by the file's name."""
    return sorted(entries, key=lambda entry: version_key(entry.id), reverse=True)


def in_systemd_boots_order(entries: Sequence[BlsEntry]) -> list[BlsEntry]:
    """Entries that failed to boot last, those with a sort key before those without, newest first."""
    return sorted(entries, key=functools.cmp_to_key(_compared))


def _compared(one: BlsEntry, two: BlsEntry) -> int:
    for first, second in (
        (one.tries_left == 0, two.tries_left == 0),
        (one.sort_key is None, two.sort_key is None),
    ):
        if first != second:
            return 1 if first else -1
    if one.sort_key is not None and two.sort_key is not None:
        for here, there in ((one.sort_key, two.sort_key), (one.machine_id or "", two.machine_id or "")):
            if here != there:
                return 1 if here > there else -1
        versions = version_key(one.version or ""), version_key(two.version or "")
        if versions[0] != versions[1]:
            return -1 if versions[0] > versions[1] else 1
    names = version_key(one.id), version_key(two.id)
    return (names[0] < names[1]) - (names[0] > names[1])


def default_of_systemd_boot(entries: Sequence[BlsEntry], pattern: str | None) -> BlsEntry | None:
    """The entry that loader.conf's or the firmware's C(pattern) names, else the first of the menu."""
    ordered = in_systemd_boots_order(entries)
    for entry in ordered:
        if pattern and (fnmatch.fnmatch(f"{entry.id}.conf", pattern) or fnmatch.fnmatch(entry.id, pattern)):
            return entry
    return ordered[0] if ordered else None


def expanded(options: str | None, variables: Mapping[str, str]) -> str | None:
    """Arguments hold variables of GRUB's (C($kernelopts), C($tuned_params)); those that are not known are left out."""
    if options is None:
        return None
    text = re.sub(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?", lambda match: variables.get(match.group(1), ""), options)
    return " ".join(text.split())
