# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An apt of its own for another release of Debian or Ubuntu, which leaves the machine's own alone. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal


def apt_options(root: str, architecture: str, status: str) -> list[str]:
    """C(status): what dpkg of the target has installed; empty for one that is bare."""
    values = {
        "Dir": root,
        "Dir::State": f"{root}/state",
        "Dir::State::status": status,
        "Dir::Cache": f"{root}/cache",
        "Dir::Etc": f"{root}/etc",
        "Dir::Etc::SourceList": f"{root}/etc/sources.list",
        "Dir::Etc::SourceParts": f"{root}/etc/sources.list.d",
        "Dir::Etc::Trusted": "/etc/apt/trusted.gpg",
        "Dir::Etc::TrustedParts": "/etc/apt/trusted.gpg.d",
        "Dir::Etc::Main": "/dev/null",
        "Dir::Etc::Preferences": "/dev/null",
        "Dir::Etc::PreferencesParts": f"{root}/etc/preferences.d",
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Debug::NoLocking": "true",
        # Hooks of the machine are no part of it.
        "DPkg::Post-Invoke": "",
        "APT::Update::Post-Invoke-Success": "",
    }
    return [word for name, value in values.items() for word in ("-o", f"{name}={value}")]


def own_sources(files: Iterable[tuple[str, str]], codename: str, suite: str) -> dict[str, str]:
    """The machine's own sources of Debian or Ubuntu, by file name, for another suite of the same distribution."""
    found = {}
    for name, text in files:
        if re.search(rf"\b{re.escape(codename)}\b", text) and re.search(
            r"/(debian|ubuntu)(-security|-ports)?/?(\s|$)", text
        ):
            found[name] = re.sub(rf"\b{re.escape(codename)}\b", suite, text)
    return found


def unresolved(output: str) -> list[str]:
    """What apt says that it cannot find or install, by package."""
    missing = re.findall(r"Unable to locate package (\S+)", output)
    missing += re.findall(r"Package '?([^\s']+)'? has no installation candidate", output)
    missing += re.findall(r"Depends: (\S+)[^\n]*(?:not installable|not going to be installed)", output)
    missing += re.findall(r"^E: Failed to fetch \S*/(\S+\.deb)", output, re.MULTILINE)
    return sorted(dict.fromkeys(missing))


def unresolved_refusal(code: str, what: str, output: str, remedy: str) -> Refusal:
    names = unresolved(output)
    last = next((line for line in reversed(output.splitlines()) if line.startswith("E:")), "")
    shown = ", ".join(names[:12]) or last.removeprefix("E: ") or "apt does not say what"
    return Refusal(code, f"{what}: {shown}.", remedy, {"packages": names, "output": output.splitlines()[-20:]})
