# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Secure Boot, lockdown and what the kernel demands of modules."""

from __future__ import annotations

import re

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import SecureBoot
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree

_GLOBAL_VARIABLE = "sys/firmware/efi/efivars/{}-8be4df61-93ca-11d2-aa0d-00e098032b8c"
# What shim tells the kernel of MokSBState; a variable that outlives a boot is not shim's, and the kernel ignores it.
_SHIM_STATE = "sys/firmware/efi/efivars/MokSBStateRT-605dab50-e046-4300-abb6-3dd810dd8b23"
_NON_VOLATILE = 0x01
_KEY = re.compile(r"\sasymmetri\s+(.*?): (?:[0-9a-f]+: )?X509\.", re.IGNORECASE)
_KEYS_LIMIT = 1024


def efi_flag(data: bytes | None) -> bool | None:
    """A variable of one byte, behind four bytes of attributes."""
    return bool(data[4]) if data is not None and len(data) == 5 else None


def shim_validates(state: bytes | None, secure_boot: bool | None) -> bool | None:
    """Whether shim checks signatures; without the variable it does, where Secure Boot is on."""
    if efi_flag(state) and state is not None and not state[0] & _NON_VOLATILE:
        return False
    return True if secure_boot else None


def chosen_mode(text: str | None) -> str | None:
    """The word in brackets: C(none [integrity] confidentiality) -> C(integrity)."""
    match = re.search(r"\[([^\]]+)\]", text or "")
    return match.group(1) if match else None


def parse_keys(text: str | None) -> tuple[str, ...] | None:
    """Names of the keys that the kernel trusts, from /proc/keys; None where it shows none of them."""
    names = [match.group(1) for match in map(_KEY.search, (text or "").splitlines()) if match]
    return tuple(dict.fromkeys(names))[:_KEYS_LIMIT] or None


def signatures_enforced(parameter: str | None, cmdline: str | None) -> bool | None:
    """Whether only signed modules load: the kernel's own parameter, else what it was booted with."""
    if parameter in ("Y", "N", "1", "0"):
        return parameter in ("Y", "1")
    words = (cmdline or "").split()
    if "module.sig_enforce" in words or "module.sig_enforce=1" in words:
        return True
    return None


def read_secure_boot(tree: Tree) -> SecureBoot:
    enabled = efi_flag(tree.data(_GLOBAL_VARIABLE.format("SecureBoot"), 16))
    return SecureBoot(
        efi=tree.is_folder("sys/firmware/efi"),
        enabled=enabled,
        shim_validation=shim_validates(tree.data(_SHIM_STATE, 16), enabled),
        setup_mode=efi_flag(tree.data(_GLOBAL_VARIABLE.format("SetupMode"), 16)),
        lockdown=chosen_mode(tree.text("sys/kernel/security/lockdown")),
        module_sig_enforce=signatures_enforced(
            tree.text("sys/module/module/parameters/sig_enforce"), tree.text("proc/cmdline")
        ),
        trusted_keys=parse_keys(tree.text("proc/keys")),
    )
