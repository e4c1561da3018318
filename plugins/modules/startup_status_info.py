#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: startup_status_info
version_added: 0.1.0
short_description: Look once at the start of an SGLang instance
description:
  - Reads the state of the systemd unit, the memory that each rank holds, and what the journal says of one invocation
    since a cursor, as events.
  - It measures and judges nothing; M(gpufleet.sglang.wait_for_startup) does. It takes one C(systemctl show) and one
    C(journalctl) for each look.
  - A unit that systemd does not know is reported as V(not-found) in RV(unit.load_state) and is no failure.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    platforms: linux
options:
  unit:
    description: The systemd unit.
    type: str
    required: true
  invocation_id:
    description:
      - The start to read about. The present one if not given.
      - Lines of any other start are never returned.
    type: str
  cursor:
    description: Position in the journal after which to read, from RV(cursor) of an earlier call.
    type: str
  sglang_version:
    description: Release whose log lines are to be understood.
    type: str
    required: true
  meter:
    description:
      - Where pinned memory shows. V(shmem) from SGLang 0.5.13 on, V(anon) from 0.5.5 on, V(available) before.
      - V(hugetlb) where the pools lie in reserved huge pages.
      - The release decides if it is not given.
    type: str
    choices: [shmem, anon, hugetlb, available]
  known_ranks:
    description:
      - RV(ranks) of an earlier call. A rank in it whose process is gone is returned as not alive, with its exit code
        where it can still be read.
    type: list
    elements: dict
    default: []
  ready_url:
    description: Base URL of the server on the node. If given, its health endpoint is asked in RV(serves).
    type: str
  wait_seconds:
    description:
      - Waits up to so many seconds for a new event, a change of the unit or of the set of ranks, and returns at once
        when there is one.
      - At most 10.
    type: float
    default: 0
  max_lines:
    description: How many last lines to return in RV(tail). With 0 the journal is not read at all.
    type: int
    default: 20
  ledger_path:
    description: File in which the last proven start is recorded, to return in RV(ledger). It may be missing.
    type: path
seealso:
  - module: gpufleet.sglang.wait_for_startup
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: See how far the start of the instance has come
  gpufleet.sglang.startup_status_info:
    unit: sglang-main.service
    sglang_version: 0.5.23
  register: look
"""

RETURN = r"""
unit:
  description: State of the unit.
  returned: always
  type: dict
  contains:
    name:
      description: Name of the unit.
      type: str
    load_state:
      description: V(loaded), V(not-found) or another state of systemd.
      type: str
    active_state:
      description: V(active), V(activating), V(failed) or another state of systemd.
      type: str
    sub_state:
      description: For example V(running) or V(auto-restart).
      type: str
    result:
      description: How the last run ended, V(success) while it runs.
      type: str
    invocation_id:
      description: Identity of the present or last start; null if there was none.
      type: str
    main_pid:
      description: Its main process, null if none runs.
      type: int
    n_restarts:
      description: How often systemd restarted it by itself.
      type: int
    exec_main_code:
      description: V(exited), V(killed) or V(dumped); null while it runs.
      type: str
    exec_main_status:
      description: Exit status or number of the signal; null while it runs.
      type: int
    exec_main_start_monotonic:
      description: When its main process was started, in microseconds since the boot.
      type: int
    active_enter_monotonic:
      description: When it became active, in microseconds since the boot.
      type: int
    inactive_enter_monotonic:
      description: When it last became inactive, in microseconds since the boot.
      type: int
    control_group:
      description: Its control group.
      type: str
    need_daemon_reload:
      description: Whether its file on disk is newer than what systemd read.
      type: bool
    started_at:
      description: When its main process was started, in UNIX seconds.
      type: float
    generation:
      description: Value of C(GPUFLEET_GENERATION) in its environment, null if it has none or cannot be read.
      type: str
events:
  description: Lines that mean something for a start, oldest first.
  returned: always
  type: list
  elements: dict
  sample:
    - kind: stage_begin
      stage: host_pool
      rank: TP1
      label: kv
      bytes: 540000000
      tokens: 262145
      seconds: null
      values: {}
      text: "Allocating kv hierarchical KV host pool: 262145 tokens, 0.54 GB host memory."
      timestamp: 1795971231.3151
      pid: 1273
cursor:
  description: Position in the journal up to which was read, null if nothing was.
  returned: always
  type: str
lines:
  description: How many lines were read, the server's access log left out.
  returned: always
  type: int
more:
  description: Whether reading stopped before the end of the journal; the next call with RV(cursor) goes on.
  returned: always
  type: bool
