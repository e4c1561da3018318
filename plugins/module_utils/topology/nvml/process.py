# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Asks NVML in a process of its own, because a driver can hang in the kernel or crash whoever loads its library.

The child is asked one call at a time, as lines of JSON over pipes; so the parent knows at any moment which call is
out, and has every answer that came before. It never waits for the child beyond the deadline: not even for its end,
since a process that hangs in the kernel does not die when it is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import math
import os
import resource
import select
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Callable

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.binding import answer, error_text

# A function of NVML and its arguments; gives what nvml_binding.answer gives.
Call = Callable[[str, Sequence[Any]], "dict[str, Any]"]

SONAME = "libnvidia-ml.so.1"
# Two steps that come before the first call, asked for and counted in the same way.
LOAD = "dlopen"
IMPORT = "import"
# Errors beside NVML's own: no answer in time; the process ended; the answer is none; asked after one of these.
NO_ANSWER, CRASHED, GONE = "no_answer", "crashed", "gone"

# NVML takes a few tens of MiB. The limit stops nvidia-ml-py from making lists of billions out of a driver's word.
_MEMORY_LIMIT = 2 << 30
_MAX_LINE = 4 << 20
# How long the end of a process that was told to end is waited for.
_END_SECONDS = 1.0


def _load(library: str | None) -> dict[str, Any]:
    """Load NVML into this process.

    nvidia-ml-py opens the library by its SONAME, and the loader then gives it the one that is loaded already: so a
    library in any place can be used without touching the environment.
    """
    try:
        ctypes.CDLL(library or SONAME, mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        return {"error": "library_not_found", "text": error_text(error)}
    return {"value": True}


def _import() -> tuple[Any, dict[str, Any]]:
    try:
        import pynvml
    # Whatever a broken installation raises while it is imported: it is none.
    except Exception as error:
        return None, {"error": "binding_missing", "text": error_text(error)}
    return pynvml, {"value": True}


def _serve(requests: int, answers: int) -> None:
    """Answer until nobody asks any more."""
    binding: Any = None
    handles: list[Any] = []
    with open(requests, encoding="utf-8") as asked, open(answers, "w", encoding="utf-8") as told:
        for line in asked:
            name, arguments = json.loads(line)
            if name == LOAD:
                reply = _load(*arguments)
            elif name == IMPORT:
                binding, reply = _import()
            else:
                reply = answer(binding, handles, name, arguments)
            told.write(json.dumps(reply, allow_nan=False) + "\n")
            told.flush()


def _open_files() -> Sequence[int]:
    try:
        return [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]
    # Without /proc: as many as there can be without somebody having raised the number on purpose.
    except OSError:
        return range(256)


def _let_go(requests: int, answers: int, seconds: float) -> tuple[int, int]:
    """Let go of all that the parent has but the pipes, so that a child which cannot be killed keeps nobody waiting:
    above all of its output, whose end ssh and Ansible wait for. Gives the pipes' new places."""
    os.setsid()
    # Where the parent has closed standard files of its own, the pipes may lie in their places.
    requests, answers = (fcntl.fcntl(end, fcntl.F_DUPFD, 3) for end in (requests, answers))
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    for number in _open_files():
        if number > 2 and number not in (requests, answers):
            with contextlib.suppress(OSError):
                os.close(number)
    # A parent that was killed cannot end the child.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(math.ceil(seconds) + 1)
    for limit, value in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_DATA, _MEMORY_LIMIT)):
        hard = resource.getrlimit(limit)[1]
        if hard == resource.RLIM_INFINITY or hard > value:
            resource.setrlimit(limit, (value, hard))
    return requests, answers


def _read_line(source: int, pending: bytearray, deadline: float) -> bytes | None:
    """The next line; b"" at the end of the file, None where it did not come in time."""
    poll = select.poll()
    poll.register(source, select.POLLIN)
    while b"\n" not in pending:
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(math.ceil(left * 1000)):
            return None
        part = os.read(source, 1 << 16)
        if not part or len(pending) > _MAX_LINE:
            return b""
        pending += part
    line, _newline, rest = bytes(pending).partition(b"\n")
    pending[:] = rest
    return line


def _ended(child: int) -> int | None:
    """How the child ended, as waitpid(2) has it; None where it has not, which is not waited for long."""
    until = time.monotonic() + _END_SECONDS
    pause = 0.001
    while True:
        try:
            pid, status = os.waitpid(child, os.WNOHANG)
        except ChildProcessError:
            return None
        if pid:
            return status
        if time.monotonic() > until:
            return None
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def _kill(child: int) -> int | None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    return _ended(child)


def _how(status: int | None) -> str:
    if status is None:
        return "stopped answering"
    if os.WIFSIGNALED(status):
        try:
            return f"was ended by {signal.Signals(os.WTERMSIG(status)).name}"
        except ValueError:
            return f"was ended by signal {os.WTERMSIG(status)}"
    return f"ended with status {os.WEXITSTATUS(status)}"


@contextlib.contextmanager
def nvml_process(seconds: float) -> Iterator[Call]:
    """A child to ask for C(seconds) in all. What is asked after it hung or crashed is answered with C(gone)."""
    asked, requests = os.pipe()
    answers, told = os.pipe()
    try:
        child = os.fork()
    except OSError as error:
        for end in (asked, requests, answers, told):
            os.close(end)
        text = f"No process could be made to ask NVML: {error_text(error)}"
        yield lambda _name, _arguments: {"error": CRASHED, "text": text}
        return
    if child == 0:
        try:
            os.close(requests)
            os.close(answers)
            _serve(*_let_go(asked, told, seconds))
        finally:
            # Past everything that the parent has set up to happen at its own end.
            os._exit(0)
    os.close(asked)
    os.close(told)
    deadline = time.monotonic() + seconds
    pending = bytearray()
    alive = True

    def call(name: str, arguments: Sequence[Any]) -> dict[str, Any]:
        nonlocal alive
        if not alive:
            return {"error": GONE}
        try:
            os.write(requests, (json.dumps([name, list(arguments)]) + "\n").encode())
            line = _read_line(answers, pending, deadline)
        except BrokenPipeError:
            line = b""
        if line is None:
            alive = False
            _kill(child)
            return {"error": NO_ANSWER, "text": f"NVML gave no answer within {seconds:g} seconds"}
        try:
            reply = json.loads(line)
        except (ValueError, RecursionError):
            reply = None
        if isinstance(reply, dict):
            return reply
        alive = False
        if line:
            _kill(child)
            return {"error": CRASHED, "text": "The process that asked NVML came back with no sense"}
        # The end of the file comes a moment before the end of the process.
        return {"error": CRASHED, "text": f"The process that asked NVML {_how(_ended(child))}"}

    try:
        yield call
    finally:
        # It ends when nobody can ask any more.
        os.close(requests)
        if alive and _ended(child) is None:
            _kill(child)
        os.close(answers)


def in_process(binding: Any) -> Call:
    """The same without a process of its own, where C(binding) is known to be harmless."""
    handles: list[Any] = []

    def call(name: str, arguments: Sequence[Any]) -> dict[str, Any]:
        return answer(binding, handles, name, arguments)

    return call
