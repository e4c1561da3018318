# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The log of a start in a file: one that the server itself appends to, or one that a container engine writes."""

from __future__ import annotations

import zoneinfo
from datetime import timezone, tzinfo

from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import environment_value
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.collector import Collector
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.container import Container
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.file_log import FileLog
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.line_times import (
    docker_line,
    k8s_line,
    plain_line,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.node import Node
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.position import FilePosition
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.subject import Seen
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.unit import read_started_at

_LINES = {"k8s-file": k8s_line, "json-file": docker_line}


def _zone(node: Node, pid: int | None) -> tzinfo | None:
    """The server's own zone, where it says one; a container has its own."""
    named = (environment_value(node.data(f"proc/{pid}/environ") or b"", "TZ") if pid else None) or ""
    try:
        if named in ("UTC", "UTC0", "Etc/UTC"):
            return timezone.utc
        if named:
            return zoneinfo.ZoneInfo(named.lstrip(":"))
        if pid:
            with node.path(f"proc/{pid}/root/etc/localtime").open("rb") as file:
                return zoneinfo.ZoneInfo.from_file(file)
    except (OSError, ValueError, zoneinfo.ZoneInfoNotFoundError):
        pass
    return None


def file_of_server(node: Node, found: Collector, path: str, position: FilePosition | None, seen: Seen) -> FileLog:
    zone = _zone(node, seen.main_pid)
    return FileLog(node, found, path, position, read_started_at(node, seen.status), plain_line(zone))


def file_of_engine(
    node: Node, found: Collector, position: FilePosition | None, container: Container, path: str
) -> FileLog:
    return FileLog(node, found, path, position, container.started_at, _LINES[container.log_driver])
