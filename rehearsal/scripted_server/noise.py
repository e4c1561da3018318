# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lines of other loggers and of talkative code, from a process of their own in the same unit."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.lines import prefix, write

# Lines are written so often in one go: enough for 10,000 a second at little cost.
TICK_SECONDS = 0.05
LONG_BYTES = 60_000
# Its process is nobody's rank.
NOISE_TITLE = "python3 -m vendor.telemetry"


def record(entry: Mapping[str, Any], number: int) -> bytes:
    """The lines that count as one, in the bytes that are written."""
    text = str(entry.get("text", "Decode batch, #running-req: 3, #token: 4711, gen throughput (token/s): 93.1"))
    kind = entry.get("kind", "plain")
    if kind == "json":
        return f'{{"level": "info", "seq": {number}, "msg": "{text}"}}\n'.encode()
    if kind == "bracketed":
        return f"(EngineCore pid={number}) INFO 11-30 04:00:00 [core.py:58] {text}\n".encode()
    if kind == "multi_line":
        frames = "".join(f'  File "worker.py", line {line}, in run\n    step({number})\n' for line in range(3))
        return f"Traceback (most recent call last):\n{frames}UserWarning: {text}\n".encode()
    if kind == "binary":
        return b"\rLoading: %3d%%|\xff\xfe\x80\x1b[31m| %d/100\n" % (number % 100, number)
    if kind == "long":
        return b"x" * int(entry.get("length", LONG_BYTES)) + b"\n"
    return f"{prefix('TP0') if entry.get('rank') else ''}{text} ({number})\n".encode()


def make_noise(entry: Mapping[str, Any]) -> None:
    """Writes at the pace of the entry until its seconds are over."""
    pace = float(entry.get("lines_per_second", 10))
    seconds = entry.get("seconds")
    began = time.monotonic()
    written = 0
    while seconds is None or time.monotonic() - began < float(seconds):
        due = int((time.monotonic() - began) * pace)
        if due > written:
            write(b"".join(record(entry, number) for number in range(written, due)))
            written = due
        time.sleep(TICK_SECONDS)
