# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One look, as the module returns it: see C(watch/observation.py), whose keys it fills."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.effective import is_in_force, read_ledger
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import LogEvent
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.control_group import (
    read_control_group,
    read_cpu_seconds,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.earlier import (
    failures_before,
    last_start,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.journal_log import (
    JournalLog,
    read_kernel,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.long_poll import LongPoll
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.node import Node
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.position import Position, decode
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.pressure import read_host
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.probe import (
    PortOwner,
    port_of,
    read_port_owner,
    with_port_owner,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.ranks import held_bytes
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.request import request_from
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.subject import Seen, read_subject
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.unit import (
    has_ended,
    read_generation,
    read_started_at,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import (
    Activity,
    LogHealth,
)

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# A start of this age of which the journal holds not even systemd's own word is not written to the journal.
SILENT_SECONDS = 5.0
# The kernel may have spoken just before systemd noted the start.
KERNEL_MARGIN_SECONDS = 1.0


def look(node: Node, params: Mapping[str, Any]) -> dict[str, Any]:
    """One result: as soon as there is news, or after the wait."""
    request = request_from(params)
    seen = read_subject(node, request.subject)
    position = decode(request.cursor, request.invocation_id or _present_start(node, seen))
    poll = LongPoll(node, request, seen, position)
    surely = poll.wait()
    known = len(poll.found.events)
    more = poll.log.finish(surely) if poll.log is not None else False
    if isinstance(poll.log, JournalLog) and has_ended(poll.seen.status) and not (more or poll.found.decisive):
        poll.log.take_unattributed(read_started_at(node, poll.seen.status))
    if any(one.kind in ("stage_end", "ready") for one in poll.found.events[known:]):
        # Bytes from before a line that says that all are there must not stand beside it.
        poll.measure()
    if _is_silent(node, poll):
        poll.found.readable = False
    poll.probe(at_the_end=True)
    return _result(node, poll, _position(node, poll, position), more)


def _present_start(node: Node, seen: Seen) -> str | None:
    """The start to read about where none was named; None as long as systemd has yet to make it."""
    status = seen.status
    if status.awaits_start:
        return None
    ended = status.active_state in ("inactive", "failed") and seen.container is None
    return seen.start or (last_start(node, status) if ended else None)


def _position(node: Node, poll: LongPoll, before: Position) -> Position:
    """Where the next look goes on; on the way the kernel's log is read, where no other carried it."""
    log = poll.log
    reached = log.reached(before) if log is not None else before
    kernel = before.kernel
    if poll.reads_log and before.start and not (isinstance(log, JournalLog) and log.with_kernel):
        started_at = read_started_at(node, poll.seen.status)
        since = started_at - KERNEL_MARGIN_SECONDS if started_at is not None else None
        kernel = read_kernel(node, poll.kernel, kernel, since)
    path = poll.log_path if log is not None and poll.log_type == "file" else None
    return replace(reached, kernel=kernel, path=path)


def _is_silent(node: Node, poll: LongPoll) -> bool:
    """Whether the journal holds nothing at all of a start that has run for a while: it is not kept, or not shown."""
    started_at = read_started_at(node, poll.seen.status)
    return (
        isinstance(poll.log, JournalLog)
        and poll.log.cursor is None
        and poll.seen.status.active_state in ("active", "activating")
        and started_at is not None
        and node.wall() - started_at > SILENT_SECONDS
    )


def _earlier(node: Node, poll: LongPoll) -> list[LogEvent]:
    """Of a start that is followed from now on; one that was named was followed before systemd could replace it."""
    if poll.request.invocation_id or not poll.reads_log or poll.awaits_start or poll.seen.container is not None:
        return []
    return failures_before(node, poll.seen.status, poll.request.version)


def _port_owner(node: Node, url: str | None, poll: LongPoll) -> PortOwner:
    port = port_of(url) if url else None
    return read_port_owner(node, port, poll.pids, poll.seen.main_pid) if port else PortOwner()


def _result(node: Node, poll: LongPoll, position: Position, more: bool) -> dict[str, Any]:
    found, status, meter = poll.found, poll.seen.status, poll.request.meter
    of_kernel = poll.kernel.events(
        # Of a unit that has ended systemd tells no group any more; it was one of its name.
        poll.seen.group or f"/{status.name}",
        poll.all_pids,
        (*poll.request.known, *poll.ranks),
        lambda pid: node.path(f"proc/{pid}").exists(),
    )
    events = [*found.events, *of_kernel]
    held = [one.pinned_bytes(meter) for one in poll.ranks if one.alive]
    resident, read = held_bytes(node, poll.pids)
    cpu = read_cpu_seconds(node, poll.seen.group, poll.pids, TICKS_PER_SECOND)
    host = asdict(read_host(node, PAGE_BYTES))
    owner = _port_owner(node, poll.request.ready_url, poll)
    path = poll.request.ledger_path
    ledger = read_ledger(node.text(path) or "") if path else {}
    return {
        "unit": {
            **status.as_dict(),
            # systemd may have forgotten it.
            "invocation_id": status.invocation_id or position.start,
            "started_at": read_started_at(node, status),
            "generation": read_generation(node, status),
        },
        "events": [with_port_owner(node, one, poll.pids, poll.seen.main_pid).as_dict() for one in events],
        "earlier": [one.as_dict() for one in _earlier(node, poll)],
        "cursor": position.encode(),
        "lines": found.lines,
        "more": more,
        "read_at": poll.read_at,
        "monotonic": poll.uptime,
        "boot_id": (node.text("proc/sys/kernel/random/boot_id") or "").strip() or None,
        "ranks": [one.as_dict(meter) for one in poll.ranks],
        "samples": poll.samples(),
        "pinned_bytes": sum(size or 0 for size in held) if any(size is not None for size in held) else None,
        "meter": meter,
        "activity": asdict(Activity(resident, read, cpu)),
        "host": {**host, "numa_nodes": list(host["numa_nodes"])},
        "cgroup": asdict(read_control_group(node, poll.seen.group)),
        "log": asdict(LogHealth(poll.log_type, found.readable, found.suppressed, found.gap)),
        "serves": poll.serves,
        "listener_in_unit": owner.in_unit,
        "port_owner": {"pid": owner.pid, "name": owner.name, "unit": owner.unit} if owner.in_unit is False else None,
        "ledger": ledger,
        "ledger_in_force": is_in_force(status.as_dict(), ledger),
        "tail": found.tail,
        "problems": [problem.as_dict() for problem in found.problems],
    }
