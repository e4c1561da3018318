# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""DKMS's tree in /var/lib/dkms, read as C(dkms status) reads it.

C(<module>/<version>/source) makes a version added, modules in C(<version>/<kernel>/<architecture>/module) make it
built, and a link C(<module>/kernel-<kernel>-<architecture>) that leads there installed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import DkmsModule
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree

BASE = "var/lib/dkms"
_MODULES_LIMIT = 256
_NOT_A_KERNEL = ("source", "build")


def _builds(tree: Tree, module: str, version: str) -> Iterator[DkmsModule]:
    here = f"{BASE}/{module}/{version}"
    for kernel in tree.names(here):
        if kernel in _NOT_A_KERNEL or not re.match(r"\d+\.", kernel):
            continue
        for architecture in tree.names(f"{here}/{kernel}"):
            built = any(".ko" in name for name in tree.names(f"{here}/{kernel}/{architecture}/module"))
            if not built:
                continue
            active = tree.link(f"{BASE}/{module}/kernel-{kernel}-{architecture}") or ""
            # Relative as DKMS writes it; absolute where a tree was moved.
            installed = os.path.normpath(active).split("/")[-3:] == [version, kernel, architecture]
            yield DkmsModule(module, version, kernel, architecture, "installed" if installed else "built")


def read_dkms(tree: Tree) -> tuple[DkmsModule, ...]:
    found: list[DkmsModule] = []
    for module in tree.names(BASE)[:_MODULES_LIMIT]:
        if not tree.is_folder(f"{BASE}/{module}"):
            continue  # dkms_dbversion, mok.key and the like
        for version in tree.names(f"{BASE}/{module}")[:_MODULES_LIMIT]:
            source = f"{BASE}/{module}/{version}/source"
            if version.startswith("kernel-") or (tree.link(source) is None and not tree.is_folder(source)):
                continue
            builds = list(_builds(tree, module, version))
            found += builds or [DkmsModule(module, version)]
    return tuple(found)
