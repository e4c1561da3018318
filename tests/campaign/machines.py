# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Machines of any shape, as profiles of the rehearsal, and what can be wrong with the files that show them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import yaml
from hypothesis import strategies as st

from ansible_collections.gpufleet.sglang.rehearsal import machine_tree

Draw = Callable[..., Any]

MACHINES = Path(machine_tree.__file__).parent / "machines"
BOARDS: dict[str, Any] = yaml.safe_load((MACHINES / "parts" / "boards.yml").read_text(encoding="utf-8"))
GPU_BOARDS = sorted(name for name, board in BOARDS.items() if board["kind"] == "gpu")
NODE_IDS = (0, 1, 2, 3, 7, 8, 33, 72, 250, 255, 1023)
NO_NODE = (-1, 5, 4095)
DOMAINS = ("0000", "0001", "0035", "c05e", "10000", "1a2b3c", "ffffffff")
ACS = ("SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd", "DirectTrans")
# What files hold that are not as they should be: cut, of another kind, far too large, in no encoding.
GARBAGE = (
    b"",
    b"\n",
    b"-1",
    b"0",
    b"0-3",
    b"1",
    b"max",
    b"0-4294967295",
    b"3-1",
    b"0-1-2,,;",
    b"-5--2",
    b"9" * 400,
    b"0," * 60000,
    b"1e9",
    b"N/A",
    b"Unknown",
    b"nan GT/s",
    b"0x",
    b"\xff\xfe\x00\x80" * 64,
    b"\x00" * 4096,
    "٣-٧ ²".encode(),
    b"MemTotal: " + b"9" * 60 + b" kB\nMemFree: -4 kB\nMemAvailable: 99999999999999999999 kB",
    b"0::/../../..\n5:memory:relative\n:::\n",
    b"30 23 0:26 / /sys/fs/cgroup/../.. rw - cgroup2 cgroup2 rw\n1 2 3\n",
    b"Node:      -1\nStatus:    online\nSize:      zz",
    b"Node:      77777777777777777777\nStatus:    online",
    b"\xde\x10" + b"\xff" * 254,
)
# In the place of a file: nothing, a folder, a link into nowhere, a link to itself, a link to another file.
OTHERS = ("nothing", "folder", "dangling", "circle", "elsewhere")


def _numa_nodes(draw: Draw) -> list[dict[str, Any]]:
    """Nodes with gaps, without CPUs, without memory; CPUs are dealt in turns, so that lists have gaps as well."""
    ids = sorted(draw(st.sets(st.sampled_from(NODE_IDS), min_size=1, max_size=5)))
    homes: dict[int, list[int]] = {number: [] for number in ids}
    for cpu in range(draw(st.integers(1, 24))):
        homes[draw(st.sampled_from(ids))].append(cpu)
    nodes = [
        {
            "id": number,
            "cpus": machine_tree.list_of(homes[number]),
            "memory_total_kib": draw(st.sampled_from((0, 4, 1 << 20, 1 << 28, 1 << 33))),
            "hugepages": draw(st.sampled_from(({}, {2048: 0, 1048576: 0}, {2048: 64}, {64: 1, 16777216: 2}))),
        }
        for number in ids
    ]
    if not any(node["memory_total_kib"] for node in nodes):
        nodes[-1]["memory_total_kib"] = 1 << 20
    return nodes


def _ways(draw: Draw, bridges: list[str], count: int) -> list[str]:
    """Ways down to C(count) devices: each begins below a host bridge or somewhere on the way of another."""
    # Every bridge leads to a bus of its own, where devices and further bridges stand side by side.
    buses = dict.fromkeys(bridges, 0)
    taken: dict[str, int] = {}
    ways = []

    def below(way: str) -> str:
        domain = way.split("/")[0][3:].split(":")[0]
        taken[way] = taken.get(way, -1) + 1
        return f"{way}/{domain}:{buses[way]:02x}:{taken[way]:02x}.0"

    for _device in range(count):
        way = draw(st.sampled_from(sorted(buses)))
        for _depth in range(draw(st.integers(0, 6))):
            way = below(way)
            buses[way] = len(buses)
        ways.append(below(way))
    return ways


def _limits(draw: Draw, nodes: list[int], cpus: list[int]) -> dict[str, Any]:
    """Every group has the last CPU and the last node, so that something is left of several limits."""
    every = {
        "memory_max_bytes": draw(st.sampled_from((4096, 1 << 30, 1 << 45))),
        "cpus": machine_tree.list_of({cpus[-1], *draw(st.sets(st.sampled_from(cpus)))}),
        "memory_nodes": machine_tree.list_of({nodes[-1], *draw(st.sets(st.sampled_from(nodes)))}),
        "cpu_quota": draw(st.sampled_from((0.5, 1, 4, 500))),
    }
    return {key: every[key] for key in draw(st.sets(st.sampled_from(sorted(every))))}


