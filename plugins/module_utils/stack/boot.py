# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which kernel boots next: from GRUB's menu, from the Boot Loader Specification's entries, else the newest one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.bls import (
    BlsEntry,
    default_of_systemd_boot,
    expanded,
    in_grubs_order,
    parse_entry,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import Kernel, NextBoot
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree, assignments, first_text
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
# On EFI hosts RHEL 8 and its kin keep the menu on the EFI system partition; others have a stub there that leads on.
_EFI_FOLDER = "boot/efi/EFI"
_EFI_FOLDERS_LIMIT = 32
_ENVIRONMENTS = ("boot/grub2/grubenv", "boot/grub/grubenv")
_LINKS_TO_EFI = ("boot/grub2/grubenv", "etc/grub2-efi.cfg")
ENTRY_FOLDERS = ("boot/loader/entries", "efi/loader/entries", "boot/efi/loader/entries")
_MENU_LIMIT = 8 << 20
_ENTRIES_LIMIT = 256
_LOADER_VARIABLES = "sys/firmware/efi/efivars/{}-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"


def next_boot_by_grub(menu: Menu, bls: Sequence[BlsEntry], kernels: Sequence[str]) -> NextBoot:
    """What GRUB would do with this menu, to which the entries of the Boot Loader Specification may belong."""
    entries = list(menu.entries)
    if menu.bls_at is not None:
        entries[menu.bls_at : menu.bls_at] = [
            MenuEntry(entry.title or entry.id, entry.id, entry.kernel, entry.options) for entry in in_grubs_order(bls)
        ]
    entry = chosen_entry(entries, menu.default)
    if entry is None:
        return NextBoot()
    from_bls = menu.bls_at is not None and any(entry.id == each.id for each in bls)
    return NextBoot(
        kernel=_release(entry.kernel, kernels),
        source="bls" if from_bls else "grub",
        entry=entry.title,
        arguments=expanded(entry.arguments, menu.variables) or None,
        once=menu.once,
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


def loader_variable(tree: Tree, name: str) -> str | None:
    """A variable of systemd-boot's: four bytes of attributes, then UTF-16 with a zero at its end."""
    data = tree.data(_LOADER_VARIABLES.format(name), 4096)
    return data[4:].decode("utf-16-le", "replace").rstrip("\0") or None if data else None


def _menu_folders(tree: Tree) -> Iterator[str]:
    """Where grub.cfg may lie, the usual places first; of the EFI partition's folders the one that is linked to."""
    yield from _GRUB_FOLDERS
    linked = [(tree.resolved(link) or "").rpartition("/")[0] for link in _LINKS_TO_EFI]
    yield from (folder for folder in linked if folder.startswith(f"{_EFI_FOLDER}/"))
    yield from (f"{_EFI_FOLDER}/{name}" for name in tree.names(_EFI_FOLDER)[:_EFI_FOLDERS_LIMIT])


def _read_menu(tree: Tree) -> Menu | None:
    """The first menu that boots anything: a stub that only leads to another file does not."""
    for folder in _menu_folders(tree):
        text = tree.text(f"{folder}/grub.cfg", _MENU_LIMIT)
        if text:
            environment = parse_environment(first_text(tree, f"{folder}/grubenv", *_ENVIRONMENTS))
            menu = parse_menu(text, environment, tree.text(f"{folder}/custom.cfg", _MENU_LIMIT))
            if menu.entries or menu.bls_at is not None:
                return menu
    return None


def _assumed_menu(tree: Tree, entries: Sequence[BlsEntry], default: str | None, denied: bool) -> Menu | None:
    """GRUB's menu where grub.cfg cannot be read, but grubenv or the entries tell that GRUB is the loader."""
    text = first_text(tree, *_ENVIRONMENTS)
    if not entries or (text is None and (denied or not any(entry.for_grub for entry in entries))):
        return None
    environment = parse_environment(text)
    chosen = environment.get("saved_entry", "") if default in (None, "saved") else default
    once = environment.get("next_entry")
    return Menu(default=once or chosen or "0", once=bool(once), bls_at=0, variables=environment)


def read_next_boot(tree: Tree, kernels: Sequence[Kernel]) -> NextBoot:
    releases = [kernel.release for kernel in kernels]
    folder = next((name for name in ENTRY_FOLDERS if tree.is_folder(name)), None)
    entries = _read_entries(tree, folder) if folder else []
    default = assignments(tree.text("etc/default/grub")).get("GRUB_DEFAULT")
    systemd_boot = (loader_variable(tree, "LoaderInfo") or "").startswith("systemd-boot")
    denied = False
    if not systemd_boot:
        menu = _read_menu(tree)
        denied = any(path.endswith("/grub.cfg") for path in tree.denied)
        menu = menu or _assumed_menu(tree, entries, default, denied)
        if menu is not None:
            return next_boot_by_grub(menu, entries, releases)
    if folder and entries and not denied:
        loader = tree.text(f"{folder[: -len('/entries')]}/loader.conf") or ""
        named = next((line.split()[1] for line in loader.splitlines() if re.match(r"default\s+\S", line)), None)
        chosen = loader_variable(tree, "LoaderEntryDefault") or named
        return next_boot_by_systemd_boot(entries, chosen, loader_variable(tree, "LoaderEntryOneShot"), releases)
    return next_boot_by_age(default, kernels)