ranks:
  description: The schedulers of the instance.
  returned: always
  type: list
  elements: dict
  contains:
    rank:
      description: Name of the rank as SGLang prints it, V(TP0) where there is only one.
      type: str
      sample: TP0
    pid:
      description: Its process.
      type: int
      sample: 1272
    alive:
      description: Whether the process runs.
      type: bool
    state:
      description: State of the process as in C(/proc/PID/stat), null if it is gone.
      type: str
      sample: R
    start_ticks:
      description: When it was started, in clock ticks since the boot; tells it from another process of that number.
      type: int
    pinned_bytes:
      description: What it holds by the meter, with what lay there before it began to pin.
      type: int
      sample: 92770304
    shmem_bytes:
      description: Shared memory that it holds.
      type: int
    anon_bytes:
      description: Private memory that it holds.
      type: int
    hugetlb_bytes:
      description: Memory in reserved huge pages that it holds.
      type: int
    resident_bytes:
      description: All memory that it holds.
      type: int
    exit_code:
      description: Exit status of a dead rank, negative for a signal; null if it cannot be read any more.
      type: int
      sample: -9
read_at:
  description: When the ranks were read, in UNIX seconds.
  returned: always
  type: float
pinned_bytes:
  description: Sum of what the ranks hold by the meter, null where the meter does not tell it by process.
  returned: always
  type: int
meter:
  description: The meter that was used.
  returned: always
  type: str
activity:
  description: Memory held (C(resident_bytes)) and bytes read (C(read_bytes)) by all processes of the unit together.
  returned: always
  type: dict
host:
  description: C(memory_available_bytes) of the node.
  returned: always
  type: dict
serves:
  description: Whether the server answered that it is healthy; null if it was not asked.
  returned: always
  type: bool
ledger:
  description: The record of the last proven start, empty where there is none that can be read.
  returned: always
  type: dict
  sample: {}
ledger_in_force:
  description: Whether the start that RV(ledger) records is the one that runs.
  returned: always
  type: bool
  sample: false
tail:
  description: Last lines that were read, without secrets.
  returned: always
  type: list
  elements: str
problems:
  description: What could not be measured, and why.
  returned: always
  type: list
  elements: dict
"""

import functools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url

from ansible_collections.gpufleet.sglang.plugins.module_utils.effective import is_in_force, read_ledger
from ansible_collections.gpufleet.sglang.plugins.module_utils.journal import (
    Record,
    cursor_time,
    is_access_log,
    journalctl_command,
    parse_record,
    without_secrets,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import (
    METERS,
    RankReading,
    cgroup_procs_paths,
    environment_value,
    exit_code,
    parse_cgroup_procs,
    parse_io,
    parse_meminfo,
    parse_stat,
    parse_status,
    reading_from_dict,
    title_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import meter_of, parse_version
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.log_lines import (
    LogEvent,
    parse_line,
    rank_from_title,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.streaming import stream_command
from ansible_collections.gpufleet.sglang.plugins.module_utils.systemd import UnitStatus, parse_show, show_command

GENERATION = "GPUFLEET_GENERATION"
LONGEST_WAIT_SECONDS = 10.0
PAUSE_SECONDS = 0.5
# A server that has run for days has written an access log; one call never reads more than this.
MOST_RECORDS = 20000
LONGEST_LINE = 2000
PROBE_TIMEOUT_SECONDS = 3.0


@dataclass(frozen=True)
class Node:
    """The node as this module touches it; a test gives it other parts."""

    run: Callable[[list[str]], tuple[int, str, str]]
    stream: Callable[[list[str], Callable[[str], bool]], tuple[int, str]]
    probe: Callable[[str], bool]
    root: Path = Path("/")
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep

    def text(self, path: str) -> str | None:
        data = self.data(path)
        return None if data is None else data.decode("utf-8", "replace")

    def data(self, path: str) -> bytes | None:
        """None for whatever cannot be read: processes vanish between two lines of this module."""
        try:
            return (self.root / path).read_bytes()
        except OSError:
            return None


@dataclass(frozen=True)
class JournalPart:
    """What one reading of the journal gave."""

    events: tuple[LogEvent, ...] = ()
    cursor: str | None = None
    lines: int = 0
    more: bool = False
    tail: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def probe_health(base_url: str) -> bool:
    try:
        with open_url(f"{base_url.rstrip('/')}/health", timeout=PROBE_TIMEOUT_SECONDS, use_proxy=False) as answer:
            return int(answer.status) == 200
    except Exception:  # refused, reset, 503, timed out, no HTTP: in every case it does not serve
        return False


def read_unit(node: Node, unit: str) -> UnitStatus:
    code, output, errors = node.run(show_command(unit))
    if code != 0:
        raise Refusal(
            "systemctl_failed",
            f"`systemctl show {unit}` failed: {errors.strip() or output.strip() or code}.",
            "The node has to run systemd.",
            {"returncode": code},
        )
    return parse_show(output, unit)


def read_generation(node: Node, unit: UnitStatus) -> str | None:
    data = node.data(f"proc/{unit.main_pid}/environ") if unit.main_pid else None
    return environment_value(data, GENERATION) if data else None


def read_started_at(node: Node, unit: UnitStatus) -> float | None:
    if unit.exec_main_start_monotonic is None:
        return None
    uptime = time.clock_gettime(time.CLOCK_MONOTONIC)
    return node.wall() - (uptime - unit.exec_main_start_monotonic / 1e6)


def _reading(node: Node, pid: int, label: str | None) -> RankReading | None:
    """A scheduler's reading; None if the process is none or is gone."""
    stat = parse_stat(node.text(f"proc/{pid}/stat") or "")
    if stat is None:
        return None
    rank = label or rank_from_title(title_of(node.data(f"proc/{pid}/cmdline") or b""))
    if rank is None:
        return None
    alive = stat.state not in ("Z", "X", "x")
    status = parse_status(node.text(f"proc/{pid}/status") or "") if alive else {}
    return RankReading(
        rank=rank,
        pid=pid,
        alive=alive,
        start_ticks=stat.start_ticks,
        state=stat.state,
        shmem_bytes=status.get("RssShmem"),
        anon_bytes=status.get("RssAnon"),
        hugetlb_bytes=status.get("HugetlbPages"),
        resident_bytes=status.get("VmRSS"),
        exit_code=exit_code(stat.exit_status) if stat.exit_status is not None else None,
    )


