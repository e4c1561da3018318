# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A command that is read while it runs, where C(run_command) would collect all of its output first."""

from __future__ import annotations

import os
import select
import subprocess
from typing import Protocol

READ_BYTES = 1 << 18
# A longer line is dropped. A message of the journal may be larger than the memory of the node is meant for.
LONGEST_LINE_BYTES = 8 << 20
NOT_FOUND = 127


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
    """A running command as C(Lines). One that cannot be run has ended with 127, as a shell has it."""

    def __init__(self, command: list[str]) -> None:
        self._buffer = LineBuffer()
        # No pipe, since one that nobody reads would stop a talkative command.
        self._errors = os.memfd_create("stderr")
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env={**os.environ, "LC_ALL": "C"},
            )
        except OSError as error:
            os.write(self._errors, str(error).encode())
        self.ended = self._process is None

    def read(self, seconds: float) -> list[bytes]:
        output = self._process.stdout if self._process is not None else None
        if self.ended or output is None:
            return []
        ready = select.select([output], [], [], max(0.0, seconds))[0]
        if not ready:
            return []
        data = os.read(output.fileno(), READ_BYTES)
        self.ended = not data
        return self._buffer.feed(data)

    def close(self) -> tuple[int, str]:
        code = NOT_FOUND
        if self._process is not None:
            if not self.ended:
                self._process.kill()
            code = self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
        errors = os.pread(self._errors, READ_BYTES, 0).decode("utf-8", "replace")
        os.close(self._errors)
        return (code, errors) if self.ended else (0, errors)
