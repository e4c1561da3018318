# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the server itself says that it is ready, and whether it is this server that listens there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from ansible_collections.gpufleet.sglang.plugins.module_utils.held_sockets import holders_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.serving_versions import Readiness
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import LogEvent
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.node import Node
from ansible_collections.gpufleet.sglang.plugins.module_utils.sockets import listening, unit_of

PROBE_TIMEOUT_SECONDS = 3.0
# Asked for a key or not: an HTTP server is there, and SGLang starts its own when every rank is.
_ANSWERED = (200, 401, 403)
# These hold a container's port for it.
_PORT_HELPERS = frozenset(("docker-proxy", "conmon", "rootlessport", "rootlessport-child", "slirp4netns", "pasta"))


def http_status(url: str) -> int | None:
    """None where no HTTP answer came: refused, reset, timed out, no HTTP."""
    # Not at the top, and nothing larger (ansible.module_utils.urls): most looks ask nothing, and a module has no byte
    # code that is kept, so that what it imports is most of what a look costs.
    from http.client import HTTPConnection, HTTPException, HTTPSConnection

    try:
        parts = urlsplit(url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=PROBE_TIMEOUT_SECONDS)
        try:
            connection.request("GET", f"{parts.path or '/'}{parts.query and '?'}{parts.query}")
            return connection.getresponse().status
        finally:
            connection.close()
    except (OSError, ValueError, HTTPException):
        return None


def read_serves(node: Node, base_url: str, readiness: Readiness, may_generate: bool) -> tuple[bool | None, bool]:
    """(whether the server is ready, None if it was not asked for that; whether it answers at all).

    Where the proof makes it generate, it is asked only with C(may_generate), and only once it answers otherwise.
    """
    url = base_url.rstrip("/")
    if not readiness.generates:
        status = node.probe(f"{url}{readiness.path}")
        return status == 200, status is not None
    answers = node.probe(f"{url}{readiness.answers}") in _ANSWERED
    if not answers:
        return False, False
    return (node.probe(f"{url}{readiness.path}") == 200 if may_generate else None), True


def port_of(base_url: str) -> int | None:
    try:
        parts = urlsplit(base_url)
        return parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return None


@dataclass(frozen=True)
class PortOwner:
    """Who listens on a port; C(in_unit) None if that could not be told."""

    in_unit: bool | None = None
    pid: int | None = None
    name: str | None = None
    unit: str | None = None


def _listeners(node: Node, folder: str, port: int) -> frozenset[int]:
    """Inodes of the sockets that listen there."""
    tables = (node.text(f"{folder}/{table}") or "" for table in ("tcp", "tcp6"))
    return frozenset(one.inode for table in tables for one in listening(table, port))


def _holder(node: Node, inodes: frozenset[int], pids: Iterable[int] | None = None) -> int | None:
    return next((int(process.name) for _inode, process in holders_of(node.path("proc"), inodes, pids)), None)


def read_port_owner(node: Node, port: int, pids: Iterable[int], main_pid: int | None) -> PortOwner:
    """Of the unit, by its own processes; else whoever holds the port on the node.

    The main process may have a network of its own, as in a container; then its own listener counts.
    """
    own = tuple(pids)
    inner = _listeners(node, f"proc/{main_pid}/net", port) if main_pid else frozenset()
    there = _listeners(node, "proc/net", port)
    for inodes in (inner, there):
        pid = _holder(node, inodes, own)
        if pid is not None:
            return PortOwner(True, pid, _name(node, pid), _unit(node, pid))
    pid = _holder(node, there)
    if pid is None:
        return PortOwner()
    name = _name(node, pid)
    return PortOwner(None if name in _PORT_HELPERS else False, pid, name, _unit(node, pid))


def _name(node: Node, pid: int) -> str | None:
    return (node.text(f"proc/{pid}/comm") or "").strip() or None


def _unit(node: Node, pid: int) -> str | None:
    return unit_of(node.text(f"proc/{pid}/cgroup") or "")


def with_port_owner(node: Node, event: LogEvent, pids: Iterable[int], main_pid: int | None) -> LogEvent:
    """A line about a port that is in use, and who holds it now."""
    port = event.value("port")
    if event.label != "port_in_use" or not isinstance(port, int):
        return event
    owner = read_port_owner(node, port, pids, main_pid)
    if owner.pid is None:
        return event
    values = {**dict(event.values), "owner_pid": owner.pid, "owner_command": owner.name, "owner_unit": owner.unit}
    return replace(event, values=tuple(sorted(values.items())))