def read_pids(node: Node, unit: UnitStatus) -> list[int]:
    """The living processes of the unit's control group."""
    for path in cgroup_procs_paths(unit.control_group) if unit.control_group else []:
        text = node.text(path)
        if text is not None:
            return parse_cgroup_procs(text)
    return []


def read_activity(node: Node, pids: Iterable[int]) -> dict[str, int]:
    """Memory held and bytes read by all processes together: signs of life before there is any rank."""
    resident = read = 0
    for pid in pids:
        resident += parse_status(node.text(f"proc/{pid}/status") or "").get("VmRSS", 0)
        read += parse_io(node.text(f"proc/{pid}/io") or "") or 0
    return {"resident_bytes": resident, "read_bytes": read}


def read_ranks(node: Node, pids: Iterable[int], known: Iterable[RankReading]) -> list[RankReading]:
    """The ranks among the processes, and the known ones that are no longer there."""
    found = {one.pid: one for one in (_reading(node, pid, None) for pid in pids) if one is not None}
    for before in known:
        if before.pid in found and found[before.pid].start_ticks == before.start_ticks:
            continue
        # A dead rank stays a zombie, which tells its exit code, until the main process looks after it.
        now = _reading(node, before.pid, before.rank)
        if now is None or now.start_ticks != before.start_ticks:
            now = RankReading(before.rank, before.pid, False, before.start_ticks, exit_code=before.exit_code)
        if now.rank not in {one.rank for one in found.values()}:
            found[before.pid] = now
    return sorted(found.values(), key=lambda one: one.pid)


def read_journal(node: Node, invocation_id: str | None, cursor: str | None, version: str, most: int) -> JournalPart:
    """Lines of one invocation after the cursor, up to the line that says that the server is ready."""
    if not invocation_id or most <= 0:
        return JournalPart(cursor=cursor)
    records: list[Record] = []
    events: list[LogEvent] = []
    stop = {"more": False}

    def take(line: str) -> bool:
        record = parse_record(line)
        if record is None:
            return True
        records.append(record)
        event = parse_line(record.message, version)
        if event is not None:
            text = without_secrets(event.text)[:LONGEST_LINE]
            events.append(replace(event, text=text, timestamp=record.timestamp, pid=record.pid))
        stop["more"] = len(records) >= MOST_RECORDS or (event is not None and event.kind == "ready")
        return not stop["more"]

    code, errors = node.stream(journalctl_command(invocation_id, cursor), take)
    since = cursor_time(cursor) if cursor else None
    if code != 0 and not records and since is not None:
        # The cursor's file was rotated away; its time is in it, and what it had read is no longer there.
        code, errors = node.stream(journalctl_command(invocation_id, since=since + 1e-6), take)
    problems: tuple[Problem, ...] = ()
    if code != 0:
        problems = (
            Problem(
                "journal_unreadable",
                "warning",
                f"journalctl failed: {errors.strip() or code}.",
                "Run as root or as a member of systemd-journal; without it only bytes and readiness can be watched.",
            ),
        )
    told = [record for record in records if not is_access_log(record.message)]
    tail = [
        without_secrets(line)[:LONGEST_LINE]
        for record in told[-most:]
        for line in (record.message.splitlines() or [""])
        if "server_args=" not in line
    ]
    cursors = [record.cursor for record in records if record.cursor]
    return JournalPart(
        events=tuple(events),
        cursor=cursors[-1] if cursors else cursor,
        lines=len(told),
        more=stop["more"],
        tail=tuple(tail[-most:]),
        problems=problems,
    )


