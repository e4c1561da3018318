# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A unit to try the sandbox of another in, made of that other's own files, and what its answers mean. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

TRIAL_SECONDS = 120
# What starts, restarts or ends the server; everything else is the sandbox, and is kept.
_WORDS = """
    Type ExecStart ExecStartPre ExecStartPost ExecCondition ExecReload ExecStop ExecStopPost Restart RestartSec
    SuccessExitStatus RestartPreventExitStatus TimeoutSec TimeoutStartSec TimeoutStopSec TimeoutStartFailureMode
    WatchdogSec NotifyAccess RemainAfterExit StandardOutput StandardError StartLimitIntervalSec StartLimitBurst
    Description PIDFile BusName
"""
_OF_THE_SERVER = frozenset(_WORDS.split())
_KEPT_SECTIONS = ("Unit", "Service")


def without_server(text: str) -> str:
    """A unit's file, or a drop-in of it, without what starts and ends the server."""
    kept: list[str] = []
    section, dropped = "", False
    for line in text.splitlines():
        stripped = line.strip()
        if dropped or not stripped or stripped[0] in "#;":
            # A value goes on in the next line behind a backslash; comments in between do not end it.
            dropped = dropped and (stripped.endswith("\\") or stripped[:1] in ("#", ";"))
            continue
        if stripped.startswith("[") and stripped.endswith("]"):
            section = stripped[1:-1]
            if section in _KEPT_SECTIONS:
                kept.append(stripped)
            continue
        if section not in _KEPT_SECTIONS or stripped.split("=", 1)[0].strip() in _OF_THE_SERVER:
            dropped = stripped.endswith("\\")
            continue
        kept.append(line)
    return "\n".join(kept) + "\n"


def trial_unit(text: str, command: str, output: str) -> str:
    """The server's unit with another command, whose output goes to a file."""
    return without_server(text) + "\n".join(
        [
            "[Unit]",
            "Description=What the sandbox of a server grants",
            "[Service]",
            "Type=oneshot",
            f"ExecStart={command}",
            f"TimeoutStartSec={TRIAL_SECONDS}",
            f"StandardOutput=truncate:{output}",
            "StandardError=journal",
            "",
        ]
    )


# By what was tried: what the server would be without, and what to do.
_MEANINGS: Mapping[str, tuple[str, str]] = {
    "user": ("does not run as its user", "Look at User= in the unit and its drop-ins."),
    "read": (
        "cannot read",
        "Let the service user read it and pass every folder above it, and keep it out of folders that the unit "
        "or its drop-ins hide (/home, /root, /run/user, /tmp; InaccessiblePaths=).",
    ),
    "write": (
        "cannot write to",
        "Give the folder to the service user, and see that its file system is neither full nor read-only; a drop-in "
        "may open it with ReadWritePaths=.",
    ),
    "credential": ("is not handed the key", "Look at LoadCredential= in the unit, and at the file that it names."),
    "lock": (
        "cannot lock",
        "Let it lock memory: sglang_ambient_capabilities: [CAP_IPC_LOCK], or raise the limit where this host or its "
        "container clamps LimitMEMLOCK.",
    ),
    "numa": (
        "cannot be bound to",
        "Open the node to services (cpuset.mems and cpuset.cpus of the control group, AllowedMemoryNodes= and "
        "AllowedCPUs= of the unit), or state sglang_numa_nodes.",
    ),
    "device": (
        "cannot open",
        "See that the driver's modules are loaded and its device files are there before the unit starts "
        "(nvidia-modprobe -u -c=0, nvidia-persistenced), and that no drop-in narrows DeviceAllow=.",
    ),
    "address": ("cannot listen on", "Give sglang_host an address that this host has."),
    "execute": (
        "cannot have",
        "Kernels are compiled at run time: take MemoryDenyWriteExecute=yes out of the drop-ins, or allow it in SELinux "
        "or AppArmor.",
    ),
}


def denials(answers: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the sandbox would deny the server; behind the first of a kind, what to do."""
    said: list[str] = []
    kinds: set[str] = set()
    for answer in answers:
        if answer.get("granted"):
            continue
        what = str(answer.get("what"))
        meaning, remedy = _MEANINGS.get(what, (f"fails at {what} of", "Look at the unit."))
        code = f"{answer['error']}: " if answer.get("error") else ""
        hint = "" if what in kinds else f" {remedy}"
        kinds.add(what)
        said.append(f"The server {meaning} {answer.get('subject')} ({code}{answer.get('text')}).{hint}")
    return said
