# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node in a folder: /proc and /sys as files, a journal in a list, and a clock that only waiting moves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.look import look
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.node import Node

UNIT = "sglang-main.service"
GROUP = "/system.slice/sglang-main.service"
INVOCATION = "5f1c0a6a"
SHOW = f"""Id={UNIT}
LoadState=loaded
ActiveState=active
SubState=running
Result=success
InvocationID={INVOCATION}
MainPID=100
NRestarts=0
ExecMainCode=0
ExecMainStatus=0
ExecMainStartTimestampMonotonic=1000000
ControlGroup={GROUP}
NeedDaemonReload=no
"""
PIN = "[2026-11-29 14:20:16 TP1] Allocating kv hierarchical KV host pool: 1600001 tokens, 0.41 GB host memory."
READY = "[2026-11-29 14:20:47] The server is fired up and ready to roll!"
# The clock of the node, and what it showed when the unit was started, one second after the boot.
WALL = 1_795_962_000.0
UPTIME = 101.0
STARTED_AT = WALL - 100.0
BOOT = "0f" * 16


def record(number: int, message: Any, **fields: str) -> str:
    known = {
        "__CURSOR": f"s=1;i={number:x};b={BOOT};m={number:x};t={number:x};x={number:x}",
        "__REALTIME_TIMESTAMP": str(1_795_962_016_000_000 + number),
        "_PID": "202",
        "_TRANSPORT": "stdout",
        "_SYSTEMD_INVOCATION_ID": INVOCATION,
    }
    return json.dumps({**known, "MESSAGE": message, **fields})


class FakeLines:
    """journalctl on the records of a C(FakeNode), as far as its command line matters here."""

    def __init__(self, node: FakeNode, command: list[str]) -> None:
        self.ended = False
        self._node = node
        self._follow = "--follow" in command
        self._next = 0
        self._code = node.journal_code
        cursor = next((word.split("=", 1)[1] for word in command if word.startswith("--cursor=")), None)
        if cursor is not None:
            # By sequence number, like sd_journal_seek_cursor: the next one there is where its own is gone.
            number = int(cursor.split(";i=")[1].split(";")[0], 16)
            numbers = [int(json.loads(line)["__CURSOR"].split(";i=")[1].split(";")[0], 16) for line in node.journal]
            self._next = next((place for place, one in enumerate(numbers) if one >= number), len(numbers))
        groups: list[set[str]] = [set()]
        for word in command[1:]:
            if word == "+":
                groups.append(set())
            elif not word.startswith("--"):
                groups[-1].add(word)
        self._groups = groups

    def _matches(self, line: str) -> bool:
        fields = {f"{name}={value}" for name, value in json.loads(line).items() if isinstance(value, str)}
        return any(group <= fields for group in self._groups)

    def read(self, seconds: float) -> list[bytes]:
        if self._code:
            self.ended = True
            return []
        there = self._node.journal[self._next :]
        self._next += len(there)
        lines = [line.encode() for line in there if self._matches(line)]
        if lines:
            return lines
        if self._follow and not self._node.journalctl_dies:
            self._node.wait(seconds)
        else:
            self.ended = True
        return []

    def close(self) -> tuple[int, str]:
        return self._code, "No journal files were opened due to insufficient permissions." if self._code else ""


