# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""A node's /proc, /sys and /dev/shm in a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


class NodeTree:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("proc/stat", "cpu  1 2 3 4\nbtime 1795973106\n")

    def write(self, path: str, text: str) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def process(
        self,
        pid: int,
        title: str,
        *,
        shmem_kb: int = 0,
        anon_kb: int = 0,
        state: str = "S",
        group: str = "/",
        cwd: str | None = None,
        environ: Mapping[str, str] | None = None,
        ticks: int = 22,
        maps: str = "",
    ) -> None:
        here = f"proc/{pid}"
        fields = [str(number) for number in range(4, 51)]
        fields[18] = str(ticks)
        self.write(f"{here}/stat", f"{pid} (python3) {state} {' '.join(fields)} 51 0\n")
        self.write(f"{here}/cmdline", title.replace(" ", "\0"))
        sizes = f"RssAnon:\t{anon_kb} kB\nRssShmem:\t{shmem_kb} kB\n"
        self.write(f"{here}/status", f"Name:\tpython3\nUid:\t0\t0\t0\t0\n{sizes}")
        self.write(f"{here}/cgroup", f"0::{group}\n")
        self.write(f"{here}/environ", "\0".join(f"{name}={value}" for name, value in (environ or {}).items()))
        self.write(f"{here}/maps", maps)
        (self.root / here / "fd").mkdir(exist_ok=True)
        link = self.root / here / "cwd"
        link.unlink(missing_ok=True)
        if cwd is not None:
            link.symlink_to(cwd)

    def vanish(self, pid: int) -> None:
        for path in (self.root / f"proc/{pid}").iterdir():
            if path.name != "fd":
                path.unlink()

    def group(self, path: str, *pids: int) -> None:
        self.write(f"sys/fs/cgroup{path}/cgroup.procs", "".join(f"{pid}\n" for pid in pids))

    def meminfo(self, **sizes_kb: int) -> None:
        self.write("proc/meminfo", "".join(f"{name}: {size} kB\n" for name, size in sizes_kb.items()))

    def node(self, number: int, **sizes_kb: int) -> None:
        lines = "".join(f"Node {number} {name}: {size} kB\n" for name, size in sizes_kb.items())
        self.write(f"sys/devices/system/node/node{number}/meminfo", lines)

    def shared_file(self, name: str, size: int) -> Path:
        return self.write(f"dev/shm/{name}", "x" * size)

    def open_file(self, pid: int, number: int, target: Path) -> None:
        """As /proc shows it: the link's text is the path inside of this root."""
        (self.root / f"proc/{pid}/fd/{number}").symlink_to(target)
