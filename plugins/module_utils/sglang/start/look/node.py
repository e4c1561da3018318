# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The node as one look touches it; a test gives it other parts."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.streaming import Lines


@dataclass(frozen=True)
class Node:
    """C(run) collects all of a command's output, C(stream) hands it over while the command runs.

    C(probe) is asked for a URL: the HTTP status, None if no HTTP answer came. C(clock) never jumps, C(wall) may.
    """

    run: Callable[[list[str]], tuple[int, str, str]]
    stream: Callable[[list[str]], Lines]
    probe: Callable[[str], int | None]
    root: Path = Path("/")
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    uptime: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_MONOTONIC)

    def path(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def text(self, path: str) -> str | None:
        data = self.data(path)
        return None if data is None else data.decode("utf-8", "replace")

    def data(self, path: str) -> bytes | None:
        """None for whatever cannot be read: processes vanish between two lines of this module."""
        try:
            # A path object for each of some hundred files a look costs more than reading them.
            with io.FileIO(f"{self.root}/{path.lstrip('/')}") as file:
                return file.readall()
        except (OSError, ValueError):
            return None

    def names(self, path: str) -> list[str]:
        """What lies in a folder, in order; empty if it cannot be read."""
        try:
            return sorted(one.name for one in self.path(path).iterdir())
        except OSError:
            return []

    def folders(self, path: str) -> Iterator[str]:
        """The folders in a folder."""
        for name in self.names(path):
            if self.path(f"{path}/{name}").is_dir():
                yield f"{path}/{name}"

    def link(self, path: str) -> str | None:
        try:
            return str(self.path(path).readlink())
        except OSError:
            return None
