# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A limit on how long a call may take that has none of its own.

Ansible's ssh connection waits for the end of a command without a limit, and the kernel does not notice that the other
end is gone while there is nothing to send: without ServerAliveInterval such a wait never ends.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType


class OutOfTime(BaseException):
    """Like Ansible's own for the time limit of a task none that ``except Exception`` swallows on the way up."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer for {seconds:g} s")


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raises OutOfTime in the block after so long, and ends the processes that the block has started.

    Where the alarm is taken (the task has a time limit of its own) or cannot be set, the block runs without a limit.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGALRM) != signal.SIG_DFL:
        yield
        return

    def raise_it(number: int, frame: FrameType | None) -> None:
        raise OutOfTime(seconds)

    before = _children()
    signal.signal(signal.SIGALRM, raise_it)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except OutOfTime:
        for child in _children() - before:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        raise
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _children() -> frozenset[int]:
    """The processes that this thread has started; none where the kernel does not tell."""
    try:
        text = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text(encoding="ascii")
    except OSError:
        return frozenset()
    return frozenset(int(word) for word in text.split())
