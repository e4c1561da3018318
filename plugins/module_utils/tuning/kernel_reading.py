# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading which loader a node has, and its files."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.bls import parse_entry
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.boot import (
    ENTRY_FOLDERS,
    loader_variable,
    read_next_boot,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree, assignments
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.kernel_facts import (
    GRUB_BLS,
    GRUB_DEFAULT_FILE,
    GRUB_DROP_IN,
    SYSTEMD_BOOT,
    KernelFacts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.kernel_words import words_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.loader_files import (
    GRUB_DEFAULT,
    GRUB_FOLDER,
    KERNEL_CMDLINE,
)

_LIMIT = 1 << 20
_UNIFIED = ("boot/EFI/Linux", "efi/EFI/Linux", "boot/efi/EFI/Linux")
_MENU_TOOLS = (
    ("usr/sbin/update-grub", ("update-grub",)),
    ("usr/sbin/grub-mkconfig", ("grub-mkconfig", "-o", "/boot/grub/grub.cfg")),
    ("usr/sbin/grub2-mkconfig", ("grub2-mkconfig", "-o", "/boot/grub2/grub.cfg")),
)


def _text(tree: Tree, path: str) -> str | None:
    data = tree.data(path.lstrip("/"), _LIMIT)
    return None if data is None else data.decode("utf-8", "surrogateescape")


def _entries(tree: Tree) -> tuple[dict[str, str], bool]:
    """The entries that may boot a kernel of use, and whether they are GRUB's. The rescue entry stays as it is: it is
    the way back."""
    folder = next((name for name in ENTRY_FOLDERS if tree.is_folder(name)), None)
    found: dict[str, str] = {}
    for_grub = False
    for name in tree.names(folder) if folder else ():
        text = _text(tree, f"{folder}/{name}") if name.endswith(".conf") else None
        if text is None:
            continue
        entry = parse_entry(name, text)
        for_grub = for_grub or entry.for_grub
        if entry.kernel and "0-rescue" not in name:
            found[f"/{folder}/{name}"] = text
    return found, for_grub


def _loader(tree: Tree, entries: bool, for_grub: bool) -> str:
    default = tree.text(GRUB_DEFAULT.lstrip("/"))
    systemd_boot = (loader_variable(tree, "LoaderInfo") or "").startswith("systemd-boot")
    if entries and (systemd_boot or (default is None and not for_grub)):
        return SYSTEMD_BOOT
    if default is not None and tree.is_file("etc/debian_version"):
        return GRUB_DROP_IN
    if entries and (for_grub or default is not None):
        wanted = assignments(default).get("GRUB_ENABLE_BLSCFG", "true")
        return GRUB_BLS if wanted == "true" else GRUB_DEFAULT_FILE
    unified = [f"/{folder}" for folder in _UNIFIED if any(name.endswith(".efi") for name in tree.names(folder))]
    if unified:
        raise Refusal(
            "kernel_unified_image",
            f"The kernel boots from a unified image in {', '.join(unified)}, which has its command line inside.",
            "Add the arguments to /etc/kernel/cmdline and have the image built anew (kernel-install add), which this "
            "role does not do: with Secure Boot it takes a key.",
        )
    if default is not None:
        return GRUB_DEFAULT_FILE
    raise Refusal(
        "kernel_loader_unknown",
        "Neither /etc/default/grub nor entries of the Boot Loader Specification were found in "
        f"{', '.join('/' + folder for folder in ENTRY_FOLDERS)}, so that it is not known what boots this node.",
        "Give the kernel its arguments by hand, or on the machine that boots this one (a container has no kernel of "
        "its own).",
    )


def read_kernel_facts(tree: Tree) -> KernelFacts:
    entries, for_grub = _entries(tree)
    loader = _loader(tree, bool(entries), for_grub)
    folder = GRUB_FOLDER.lstrip("/")
    paths = [GRUB_DEFAULT, KERNEL_CMDLINE]
    paths += [f"{GRUB_FOLDER}/{name}" for name in tree.names(folder) if name.endswith(".cfg")]
    files = {path: text for path in paths for text in [_text(tree, path)] if text is not None}
    with_entries = loader in (GRUB_BLS, SYSTEMD_BOOT)
    coming = read_next_boot(tree, ()).arguments
    return KernelFacts(
        loader=loader,
        files={**files, **(entries if with_entries else {})},
        entries=tuple(entries) if with_entries else (),
        running=tuple(words_of(tree.text("proc/cmdline"))),
        next_words=None if coming is None else tuple(words_of(coming)),
        menu=next((command for path, command in _MENU_TOOLS if tree.is_file(path)), None),
        boot_id=tree.line("proc/sys/kernel/random/boot_id"),
    )
