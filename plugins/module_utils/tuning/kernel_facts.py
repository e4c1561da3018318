# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What boots a node, and what its kernel was and will be told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# Debian and Ubuntu: a drop-in, and a menu that is written anew from it.
GRUB_DROP_IN = "grub_drop_in"
# RHEL and its kin: GRUB reads the entries of the Boot Loader Specification itself.
GRUB_BLS = "grub_bls"
# The same, with GRUB_ENABLE_BLSCFG=false.
GRUB_DEFAULT_FILE = "grub_default"
SYSTEMD_BOOT = "systemd_boot"


@dataclass(frozen=True)
class KernelFacts:
    """C(files): texts by path, of those that the loader has. C(entries): paths of its entries, without rescue ones.

    C(next_words): None where it cannot be told what boots next. C(menu): the command that writes the menu anew.
    """

    loader: str
    files: Mapping[str, str] = field(default_factory=dict)
    entries: tuple[str, ...] = ()
    running: tuple[str, ...] = ()
    next_words: tuple[str, ...] | None = None
    menu: tuple[str, ...] | None = None
    boot_id: str | None = None