class FakeNode:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.shows = [SHOW]
        self.jobs: dict[int, str] = {}
        self.asked = 0
        self.journal: list[str] = []
        self.streams: list[list[str]] = []
        self.journal_code = 0
        self.journalctl_dies = False
        self.answers: dict[str, int] = {}
        self.asked_urls: list[str] = []
        self.inspected: list[tuple[int, str]] = []
        self.born = "-"
        self.at = 0.0
        self.on_wait: Callable[[], None] = lambda: None
        self.said = 0
        self.write("proc/meminfo", "MemTotal:       20470312 kB\nMemAvailable:   18500000 kB\n")
        self.write("proc/100/comm", "python3\n")
        self.write(f"sys/fs/cgroup{GROUP}/cgroup.procs", "100\n")

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())

    def process(
        self, pid: int, title: str, shmem: int = 0, state: str = "S", status: int = 0, started: int = 22
    ) -> None:
        fields = [str(number) for number in range(4, 51)]
        fields[18] = str(started)
        self.write(f"proc/{pid}/stat", f"{pid} (sglang::schedul) {state} {' '.join(fields)} 51 {status}\n")
        self.write(f"proc/{pid}/cmdline", title + "\0" * 9)
        self.write(f"proc/{pid}/status", f"VmRSS:\t{shmem + 700} kB\nRssAnon:\t700 kB\nRssShmem:\t{shmem} kB\n")
        self.write(f"proc/{pid}/io", "rchar: 4096\n")

    def ranks(self, first: int = 0, second: int = 0) -> None:
        self.process(201, "sglang::scheduler_TP0", first)
        self.process(202, "sglang::scheduler_TP1", second)
        self.process(203, "sglang::detokenizer", 5)
        self.write(f"sys/fs/cgroup{GROUP}/cgroup.procs", "100\n201\n202\n203\n")

    def vanish(self, pid: int) -> None:
        for path in (self.root / f"proc/{pid}").iterdir():
            path.unlink()
        (self.root / f"proc/{pid}").rmdir()
        procs = self.root / f"sys/fs/cgroup{GROUP}/cgroup.procs"
        procs.write_text(procs.read_text().replace(f"{pid}\n", ""))

    def say(self, *messages: Any, **fields: str) -> None:
        for message in messages:
            self.journal.append(record(self.said, message, **fields))
            self.said += 1

    def kernel(self, message: str) -> None:
        self.say(message, _TRANSPORT="kernel", _PID="", _SYSTEMD_INVOCATION_ID="")

    def run(self, command: list[str]) -> tuple[int, str, str]:
        if command[:2] == ["systemctl", "list-jobs"]:
            return 0, "".join(f"{number} {UNIT} {kind} running\n" for number, kind in self.jobs.items()), ""
        if command[0] == "systemctl":
            self.asked += 1
            return 0, self.shows[0] if len(self.shows) == 1 else self.shows.pop(0), ""
        if command[0] == "journalctl":
            spoken = [line for line in self.journal if f'"UNIT": "{UNIT}"' in line and '"_PID": "1"' in line]
            return self.journal_code, "\n".join(reversed(spoken)), ""
        if command[0] == "stat":
            return 0, f"{self.born}\n", ""
        assert command[1:3] == ["container", "inspect"]
        self.asked += 1
        code, output = self.inspected[0] if len(self.inspected) == 1 else self.inspected.pop(0)
        return code, output, "" if code == 0 else "Error: no such container x"

    def stream(self, command: list[str]) -> FakeLines:
        assert command[0] == "journalctl"
        self.streams.append(command)
        return FakeLines(self, command)

    def probe(self, url: str) -> int | None:
        self.asked_urls.append(url)
        return self.answers.get(url)

    def wait(self, seconds: float) -> None:
        self.at += seconds
        self.on_wait()

    @property
    def part(self) -> Node:
        return Node(
            run=self.run,
            stream=self.stream,
            probe=self.probe,
            root=self.root,
            clock=lambda: self.at,
            wall=lambda: WALL + self.at,
            sleep=self.wait,
            uptime=lambda: UPTIME + self.at,
        )

    def look(self, **params: Any) -> dict[str, Any]:
        defaults: dict[str, Any] = {
            "unit": UNIT,
            "invocation_id": None,
            "cursor": None,
            "log": None,
            "sglang_version": "0.5.23",
            "meter": None,
            "known_ranks": [],
            "ready_url": None,
            "wait_seconds": 0,
            "max_lines": 20,
        }
        return look(self.part, {**defaults, **params})
