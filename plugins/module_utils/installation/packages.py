# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which of some packages of the distribution are installed, by a question that takes no lock and no lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.commands import answer_of

# Lies there as long as a run of ours changes packages, see package_change.
BEGUN = Path("/var/lib/gpufleet/packages_begun")
# Names as they were asked for; of several architectures each has a line. "ii": wanted, and installed whole.
_ASK_DPKG = ["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Abbrev}\\n", "--"]
_ASK_RPM = ["rpm", "--query", "--queryformat=%{NAME}\\n", "--"]


def installed_by_dpkg(names: Sequence[str], output: str) -> list[str]:
    rows = {tuple(line.split()) for line in output.splitlines()}
    return [name for name in names if (name, "ii") in rows or (name, "hi") in rows]


def installed_by_rpm(names: Sequence[str], output: str) -> list[str]:
    # What is not there has a sentence instead of its name.
    rows = set(output.splitlines())
    return [name for name in names if name in rows]


def installed_packages(run_command: Callable[..., Any], manager: str | None, names: Sequence[str]) -> list[str]:
    """Those of C(names) that are surely there. What is left out, a package manager has to be asked for."""
    if not names:
        return []
    if manager == "apt":
        return installed_by_dpkg(names, answer_of(run_command, [*_ASK_DPKG, *names])[1])
    if manager in ("dnf", "zypper"):
        return installed_by_rpm(names, answer_of(run_command, [*_ASK_RPM, *names])[1])
    return []