def _cgroup(draw: Draw, nodes: list[dict[str, Any]], online: list[int]) -> dict[str, Any]:
    path = draw(st.sampled_from(("/", "/user.slice/user-0.slice", "/docker/abc", "/kubepods.slice/pod1/c2")))
    root = draw(st.sampled_from(("/", path)))
    groups = draw(st.sets(st.sampled_from(("/system.slice", path)), max_size=2)) - {"/"}
    layout = draw(st.sampled_from(("v1", "v2", "hybrid")))
    with_memory = [node["id"] for node in nodes if node["memory_total_kib"]]
    limits = {group: _limits(draw, with_memory, online) for group in sorted(groups)}
    return {"layout": layout, "path": path, "mount_root": root, "limits": limits}


def _port(draw: Draw) -> dict[str, Any]:
    speed, width = draw(st.sampled_from((2.5, 8, 32, 64))), draw(st.sampled_from((1, 8, 16)))
    return {"speed": speed, "width": width, "acs": sorted(draw(st.sets(st.sampled_from(ACS))))}


@st.composite
def profiles(draw: Draw) -> machine_tree.Profile:
    nodes = _numa_nodes(draw)
    cpus = sorted(cpu for node in nodes for cpu in machine_tree.numbers_of(node["cpus"]))
    offline = draw(st.sets(st.sampled_from(cpus), max_size=len(cpus) - 1))
    places = [*(node["id"] for node in nodes), *NO_NODE]
    bridges = [f"pci{domain}:00" for domain in sorted(draw(st.sets(st.sampled_from(DOMAINS), min_size=1, max_size=3)))]
    boards = draw(st.lists(st.sampled_from([*GPU_BOARDS, "nvswitch-h100", "bmc-vga"]), max_size=6))
    driver = {"version": "570.124.06", "nvml": "12.570.124.06", "cuda": "12.8"}
    devices = []
    for minor, (board, way) in enumerate(zip(boards, _ways(draw, bridges, len(boards)))):
        device = {"board": board, "path": way, "minor": minor}
        if draw(st.booleans()):
            device["numa_node"] = draw(st.sampled_from(places))
        if draw(st.integers(0, 9)) == 0:
            device["off_bus"] = True
        devices.append(device)
    possible = {*(node["id"] for node in nodes), *draw(st.sets(st.sampled_from(NODE_IDS)))}
    return {
        "format": machine_tree.FORMAT,
        "name": "generated",
        "host": {
            "vendor": draw(st.sampled_from(("Example", "QEMU", "Microsoft Corporation"))),
            "product": "generated",
            "architecture": draw(st.sampled_from(("x86_64", "x86_64", "aarch64", "ppc64le"))),
            "cpu_vendor": "0x41:0xd4f",
            "cpu_model": "generated",
            "hypervisor": draw(st.sampled_from((None, None, "kvm"))),
            "kernel": "6.1.0-26-amd64",
            "cmdline": draw(st.sampled_from(("ro", "ro iommu=pt", "ro iommu=off"))),
            "iommu": draw(st.sampled_from(("off", "passthrough", "on"))),
            "cpus_present": machine_tree.list_of(cpus),
            "cpus_offline": machine_tree.list_of(offline),
            "nodes_possible": machine_tree.list_of(possible),
        },
        "driver": draw(st.sampled_from((driver, driver, None))),
        "numa_nodes": nodes,
        "cgroup": _cgroup(draw, nodes, [cpu for cpu in cpus if cpu not in offline]),
        "host_bridges": {bridge: draw(st.sampled_from(places)) for bridge in bridges},
        "bridges": {
            "root_port": {"id": "8086:352a", **_port(draw)},
            "switch_port": {"id": "1000:c030", **_port(draw)},
        },
        "boards": {board: BOARDS[board] for board in boards},
        "devices": devices,
    }


@st.composite
def damages(draw: Draw, paths: list[str]) -> dict[str, bytes | str]:
    """Files of a tree with what lies there instead: bytes, or one of C(OTHERS)."""
    chosen = draw(st.lists(st.sampled_from(paths), min_size=1, max_size=12, unique=True))
    instead = st.sampled_from(GARBAGE) | st.sampled_from(OTHERS) | st.binary(max_size=64)
    return {path: draw(instead) for path in chosen}


def damage(root: Path, found: dict[str, bytes | str]) -> None:
    for relative, instead in found.items():
        path = root / relative
        if not path.parent.is_dir():
            continue
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif path.exists():
            continue
        if isinstance(instead, bytes):
            path.write_bytes(instead)
        elif instead == "folder":
            path.mkdir()
        elif instead == "dangling":
            path.symlink_to("nowhere/at/all")
        elif instead == "circle":
            path.symlink_to(path.name)
        elif instead == "elsewhere":
            path.symlink_to(root / "proc/cpuinfo")
