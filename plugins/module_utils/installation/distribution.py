# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The interpreter that a distribution has for SGLang, and the packages that it needs at run time, by their names there.

A compiler and Python's headers: Triton and other kernels are built when they are first used. numactl: SGLang starts
its ranks with it where they are bound to NUMA nodes. RHEL 9 has Python 3.9 as python3, which no release of SGLang
takes, and 3.12 beside it since 9.4 (Red Hat Enterprise Linux 9, "Installing and using dynamic programming languages").
RHEL's packages of Python bring venv and ensurepip.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import OperatingSystem


@dataclass(frozen=True)
class FromDistribution:
    python: str
    packages: tuple[str, ...]


_PLAIN = "/usr/bin/python3"
_DEBIAN = FromDistribution(_PLAIN, ("python3-venv", "python3-dev", "g++", "numactl"))
_RHEL = FromDistribution(_PLAIN, ("python3", "python3-devel", "gcc-c++", "numactl"))
_RHEL_9 = FromDistribution("/usr/bin/python3.12", ("python3.12", "python3.12-devel", "gcc-c++", "numactl"))
# What is neither like the one nor the other has its packages from whoever runs it.
_OTHER = FromDistribution(_PLAIN, ())


def from_distribution(system: OperatingSystem) -> FromDistribution:
    if system.family == "debian":
        return _DEBIAN
    if system.family != "rhel":
        return _OTHER
    return _RHEL_9 if (system.version_id or "").partition(".")[0] == "9" and system.id != "fedora" else _RHEL
