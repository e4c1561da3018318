# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading and writing the items of a node, or of a tree that stands in for one. The only part that writes anything."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.commands import answer_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.memory import parse_swaps, read_shm
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.acs import acs_control, acs_place
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.pci import CONFIG_BYTES, DEVICES
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.texts import parse_meminfo
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.items import (
    SHM,
    SWAP,
    State,
    data_of,
    found_file,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.reading import knob, priorities

_FILE_LIMIT = 8 << 20
_LOCK_SECONDS = 120


class Node:
    """C(run_command): that of AnsibleModule.

    Commands run on this machine only: below another root what they would do is left out.
    """

    def __init__(self, root: Path, run_command: Callable[..., Any]) -> None:
        self.tree = Tree(root)
        self._run_command = run_command

    def path(self, target: str) -> Path:
        """Where a file lies; its own name is not followed where it is a link."""
        parent, _slash, name = target.rpartition("/")
        inside = self.tree.path(parent.lstrip("/"))
        if inside is None:
            raise Refusal("tuning_path_circle", f"{parent} is a circle of links.", "Correct these links.")
        return inside / name

    def exists(self, target: str) -> bool:
        return os.path.lexists(self.path(target))

    # Reading ----------------------------------------------------------------------------------------------------------

    def read(self, kind: str, target: str) -> State:
        return getattr(self, f"_read_{kind}")(target)

    def _read_file(self, target: str) -> State:
        path = self.path(target)
        try:
            found = path.lstat()
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(found.st_mode):
            raise Refusal(
                "tuning_no_file",
                f"{target} is no regular file.",
                "Expected a file, or nothing there. Move what is there out of the way.",
            )
        if found.st_size > _FILE_LIMIT:
            raise Refusal(
                "tuning_no_file",
                f"{target} has {found.st_size} bytes.",
                f"Expected a text of {_FILE_LIMIT} bytes at most.",
            )
        return found_file(path.read_bytes(), stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid)

    def _read_link(self, target: str) -> State:
        path = self.path(target)
        if not os.path.lexists(path):
            return None
        if not path.is_symlink():
            raise Refusal(
                "tuning_no_link",
                f"{target} is there and no symbolic link.",
                "Expected a link, or nothing there. Move what is there out of the way.",
            )
        return str(path.readlink())

    def _read_folder(self, target: str) -> State:
        return {} if self.tree.is_folder(target.lstrip("/")) else None

    def _read_value(self, target: str) -> State:
        one = knob(self.tree.text(target.lstrip("/")))
        return None if one is None else one.current

    def _read_acs(self, target: str) -> State:
        return acs_control(self.tree.data(f"{DEVICES}/{target}/config", CONFIG_BYTES))

    def _read_swap(self, target: str) -> State:
        text = self.tree.text(target.lstrip("/"))
        order = priorities(text)
        return [{"device": device.path, "priority": order.get(device.path)} for device in parse_swaps(text)]

    def _read_shm(self, target: str) -> State:
        del target
        return read_shm(self.tree, parse_meminfo(self.tree.text("proc/meminfo"))).size_bytes

    # Writing ----------------------------------------------------------------------------------------------------------

    def write(self, kind: str, target: str, state: State) -> None:
        try:
            getattr(self, f"_write_{kind}")(target, state)
        except OSError as error:
            raise Refusal(
                "tuning_write_failed",
                f"{target} could not be changed: {error.strerror or error}.",
                "See why (a read-only file system, a container, a value that the kernel does not take), then run the "
                "role again: what was changed until here is recorded.",
                {"target": target},
            ) from None

    def _write_file(self, target: str, state: State) -> None:
        path = self.path(target)
        if state is None:
            path.unlink(missing_ok=True)
            if path.parent.is_dir():
                _sync_folder(path.parent)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            found = path.lstat()
            state = {"mode": stat.S_IMODE(found.st_mode), "uid": found.st_uid, "gid": found.st_gid, **state}
        new = _unfinished(path)
        new.unlink(missing_ok=True)
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            data = data_of(state)
            while data:
                data = data[os.write(handle, data) :]
            if "uid" in state and "gid" in state and os.geteuid() == 0:
                os.fchown(handle, state["uid"], state["gid"])
            os.fchmod(handle, state.get("mode", 0o644))
            os.fsync(handle)
        finally:
            os.close(handle)
        _keep_label(path, new)
        new.replace(path)
        _sync_folder(path.parent)

    def _write_link(self, target: str, state: State) -> None:
        path = self.path(target)
        if state is None:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        new = _unfinished(path)
        new.unlink(missing_ok=True)
        new.symlink_to(state)
        new.replace(path)
        _sync_folder(path.parent)

    def _write_folder(self, target: str, state: State) -> None:
        path = self.path(target)
        if state is not None:
            path.mkdir(exist_ok=True)
            path.chmod(0o755)
            return
        # What somebody else put into it keeps it.
        with contextlib.suppress(OSError):
            path.rmdir()

    def _write_value(self, target: str, state: State) -> None:
        path = self.tree.path(target.lstrip("/"))
        if path is None or state is None:
            return
        text = f"{state}\n"
        if not self.tree.live:
            # The kernel would show all of its words, and the chosen one in brackets.
            words = path.read_text(encoding="utf-8").split()
            if any(word[0] == "[" for word in words):
                bare = [word.strip("[]") for word in words]
                text = " ".join(f"[{word}]" if word == state else word for word in bare) + "\n"
        with path.open("w", encoding="utf-8") as file:
            file.write(text)

    def _write_acs(self, target: str, state: State) -> None:
        relative = f"{DEVICES}/{target}/config"
        path, place = self.tree.path(relative), acs_place(self.tree.data(relative, CONFIG_BYTES))
        if path is None or place is None or state is None:
            return
        handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(handle, int(state).to_bytes(2, "little"), place)
        finally:
            os.close(handle)

    def _write_swap(self, target: str, state: State) -> None:
        wanted = {one["device"]: one.get("priority") for one in state or ()}
        there = {one["device"] for one in self._read_swap(target)}
        for device in sorted(there - set(wanted)):
            self._command(["swapoff", device])
        for device, priority in wanted.items():
            if device not in there:
                # The kernel numbers from -2 down what was given no priority.
                rank = ["-p", str(priority)] if priority is not None and priority >= 0 else []
                self._command(["swapon", *rank, device])

    def _write_shm(self, target: str, state: State) -> None:
        if state is not None:
            self._command(["mount", "-o", f"remount,size={int(state) // 1024}k", target])

    # ------------------------------------------------------------------------------------------------------------------

    def _command(self, command: list[str]) -> None:
        if not self.tree.live:
            return
        status, _out, error = answer_of(self._run_command, command)
        if status != 0:
            raise Refusal(
                "tuning_command_failed",
                f"'{' '.join(command)}' ended with {status}: {error.strip() or 'it said nothing'}.",
                "Correct what it says, then run the role again: what was changed until here is recorded.",
                {"command": command, "rc": status},
            )

    def sweep(self, target: str) -> None:
        """Removes what a killed run has left beside a file."""
        with contextlib.suppress(OSError):
            _unfinished(self.path(target)).unlink(missing_ok=True)

    def effective(self, kind: str) -> bool:
        """Whether this kind can be changed here: what takes a command cannot, below another root."""
        return self.tree.live or kind not in (SWAP, SHM)

    @contextlib.contextmanager
    def locked(self, record: str) -> Iterator[None]:
        """One run at a time: that of a play which was killed may still be at work. The folder of the record is locked,
        so that no file of a lock is left."""
        folder = self.path(record).parent
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._lock(handle, folder)
            yield
        finally:
            os.close(handle)

    @staticmethod
    def _lock(handle: int, folder: Path) -> None:
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise Refusal(
                        "tuning_in_progress",
                        f"Another run has been tuning this node for {_LOCK_SECONDS} s.",
                        f"Wait for it, or end the process that has {folder} open (lsof {folder}).",
                    ) from None
                time.sleep(0.1)


def _unfinished(path: Path) -> Path:
    """One name, so that what a killed run has left is found by the next."""
    return path.with_name(f".{path.name}.gpufleet-new")


def _keep_label(path: Path, new: Path) -> None:
    """SELinux's label of a file that is replaced; a new file gets that of its folder."""
    with contextlib.suppress(OSError):
        os.setxattr(new, "security.selinux", os.getxattr(path, "security.selinux"))


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
