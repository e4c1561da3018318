# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tries what a server is going to need, where it is going to run: as the user and in the sandbox of its unit.

Run by the module sandbox_check, in a unit that is the server's own but for what it starts. Its one argument is a file
that holds what is needed, as JSON; it prints what was granted, as one line of JSON. Nothing but the standard library.
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import pwd
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

PAGE = mmap.PAGESIZE
# Longest time for numactl to do nothing, in seconds.
PATIENCE = 30


def attempt(what: str, subject: str, action: Callable[[], object]) -> dict[str, Any]:
    """C(what) is a kind that the module knows, C(subject) the case at hand."""
    try:
        action()
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, "")
        return {"what": what, "subject": subject, "granted": False, "error": name, "text": error.strerror or str(error)}
    except subprocess.SubprocessError as error:
        return {"what": what, "subject": subject, "granted": False, "error": "", "text": str(error)}
    return {"what": what, "subject": subject, "granted": True, "error": "", "text": ""}


def same_user(name: str) -> None:
    uid = pwd.getpwnam(name).pw_uid
    if os.geteuid() != uid:
        raise PermissionError(errno.EPERM, f"runs as user {os.geteuid()} and not as {uid}")


def read(path: str) -> None:
    with Path(path).open("rb") as file:
        file.read(1)


def write(folder: str) -> None:
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"x" * PAGE)
        file.flush()


def folders(variable: str) -> list[str]:
    """Those that systemd has made for the unit, which it names in this variable."""
    return [path for path in os.environ.get(variable, "").split(":") if path]


def credential(path: Path) -> None:
    if not path.read_bytes().strip():
        raise OSError(errno.ENODATA, "it is empty")


def lock(size_bytes: int) -> None:
    """As a server pins its pool where no driver does it, and as RDMA registers one."""
    libc = ctypes.CDLL(None, use_errno=True)
    with mmap.mmap(-1, size_bytes) as area:
        start = ctypes.addressof(ctypes.c_char.from_buffer(area))
        status = libc.mlock(ctypes.c_void_p(start), ctypes.c_size_t(size_bytes))
        code = ctypes.get_errno()
        if status == 0:
            libc.munlock(ctypes.c_void_p(start), ctypes.c_size_t(size_bytes))
    if status != 0:
        limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
        said = "no limit" if limit == resource.RLIM_INFINITY else f"a limit of {limit} bytes"
        raise OSError(code, f"{os.strerror(code)}; the unit has {said}")


def bind_to(node: int) -> None:
    numactl = shutil.which("numactl")
    if numactl is None:
        # Without it SGLang binds nothing, which the plan knows.
        return
    command = [numactl, f"--cpunodebind={node}", f"--membind={node}", "--", sys.executable, "-I", "-S", "-c", ""]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode:
        # Behind the reason it explains its usage.
        reason = done.stderr.strip().partition("\n")[0]
        raise OSError(errno.EPERM, reason or f"numactl ended with {done.returncode}")


def open_device(path: str) -> None:
    os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))


def bind_address(address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.bind((address, 0))
        listener.listen(1)


def write_and_execute() -> None:
    mmap.mmap(-1, PAGE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()


def attempts(needs: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield attempt("user", needs["user"], partial(same_user, needs["user"]))
    for path in needs["readable"]:
        yield attempt("read", path, partial(read, path))
    for folder in [*needs["writable"], *folders("CACHE_DIRECTORY")]:
        yield attempt("write", folder, partial(write, folder))
    for folder in folders("CREDENTIALS_DIRECTORY"):
        for path in sorted(Path(folder).iterdir()):
            yield attempt("credential", path.name, partial(credential, path))
    if needs["lock_bytes"]:
        yield attempt("lock", f"{needs['lock_bytes']} bytes", partial(lock, needs["lock_bytes"]))
    for node in needs["numa_nodes"]:
        yield attempt("numa", f"NUMA node {node}", partial(bind_to, node))
    if needs["nvidia"]:
        # Numbered by the driver, not in the order of NVML.
        boards = sorted(str(path) for path in Path("/dev").glob("nvidia[0-9]*"))
        missing = [f"/dev/nvidia{number}" for number in range(len(boards), len(needs["gpus"]))]
        for path in ["/dev/nvidiactl", "/dev/nvidia-uvm", *boards, *missing]:
            yield attempt("device", path, partial(open_device, path))
    yield attempt("address", needs["address"], partial(bind_address, needs["address"]))
    yield attempt("execute", "memory that is written and executed", write_and_execute)


def main() -> None:
    print(json.dumps(list(attempts(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))))


if __name__ == "__main__":
    main()
