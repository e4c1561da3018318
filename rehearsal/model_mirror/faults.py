# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a mirror of models does wrong, and what it remembers of who asked."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from typing import Any


@dataclass
class Fault:
    """What happens to answers about files that C(path), a pattern, names; C(times) of them, all where that is None.

    C(cut_after): the connection ends after so many bytes of an answer. C(stall_after): nothing more comes after so
    many. C(corrupt_at): the byte at that place of the file comes with C(corrupt_by) added (0 for one that differs each
    time). C(status) is answered instead, with C(retry_after). C(etag) stands in for the true one, C(no_range) ignores
    ranges, C(truncate) serves so many bytes and says so, C(bytes_per_second) is the speed of each answer. C(method)
    limits it to GET or HEAD.
    """

    path: str = "*"
    times: int | None = None
    cut_after: int | None = None
    stall_after: int | None = None
    corrupt_at: int | None = None
    corrupt_by: int = 1
    status: int | None = None
    retry_after: int | None = None
    etag: str | None = None
    no_range: bool = False
    truncate: int | None = None
    bytes_per_second: int | None = None
    method: str = "*"


def fault_from_dict(data: Mapping[str, Any]) -> Fault:
    known = {one.name for one in fields(Fault)}
    unknown = sorted(set(data) - known)
    if unknown:
        raise ValueError(f"a fault has no {unknown[0]}")
    return Fault(**data)


@dataclass(frozen=True)
class Asked:
    """One answer: what was asked for, from which byte on, by whom, and how many bytes of the file were sent."""

    method: str
    path: str
    status: int
    first: int
    sent_bytes: int
    client: str
    authorized: bool

    def as_dict(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}


@dataclass
class Memory:
    """What a mirror shares between its threads.

    C(bytes_per_second): of every answer, those that are on their way as well, until it is set to None again.
    """

    faults: list[Fault] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    changed: threading.Condition = field(init=False)
    sending: int = 0
    most_sending: int = 0
    sent_bytes: int = 0
    bytes_per_second: int | None = None
    # Counted as they go, so that an answer that never ends counts as well.
    sent_of: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.changed = threading.Condition(self.lock)

    def fault_of(self, method: str, path: str) -> Fault:
        """All faults that hold for this answer in one; each of them is used up by one."""
        total = Fault()
        plain = Fault()
        with self.lock:
            for fault in self.faults:
                if fault.times == 0 or fault.method not in ("*", method) or not fnmatchcase(path, fault.path):
                    continue
                if fault.times is not None:
                    fault.times -= 1
                for one in fields(Fault):
                    value = getattr(fault, one.name)
                    if one.name not in ("path", "times", "method") and value != getattr(plain, one.name):
                        setattr(total, one.name, value)
        return total

    def note(self, asked: Asked) -> None:
        with self.changed:
            self.asked.append(asked)
            self.changed.notify_all()

    def count(self, path: str, size_bytes: int) -> None:
        with self.changed:
            self.sent_bytes += size_bytes
            self.sent_of[path] = self.sent_of.get(path, 0) + size_bytes
            self.changed.notify_all()

    def busy(self, by: int) -> None:
        with self.lock:
            self.sending += by
            self.most_sending = max(self.most_sending, self.sending)

    def await_sent(self, size_bytes: int, seconds: float) -> bool:
        """Whether so many bytes of files were sent before the time was over."""
        with self.changed:
            return self.changed.wait_for(lambda: self.sent_bytes >= size_bytes, seconds)

    def forget(self) -> None:
        with self.lock:
            self.asked.clear()
            self.faults.clear()
            self.sent_of.clear()
            self.sent_bytes = self.most_sending = 0
            self.bytes_per_second = None
