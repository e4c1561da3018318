# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the log of a start lies, and a reader for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ansible_collections.gpufleet.sglang.plugins.module_utils.journal import container_matches, invocation_matches
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.collector import Collector
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.journal_log import JournalLog
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.kernel_log import KernelLog
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.node import Node
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.position import Position
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.subject import Seen

# How podman and Docker write what a container prints (their names for it), one record a line.
_FILE_DRIVERS = ("k8s-file", "json-file")
# The container writes to what the engine itself was given: the journal, where a unit runs the engine.
_PASSED_ON = ("passthrough", "passthrough-tty")


class Log(Protocol):
    """The log of one start, from a position on."""

    def read(self, seconds: float) -> None: ...

    def finish(self, surely: bool) -> bool: ...

    def reached(self, before: Position) -> Position: ...


def _other_driver(driver: str) -> Problem:
    return Problem(
        "log_driver_unreadable",
        "warning",
        f"The container logs with the driver {driver or 'of no name'}, which cannot be read.",
        "Use the log driver journald, k8s-file or json-file; without it only bytes and readiness can be watched.",
    )


def find_log_file(node: Node, pids: Iterable[int]) -> str | None:
    """The file that a process of the server has for its stderr, to which SGLang logs; None where it is none."""
    for pid in pids:
        path = node.link(f"proc/{pid}/fd/2") or ""
        if path.startswith("/") and not path.startswith(("/dev/", "/proc/")) and not path.endswith(" (deleted)"):
            return path
    return None


def open_log(
    node: Node,
    found: Collector,
    kernel: KernelLog,
    kind: str,
    path: str | None,
    unit: str | None,
    seen: Seen,
    position: Position,
) -> Log | None:
    """None where there is nothing to be read yet, or where the log is of another start than the one asked for."""
    present = seen.start == position.start
    if kind == "file":
        if not path or not present or position.start is None:
            return None
        # Not at the top, as below: few logs are files, and what a look imports is most of what it costs.
        from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.file_source import (
            file_of_server,
        )

        return file_of_server(node, found, path, position.file, seen)
    if kind != "journal" and not present:
        return None
    driver = seen.container.log_driver if seen.container is not None else ""
    if kind == "journal" or (seen.container is not None and driver in _PASSED_ON and unit):
        if position.start is None:
            return None
        return JournalLog(
            node,
            found,
            kernel,
            invocation_matches(position.start),
            position.journal,
            position.kernel,
            unit=seen.status.name,
            invocation_id=position.start,
            namespace=seen.status.log_namespace,
        )
    container = seen.container
    if container is None or container.started_at is None:
        return None
    if driver in _FILE_DRIVERS and container.log_path:
        from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.file_source import (
            file_of_engine,
        )

        return file_of_engine(node, found, position.file, container, container.log_path)
    if driver == "journald":
        matches = container_matches(container.container_id)
        return JournalLog(node, found, kernel, matches, position.journal, position.kernel, since=container.started_at)
    found.unreadable(_other_driver(driver))
    return None
