# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The board on which the workers of one run write how their nodes are doing, and from which one of them speaks for all.

A folder: a file for each node, written by its worker and replaced as a whole, and the line that was shown last, which
only who holds the lock reads and writes. There is no leader. Whoever comes by with news and finds the lock free speaks,
so that a worker that is killed is not missed: its lock falls with it, and its node with its process.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.board import (
    MOST_LINES,
    Entry,
    entry_from_dict,
    going_on,
    summary_line,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.cadence import (
    Shown,
    is_due,
    with_sign_of_life,
)


@dataclass(frozen=True)
class Board:
    """The folder of those that watch together."""

    folder: Path


def open_board(root: str, together: str) -> Board:
    """The board below C(root) of the workers that give the same C(together)."""
    folder = Path(root) / "gpufleet_startup_boards" / hashlib.sha256(together.encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    return Board(folder)


def join(board: Board, batch: Iterable[str]) -> None:
    """Takes the entries of an earlier batch of hosts off the board: none of this one's is among them."""
    found = list(board.folder.glob("*.entry"))
    hosts = {str(data.get("host")) for data in map(_read, found) if data is not None}
    if hosts and hosts.isdisjoint(batch):
        for path in (*found, board.folder / "shown"):
            path.unlink(missing_ok=True)


def post(board: Board, entry: Entry) -> None:
    """Writes what a worker knows of its node, in place of what it wrote before."""
    name = hashlib.sha256(f"{entry.host}\n{entry.instance}".encode()).hexdigest()[:16]
    _replace(board.folder / f"{name}.entry", entry.as_dict())


def entries(board: Board) -> list[Entry]:
    """Every node on the board, by name; without those whose worker is gone and cannot tell their end any more."""
    found = []
    for path in board.folder.glob("*.entry"):
        data = _read(path)
        if data is None:
            continue
        try:
            entry = entry_from_dict(data)
        except TypeError:
            continue
        if entry.end is not None or _runs(entry.pid):
            found.append(entry)
    return sorted(found, key=lambda one: (one.host, one.instance))


def is_crowded(found: list[Entry]) -> bool:
    """Whether the nodes share a line."""
    return len(found) > MOST_LINES


def speak(board: Board, now: float, show: Callable[[str], None]) -> None:
    """Shows the line of all nodes where it is due and nobody else is about to."""
    with _alone(board) as alone:
        if not alone:
            return
        found = entries(board)
        if not going_on(found):
            return  # the ends have been told one by one
        path = board.folder / "shown"
        data = _read(path)
        last = None if data is None else Shown(at=float(data["at"]), text=str(data["text"]))
        text = summary_line(found)
        began_at = min(one.began_at for one in found)
        if is_due(last, text, now, began_at):
            show(with_sign_of_life(text, last, now - began_at))
            _replace(path, asdict(Shown(now, text)))


@contextmanager
def _alone(board: Board) -> Iterator[bool]:
    """Whether this process has the board for itself; it never waits for another."""
    with (board.folder / "lock").open("a", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _read(path: Path) -> dict[str, Any] | None:
    """None for a file that is gone or was never finished."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def _replace(path: Path, data: dict[str, Any]) -> None:
    unfinished = path.with_suffix(f".{os.getpid()}")
    unfinished.write_text(json.dumps(data), encoding="utf-8")
    unfinished.replace(path)
