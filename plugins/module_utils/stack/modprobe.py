# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""modprobe.d(5): whether nouveau is kept from loading, and by what."""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import Kernel, NextBoot, Nouveau
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree, drop_ins, shown

_FOLDERS = (
    "etc/modprobe.d",
    "run/modprobe.d",
    "usr/local/lib/modprobe.d",
    "usr/lib/modprobe.d",
    "lib/modprobe.d",
)
_COMMAND_LINE = ("modprobe.blacklist", "module_blacklist", "rd.driver.blacklist")
_NOTHING = ("/bin/false", "/bin/true", "/usr/bin/false", "/usr/bin/true", "off")


def blacklists(text: str, module: str) -> bool:
    """Whether a file keeps the module from loading by itself or at all."""
    for line in text.splitlines():
        words = line.split()
        if words[:2] == ["blacklist", module]:
            return True
        if words[:2] in (["install", module], ["alias", module]) and words[2:3] and words[2] in _NOTHING:
            return True
    return False


def blacklisted_on_command_line(arguments: str | None, module: str) -> bool:
    for word in (arguments or "").split():
        name, _equals, value = word.partition("=")
        if name in _COMMAND_LINE and module in value.split(","):
            return True
    return False


def read_blacklists(tree: Tree, module: str) -> tuple[str, ...]:
    """The files that blacklist the module."""
    return tuple(path for path in drop_ins(tree, _FOLDERS) if blacklists(tree.text(path) or "", module))


def _modified(tree: Tree, path: str | None) -> float | None:
    found = tree.status(path.lstrip("/")) if path else None
    return found.st_mtime if found else None


def _stale(tree: Tree, initramfs: str | None, files: Iterable[str]) -> bool | None:
    """Whether the initramfs was made before the oldest file that blacklists: it holds what modprobe.d was then."""
    made = _modified(tree, initramfs)
    written = [time for time in (_modified(tree, path) for path in files) if time is not None]
    return None if made is None or not written else made < min(written)


def read_nouveau(tree: Tree, next_kernel: Kernel | None, next_boot: NextBoot) -> Nouveau:
    files = read_blacklists(tree, "nouveau")
    by_command_line = blacklisted_on_command_line(next_boot.arguments, "nouveau") or (
        next_boot.arguments is None and blacklisted_on_command_line(tree.text("proc/cmdline"), "nouveau")
    )
    stale = None
    if files and not by_command_line and next_kernel is not None and next_kernel.nouveau_path is not None:
        stale = _stale(tree, next_kernel.initramfs, files)
    return Nouveau(
        loaded=tree.is_folder("sys/module/nouveau"),
        blacklisted=bool(files) or by_command_line,
        blacklisted_by=tuple(shown(path) or path for path in files) + (("command line",) if by_command_line else ()),
        initramfs_stale=stale,
    )
