# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A command that is read while it runs, where C(run_command) would collect all of its output first."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Protocol

from ansible_collections.gpufleet.sglang.plugins.module_utils.commands import NOT_FOUND

READ_BYTES = 1 << 18
# A longer line is dropped. A message of the journal may be larger than the memory of the node is meant for.
LONGEST_LINE_BYTES = 8 << 20


class Lines(Protocol):
    """Lines that arrive in time. C(ended): no more will come."""

    @property
    def ended(self) -> bool: ...

    def read(self, seconds: float) -> list[bytes]:
        """Whole lines, at once when there are any, else after so many seconds; empty if none came."""

    def close(self) -> tuple[int, str]:
        """Ends the command if need be; (return code, 0 if it had to be ended, and what it said on stderr)."""


class LineBuffer:
    """Bytes in, whole lines out."""

    def __init__(self) -> None:
        self._rest = b""
        self._dropping = False

    def feed(self, data: bytes) -> list[bytes]:
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        if self._dropping and lines:
            lines.pop(0)
            self._dropping = False
        if len(self._rest) > LONGEST_LINE_BYTES:
            self._rest, self._dropping = b"", True
        return lines


class Child:
    """A running command as C(Lines). One that cannot be run has ended with 127, as a shell has it.

    C(run_command) of AnsibleModule starts it, in a thread of its own: it hands over the process before it collects
    what is left of the output, and is kept from that until C(close).
    """

    def __init__(self, run_command: Callable[..., Any], command: list[str]) -> None:
        self._buffer = LineBuffer()
        self._code, self._errors = NOT_FOUND, b""
        self._started: SimpleQueue[Any] = SimpleQueue()
        self._released = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(run_command, command), daemon=True)
        self._thread.start()
        self._process = self._started.get()
        self.ended = self._process is None
        # Both are read: a pipe that nobody reads stops a talkative command.
        self._open = [] if self.ended else [self._process.stdout, self._process.stderr]

    def _run(self, run_command: Callable[..., Any], command: list[str]) -> None:
        try:
            self._code, _rest, errors = run_command(
                command,
                encoding=None,
                environ_update={"LC_ALL": "C"},
                handle_exceptions=False,
                before_communicate_callback=self._hand_over,
            )
            self._take_errors(errors)
        except OSError as error:
            self._take_errors(str(error).encode())
        finally:
            self._started.put(None)

    def _hand_over(self, process: Any) -> None:
        self._started.put(process)
        self._released.wait()

    def _take_errors(self, data: bytes) -> None:
        self._errors = (self._errors + data)[:READ_BYTES]

    def read(self, seconds: float) -> list[bytes]:
        until = time.monotonic() + seconds
        while not self.ended:
            ready = select.select(self._open, [], [], max(0.0, until - time.monotonic()))[0]
            if self._process.stderr in ready:
                errors = os.read(self._process.stderr.fileno(), READ_BYTES)
                self._take_errors(errors)
                if not errors:
                    self._open.remove(self._process.stderr)
            if self._process.stdout in ready:
                data = os.read(self._process.stdout.fileno(), READ_BYTES)
                self.ended = not data
                return self._buffer.feed(data)
            if not ready:
                break
        return []

    def close(self) -> tuple[int, str]:
        if not self.ended:
            self._process.kill()
        self._released.set()
        self._thread.join()
        return (self._code if self.ended else 0, self._errors.decode("utf-8", "replace"))
