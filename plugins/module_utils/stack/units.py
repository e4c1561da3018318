# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Units of systemd, as links and files tell of them: whether one is started at boot."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree

_ADMINISTRATORS = "etc/systemd/system"
_FOLDERS = (_ADMINISTRATORS, "usr/lib/systemd/system", "lib/systemd/system")


def is_masked(tree: Tree, unit: str) -> bool:
    """Masked for good; what is masked until the next boot only (below /run) is not."""
    return tree.link(f"{_ADMINISTRATORS}/{unit}") == "/dev/null"


def is_enabled(tree: Tree, unit: str) -> bool | None:
    """Whether a target or another unit starts this one at boot; None where there is no such unit.

    The links that C(systemctl enable) makes count, and those of a vendor that nobody can disable (a static unit that a
    package wires up itself). A preset only decides which links are made when a package is installed, so presets are
    not read.
    """
    if not any(tree.link(f"{folder}/{unit}") or tree.is_file(f"{folder}/{unit}") for folder in _FOLDERS):
        return None
    if is_masked(tree, unit):
        return False
    return any(
        tree.link(f"{folder}/{name}/{unit}") is not None
        for folder in _FOLDERS
        for name in tree.names(folder)
        if name.endswith((".wants", ".requires"))
    )
