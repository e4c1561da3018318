# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A command that is read while it runs, where C(run_command) would collect all of its output first."""

from __future__ import annotations

import os
import select
import signal
from typing import Protocol

from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import exit_code

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
    """A running command as C(Lines). One that cannot be run has ended with 127, as a shell has it.

    Spawned here and not by C(run_command), which hands over nothing before the command has ended.
    """

    def __init__(self, command: list[str]) -> None:
        self._buffer = LineBuffer()
        # No pipe, since one that nobody reads would stop a talkative command.
        self._errors = os.memfd_create("stderr")
        self._output, output = os.pipe()
        self._pid: int | None = None
        try:
            self._pid = os.posix_spawnp(
                command[0],
                command,
                {**os.environ, "LC_ALL": "C"},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, output, 1),
                    (os.POSIX_SPAWN_DUP2, self._errors, 2),
                ],
                # Python ignores it; the command is to end when nobody reads it any more.
                setsigdef=[signal.SIGPIPE],
            )
        except OSError as error:
            os.write(self._errors, str(error).encode())
        finally:
            os.close(output)
        self.ended = self._pid is None

    def read(self, seconds: float) -> list[bytes]:
        if self.ended or not select.select([self._output], [], [], max(0.0, seconds))[0]:
            return []
        data = os.read(self._output, READ_BYTES)
        self.ended = not data
        return self._buffer.feed(data)

    def close(self) -> tuple[int, str]:
        code = NOT_FOUND
        if self._pid is not None:
            if not self.ended:
                os.kill(self._pid, signal.SIGKILL)
            code = exit_code(os.waitpid(self._pid, 0)[1])
        errors = os.pread(self._errors, READ_BYTES, 0).decode("utf-8", "replace")
        os.close(self._output)
        os.close(self._errors)
        return (code, errors) if self.ended else (0, errors)
