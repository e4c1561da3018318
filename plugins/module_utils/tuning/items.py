# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What tuning changes on a node: files, links, folders, values of the kernel; and how a state of these is told.

A state is what JSON holds, since it is kept in the record; None is what is not there. Pure.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Of files and folders: what was not there before.
FILE = "file"
LINK = "link"
FOLDER = "folder"
# A file of the kernel in /proc/sys or /sys that holds one value.
VALUE = "value"
# The control register of PCIe Access Control Services.
ACS = "acs"
SWAP = "swap"
SHM = "shm"
KINDS = (FILE, LINK, FOLDER, VALUE, ACS, SWAP, SHM)

State = Any


@dataclass(frozen=True)
class Item:
    """C(target) as the machine itself calls it. C(words) are the words of kernel arguments that a file is given.

    C(base): of a file that others write as well, its text without our part. C(kept): whether what was there before goes
    into the record.
    """

    kind: str
    target: str
    wanted: State
    words: tuple[str, ...] = ()
    base: str | None = None
    kept: bool = True

    @property
    def key(self) -> str:
        return f"{self.kind}:{self.target}"


def file_state(text: str, mode: int = 0o644) -> State:
    """A file of ours: who owns it is who runs the task."""
    return {"text": text, "mode": mode}


def found_file(data: bytes, mode: int, uid: int, gid: int) -> State:
    """A file as it was found, to the byte."""
    try:
        content = {"text": data.decode("utf-8")}
    except UnicodeDecodeError:
        content = {"base64": base64.b64encode(data).decode("ascii")}
    return {**content, "mode": mode, "uid": uid, "gid": gid}


def data_of(state: Mapping[str, Any]) -> bytes:
    if "base64" in state:
        return base64.b64decode(state["base64"])
    text: str = state["text"]
    return text.encode("utf-8")


def text_of(state: State) -> str | None:
    """The text of a file's state; None for no file, and for one that holds none."""
    return state.get("text") if isinstance(state, dict) else None


def matches(kind: str, current: State, goal: State) -> bool:
    """Whether a state is as wanted; of a file only what the goal speaks of counts."""
    if kind == FOLDER:
        return (current is None) == (goal is None)
    if kind == SWAP and isinstance(current, list) and isinstance(goal, list):
        # Priorities that nobody gave are numbered anew by the kernel.
        return sorted(one["device"] for one in current) == sorted(one["device"] for one in goal)
    if kind == FILE and isinstance(current, dict) and isinstance(goal, dict):
        own = [name for name in ("mode", "uid", "gid") if name in goal]
        return data_of(current) == data_of(goal) and all(current.get(name) == goal[name] for name in own)
    return bool(current == goal)
