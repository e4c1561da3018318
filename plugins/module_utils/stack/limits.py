# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How much memory a service may lock and how many files it may open when its unit says nothing.

PID 1's own limits are no measure: systemd raises them for itself and gives services the former ones. pam_limits
(/etc/security/limits.d) is none either, as services do not log in. So the manager's configuration counts, and where it
says nothing, what services that run were given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import (
    Limits,
    Memlock,
    MemlockLimit,
    Nofile,
    NofileLimit,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree, drop_ins, shown

_MAIN = ("etc/systemd/system.conf", "run/systemd/system.conf", "usr/lib/systemd/system.conf")
_DROP_INS = (
    "etc/systemd/system.conf.d",
    "run/systemd/system.conf.d",
    "usr/local/lib/systemd/system.conf.d",
    "usr/lib/systemd/system.conf.d",
)
_NAMES = {"MEMLOCK": "Max locked memory", "NOFILE": "Max open files"}
_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50, "E": 1 << 60}
# Services that nearly every host runs; one whose unit sets the limit itself says nothing about the defaults.
_WITNESSES = ("cron", "crond", "ssh", "sshd", "rsyslog", "chrony", "chronyd", "dbus", "dbus-broker", "systemd-logind")
_UNITS_FOLDERS = ("etc/systemd/system", "run/systemd/system", "usr/lib/systemd/system", "lib/systemd/system")


@dataclass(frozen=True)
class Bound:
    """A soft or a hard limit: a number, or unlimited."""

    number: int | None = None
    unlimited: bool | None = None


def _setting(text: str) -> Bound:
    """A value of systemd's: a number with a unit of 1024, or infinity."""
    word = text.strip()
    if word == "infinity":
        return Bound(None, True)
    match = re.match(r"^(\d{1,20})([BKMGTPE]?)$", word)
    return Bound(int(match.group(1)) * _UNITS[match.group(2)], False) if match else Bound()


def parse_setting(text: str) -> tuple[Bound, Bound]:
    """C(infinity), C(64M) or C(soft:hard)."""
    soft, colon, hard = text.partition(":")
    return _setting(soft), _setting(hard if colon else soft)


def parse_limits(text: str | None, name: str) -> tuple[Bound, Bound]:
    """The soft and the hard limit in one line of /proc/PID/limits."""
    match = re.search(rf"^{re.escape(name)}\s+(\S{{1,20}})\s+(\S{{1,20}})", text or "", re.MULTILINE)
    bounds = [
        Bound(int(word), False) if word.isdigit() else Bound(None, True) if word == "unlimited" else Bound()
        for word in (match.groups() if match else ("", ""))
    ]
    return bounds[0], bounds[1]


def manager_settings(files: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """C(DefaultLimit*) of system.conf and its drop-ins, in the order that they are read: name -> (value, path)."""
    found: dict[str, tuple[str, str]] = {}
    for path, text in files.items():
        section = ""
        for line in text.splitlines():
            stripped = line.strip()
            if stripped.startswith("["):
                section = stripped
            name, equals, value = stripped.partition("=")
            if section == "[Manager]" and equals and name.strip().startswith("DefaultLimit"):
                found[name.strip()] = (value.strip(), path)
    return {name: setting for name, setting in found.items() if setting[0]}


def _sets(tree: Tree, unit: str, name: str) -> bool:
    """Whether a unit or a drop-in of it sets this limit."""
    files = [f"{folder}/{unit}" for folder in _UNITS_FOLDERS]
    files += drop_ins(tree, tuple(f"{folder}/{unit}.d" for folder in _UNITS_FOLDERS))
    return any(re.search(rf"^\s*Limit{name}\s*=", tree.text(path) or "", re.MULTILINE) for path in files)


def _witness(tree: Tree, name: str) -> str | None:
    """/proc/PID/limits of a service that was given the manager's default for this limit: its path."""
    for base in ("sys/fs/cgroup", "sys/fs/cgroup/systemd"):
        for service in _WITNESSES:
            unit = f"{service}.service"
            processes = (tree.text(f"{base}/system.slice/{unit}/cgroup.procs") or "").split()
            known = processes and processes[0].isdigit() and tree.text(f"proc/{processes[0]}/limits")
            if known and not _sets(tree, unit, name):
                return f"proc/{processes[0]}/limits"
    return None


def _memlock(bounds: tuple[Bound, Bound], source: str | None) -> MemlockLimit:
    soft, hard = bounds
    known = soft.unlimited is not None
    return MemlockLimit(soft.number, soft.unlimited, hard.number, hard.unlimited, shown(source) if known else None)


def _nofile(bounds: tuple[Bound, Bound], source: str | None) -> NofileLimit:
    soft, hard = bounds
    known = soft.unlimited is not None
    return NofileLimit(soft.number, soft.unlimited, hard.number, hard.unlimited, shown(source) if known else None)


def read_limits(tree: Tree) -> Limits:
    main = next((path for path in _MAIN if tree.is_file(path)), None)
    files = {path: tree.text(path) or "" for path in ([main] if main else []) + drop_ins(tree, _DROP_INS)}
    settings = manager_settings(files)

    def services(name: str) -> tuple[tuple[Bound, Bound], str | None]:
        if f"DefaultLimit{name}" in settings:
            value, path = settings[f"DefaultLimit{name}"]
            return parse_setting(value), path
        return of(_witness(tree, name), name)

    def of(path: str | None, name: str) -> tuple[tuple[Bound, Bound], str | None]:
        return parse_limits(tree.text(path) if path else None, _NAMES[name]), path

    # A recorded machine has no process that runs this.
    own = "proc/self/limits" if tree.live else None
    return Limits(
        memlock=Memlock(
            services=_memlock(*services("MEMLOCK")),
            pid1=_memlock(*of("proc/1/limits", "MEMLOCK")),
            process=_memlock(*of(own, "MEMLOCK")),
        ),
        nofile=Nofile(
            services=_nofile(*services("NOFILE")),
            pid1=_nofile(*of("proc/1/limits", "NOFILE")),
            process=_nofile(*of(own, "NOFILE")),
        ),
    )
