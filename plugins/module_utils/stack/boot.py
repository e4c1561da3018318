# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which kernel boots next: from GRUB's menu, from the Boot Loader Specification's entries, else the newest one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.bls import (
    BlsEntry,
    default_of_systemd_boot,
    expanded,
    in_grubs_order,
    parse_entry,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import Kernel, NextBoot
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree, assignments
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.grub import (
    Menu,
    MenuEntry,
    chosen_entry,
    parse_environment,
    parse_menu,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.kernels import release_of_image
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.versions import version_key

_GRUB_FOLDERS = ("boot/grub", "boot/grub2")
_ENTRY_FOLDERS = ("boot/loader/entries", "efi/loader/entries", "boot/efi/loader/entries")
_MENU_LIMIT = 8 << 20
_ENTRIES_LIMIT = 256
_LOADER_VARIABLES = "sys/firmware/efi/efivars/{}-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"


def next_boot_by_grub(
    menu: Menu, environment: Mapping[str, str], bls: Sequence[BlsEntry], kernels: Sequence[str]
) -> NextBoot:
    """What GRUB would do: next_entry holds once, else the default, which may be the saved entry."""
    entries = list(menu.entries)
    if menu.bls_at is not None:
        entries[menu.bls_at : menu.bls_at] = [
            MenuEntry(entry.title or entry.id, entry.id, entry.kernel, expanded(entry.options, environment))
            for entry in in_grubs_order(bls)
        ]
    once = menu.next_entry_counts and bool(environment.get("next_entry"))
    wanted = environment["next_entry"] if once else menu.default
    entry = chosen_entry(entries, wanted.replace("${saved_entry}", environment.get("saved_entry", "")))
    if entry is None:
        return NextBoot()
    from_bls = menu.bls_at is not None and any(entry.id == each.id for each in bls)
    return NextBoot(
        kernel=_release(entry.kernel, kernels),
        source="bls" if from_bls else "grub",
        entry=entry.title,
        arguments=entry.arguments or None,
        once=once,
    )


def next_boot_by_systemd_boot(
    entries: Sequence[BlsEntry], default: str | None, one_shot: str | None, kernels: Sequence[str]
) -> NextBoot:
    entry = default_of_systemd_boot(entries, one_shot or default)
    if entry is None:
        return NextBoot()
    return NextBoot(
        kernel=_release(entry.kernel, kernels) or (entry.version if entry.version in kernels else None),
        source="systemd_boot",
        entry=entry.title or entry.id,
        arguments=entry.options,
        once=bool(one_shot),
    )


def next_boot_by_age(default: str | None, kernels: Sequence[Kernel]) -> NextBoot:
    """Without a menu that can be read: the kernel that GRUB_DEFAULT names, else the newest with an image."""
    bootable = [kernel.release for kernel in kernels if kernel.vmlinuz is not None]
    for release in sorted(bootable, key=len, reverse=True):
        if default and re.search(rf"(?<![\w.]){re.escape(release)}(?![\w.+])", default):
            return NextBoot(kernel=release, source="newest", entry=default)
    newest = max(bootable, key=version_key, default=None)
    return NextBoot(kernel=newest, source="newest" if newest else None)


def _release(image: str | None, kernels: Sequence[str]) -> str | None:
    """The release of an image's path; of a unified image the installed kernel whose release its name holds."""
    found = release_of_image(image)
    if found is not None or image is None:
        return found
    name = image.rpartition("/")[2]
    return next((release for release in sorted(kernels, key=len, reverse=True) if release in name), None)


# Reading --------------------------------------------------------------------------------------------------------------


def _read_entries(tree: Tree, folder: str) -> list[BlsEntry]:
    names = [name for name in tree.names(folder) if name.endswith(".conf")][:_ENTRIES_LIMIT]
    return [parse_entry(name, tree.text(f"{folder}/{name}") or "") for name in names]


def _loader_variable(tree: Tree, name: str) -> str | None:
    """A variable of systemd-boot's: four bytes of attributes, then UTF-16 with a zero at its end."""
    data = tree.data(_LOADER_VARIABLES.format(name), 4096)
    return data[4:].decode("utf-16-le", "replace").rstrip("\0") or None if data else None


def read_next_boot(tree: Tree, kernels: Sequence[Kernel]) -> NextBoot:
    releases = [kernel.release for kernel in kernels]
    folder = next((name for name in _ENTRY_FOLDERS if tree.is_folder(name)), None)
    entries = _read_entries(tree, folder) if folder else []
    systemd_boot = (_loader_variable(tree, "LoaderInfo") or "").startswith("systemd-boot")
    for grub in () if systemd_boot else _GRUB_FOLDERS:
        text = tree.text(f"{grub}/grub.cfg", _MENU_LIMIT)
        if text:
            environment = parse_environment(tree.text(f"{grub}/grubenv"))
            return next_boot_by_grub(parse_menu(text), environment, entries, releases)
    grub_denied = any(f"{grub}/grub.cfg" in tree.denied for grub in _GRUB_FOLDERS)
    if folder and entries and not grub_denied:
        loader = tree.text(f"{folder[: -len('/entries')]}/loader.conf") or ""
        named = next((line.split()[1] for line in loader.splitlines() if re.match(r"default\s+\S", line)), None)
        default = _loader_variable(tree, "LoaderEntryDefault") or named
        return next_boot_by_systemd_boot(entries, default, _loader_variable(tree, "LoaderEntryOneShot"), releases)
    settings = assignments(tree.text("etc/default/grub"))
    return next_boot_by_age(settings.get("GRUB_DEFAULT"), kernels)
