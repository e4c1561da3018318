# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an operating system brings along for SGLang's wheels: its C library and the interpreters that it packages.

The C libraries: table "compatibility" of mayeut/pep600_compliance, README.rst, which analyses each system. The
interpreters: packages.debian.org and packages.ubuntu.com; Red Hat, "Installing and using dynamic programming
languages", "Python versions" (3.11 since RHEL 9.2, 3.12 since 9.4; RHEL 10 has 3.12, and what its minor releases add
was not seen). The first one is what the system itself calls python3, the others are packages of its own repositories.
Ubuntu 22.04 packages python3.11 as a release candidate only (3.11.0~rc1, universe), which is none to serve with.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.system import family_of


@dataclass(frozen=True)
class SystemLibraries:
    """C(glibc) and C(pythons) are minor releases: of glibc 2, of Python 3."""

    name: str
    glibc: int
    pythons: tuple[int, ...]


_SYSTEMS: dict[tuple[str, str], SystemLibraries] = {
    ("debian", "12"): SystemLibraries("Debian 12", 36, (11,)),
    ("debian", "13"): SystemLibraries("Debian 13", 41, (13,)),
    ("ubuntu", "22.04"): SystemLibraries("Ubuntu 22.04", 35, (10,)),
    ("ubuntu", "24.04"): SystemLibraries("Ubuntu 24.04", 39, (12,)),
    ("rhel", "9"): SystemLibraries("RHEL 9", 34, (9, 11, 12)),
    ("rhel", "10"): SystemLibraries("RHEL 10", 39, (12,)),
}


def system_libraries(os_id: str | None, version_id: str | None) -> SystemLibraries | None:
    """None for a system that is not in the table. What is built of RHEL counts as RHEL of the same major release."""
    version = version_id or ""
    found = _SYSTEMS.get((os_id or "", version))
    if found is not None or family_of(os_id, None) != "rhel" or os_id in ("fedora", "amzn"):
        return found
    return _SYSTEMS.get(("rhel", version.partition(".")[0]))