def _shape(unit: UnitStatus, ranks: Iterable[RankReading]) -> tuple[Any, ...]:
    """What counts as news apart from events."""
    return (
        unit.active_state,
        unit.sub_state,
        unit.invocation_id,
        unit.main_pid,
        unit.n_restarts,
        frozenset((one.pid, one.alive) for one in ranks),
    )


def look(node: Node, params: dict[str, Any]) -> dict[str, Any]:
    """One result: as soon as there is news, or after the wait."""
    version = str(parse_version(params["sglang_version"]))
    meter = params["meter"] or meter_of(version)
    wait = params["wait_seconds"]
    if not 0 <= wait <= LONGEST_WAIT_SECONDS:
        raise Refusal(
            "wait_too_long",
            f"wait_seconds is {wait:g}.",
            f"Expected 0 to {LONGEST_WAIT_SECONDS:g}; call again for more.",
            {"wait_seconds": wait},
        )
    known = tuple(reading_from_dict(one) for one in params["known_ranks"])
    living = {one.pid for one in known if one.alive}
    deadline = node.clock() + wait
    before: tuple[Any, ...] | None = None
    while True:
        unit = read_unit(node, params["unit"])
        read_at = node.wall()
        pids = read_pids(node, unit)
        ranks = read_ranks(node, pids, known)
        available = parse_meminfo(node.text("proc/meminfo") or "").get("MemAvailable")
        invocation_id = params["invocation_id"] or unit.invocation_id
        part = read_journal(node, invocation_id, params["cursor"], version, params["max_lines"])
        shape = _shape(unit, ranks)
        lost = any(not one.alive and one.pid in living for one in ranks)
        ended = unit.active_state in ("failed", "inactive") or unit.sub_state == "auto-restart"
        news = bool(part.events) or part.more or lost or ended or (before is not None and shape != before)
        if news or node.clock() >= deadline:
            break
        before = before or shape
        node.sleep(min(PAUSE_SECONDS, max(0.0, deadline - node.clock())))
    held = [one.pinned_bytes(meter) for one in ranks if one.alive]
    path = params.get("ledger_path")
    ledger = read_ledger(node.text(path.lstrip("/")) or "") if path else {}
    return {
        "unit": {
            **unit.as_dict(),
            "started_at": read_started_at(node, unit),
            "generation": read_generation(node, unit),
        },
        "events": [event.as_dict() for event in part.events],
        "cursor": part.cursor,
        "lines": part.lines,
        "more": part.more,
        "read_at": read_at,
        "ranks": [one.as_dict(meter) for one in ranks],
        "pinned_bytes": sum(size or 0 for size in held) if any(size is not None for size in held) else None,
        "meter": meter,
        "activity": read_activity(node, pids),
        "host": {"memory_available_bytes": available},
        "serves": node.probe(params["ready_url"]) if params["ready_url"] else None,
        "ledger": ledger,
        "ledger_in_force": is_in_force(unit.as_dict(), ledger),
        "tail": list(part.tail),
        "problems": [problem.as_dict() for problem in part.problems],
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "unit": {"type": "str", "required": True},
            "invocation_id": {"type": "str"},
            "cursor": {"type": "str"},
            "sglang_version": {"type": "str", "required": True},
            "meter": {"type": "str", "choices": list(METERS)},
            "known_ranks": {"type": "list", "elements": "dict", "default": []},
            "ready_url": {"type": "str"},
            "wait_seconds": {"type": "float", "default": 0},
            "max_lines": {"type": "int", "default": 20},
            "ledger_path": {"type": "path"},
        },
        supports_check_mode=True,
    )
    node = Node(
        run=module.run_command, stream=functools.partial(stream_command, module.run_command), probe=probe_health
    )
    try:
        result = look(node, module.params)
    except Refusal as refusal:
        module.fail_json(msg=str(refusal), failure=refusal.as_dict())
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
