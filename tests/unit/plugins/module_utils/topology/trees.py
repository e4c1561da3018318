# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Small machines in a folder, written as the kernel lays out /sys and /proc."""

from collections.abc import Mapping
from pathlib import Path

GIB = 1 << 30
NODES = "sys/devices/system/node"
DEVICES = "sys/bus/pci/devices"


def write(root: Path, files: Mapping[str, str]) -> Path:
    for relative, content in files.items():
        path = root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n", encoding="utf-8")
    return root


def pci_device(root: Path, path: str, **files: str) -> Path:
    """One function below sys/devices with its link below sys/bus/pci; gives its folder."""
    address = path.split("/")[-1]
    here = root / "sys/devices" / path
    here.mkdir(parents=True, exist_ok=True)
    write(here, files)
    links = root / DEVICES
    links.mkdir(parents=True, exist_ok=True)
    (links / address).symlink_to(f"../../../devices/{path}")
    return here


def gpu(root: Path, path: str, **files: str) -> Path:
    """An H100 at the end of the path."""
    return pci_device(root, path, **{"vendor": "0x10de", "device": "0x2330", "class": "0x030200", **files})


def node(number: int, cpus: str, total_kib: int = 1 << 20, **more: str) -> dict[str, str]:
    """The files of one NUMA node, half of its memory free."""
    here = f"{NODES}/node{number}"
    meminfo = f"Node {number} MemTotal: {total_kib} kB\nNode {number} MemFree: {total_kib // 2} kB"
    return {f"{here}/cpulist": cpus, f"{here}/meminfo": meminfo, **{f"{here}/{name}": more[name] for name in more}}


def config_space(capabilities: Mapping[int, tuple[int, bytes]], size: int = 4096) -> bytes:
    """PCI configuration space with extended capabilities by place: (id, what follows the header)."""
    config = bytearray(size)
    places = sorted(capabilities)
    for place, following in zip(places, [*places[1:], 0]):
        identity, body = capabilities[place]
        header = identity | 1 << 16 | following << 20
        config[place : place + 4] = header.to_bytes(4, "little")
        config[place + 4 : place + 4 + len(body)] = body
    return bytes(config)


def acs_space(control: int) -> bytes:
    """Configuration space of a port whose ACS control register is as given, with another capability before it."""
    return config_space({0x100: (0x0001, bytes(40)), 0x2A0: (0x000D, b"\x5f\x00" + control.to_bytes(2, "little"))})
