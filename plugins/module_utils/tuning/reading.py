# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading a node, or a tree that stands in for one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.cpu import policies
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree, drop_ins, shown
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.memory import parse_swaps, read_shm
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.acs import acs_control
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.files import link_name, names_in
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.numa import read_hugepages
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.pci import (
    CONFIG_BYTES,
    DEVICES,
    read_pci_gpus,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.texts import parse_count, parse_meminfo
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.places import redirecting_ports
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.facts import Knob, NodeFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.hugepages import NODES, NodeMemory
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.request import THP_CHOICES
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.settings import THP_FOLDER
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.sysctl_files import FOLDERS, proc_path

_NODE = re.compile(r"node(\d{1,6})$")
_SETPCI = ("usr/bin/setpci", "usr/sbin/setpci", "sbin/setpci", "bin/setpci")
# Devices that a guest or a program in user space has in hand.
_ISOLATING = ("vfio-pci", "pci-stub")


def knob(text: str | None, offered: str | None = None) -> Knob | None:
    """C(always [madvise] never), or one word with the words offered in a file beside."""
    words = (text or "").split()
    if not words:
        return None
    chosen = next((word[1:-1] for word in words if word[0] == "[" and word[-1] == "]"), None)
    if chosen is not None:
        return Knob(chosen, tuple(word.strip("[]") for word in words))
    return Knob(" ".join(words), tuple((offered or "").split()))


def _sysctl_files(tree: Tree) -> tuple[tuple[str, str], ...]:
    paths = [*drop_ins(tree, FOLDERS), "etc/sysctl.conf"]
    return tuple((shown(path) or "", tree.text(path) or "") for path in paths)


def _nodes(tree: Tree) -> dict[int, NodeMemory]:
    found = {}
    for name in tree.names(NODES.lstrip("/")):
        match = _NODE.match(name)
        total = parse_node_total(tree.text(f"{NODES.lstrip('/')}/{name}/meminfo")) if match else None
        if match and total:
            huge = read_hugepages(tree.root, f"{NODES.lstrip('/')}/{name}/hugepages")
            found[int(match.group(1))] = NodeMemory(total, {pages.size_bytes: pages.total for pages in huge})
    return found


def parse_node_total(text: str | None) -> int | None:
    return parse_meminfo(text).get("MemTotal")


def _governors(tree: Tree) -> dict[str, Knob]:
    found = {}
    for policy in policies(tree):
        one = knob(
            tree.line(f"{policy}/scaling_governor"),
            tree.text(f"{policy}/scaling_available_governors"),
        )
        if one is not None:
            found[f"/{policy}"] = one
    return found


def isolated_devices(tree: Tree) -> tuple[str, ...]:
    """PCI devices that are passed through to somebody."""
    return tuple(
        name for name in names_in(tree.root, DEVICES) if link_name(tree.root, f"{DEVICES}/{name}/driver") in _ISOLATING
    )


def read_facts(tree: Tree, sysctls: Iterable[str], swap_units: Iterable[str], acs: bool) -> NodeFacts:
    """C(acs): whether PCIe ports matter; the bus of a large machine takes a while."""
    meminfo = parse_meminfo(tree.text("proc/meminfo"))
    fstab = _raw(tree, "etc/fstab")
    values = {name: tree.text(proc_path(name).lstrip("/")) for name in sysctls}
    thp = {name: knob(tree.text(f"{THP_FOLDER}/{name}")) for name in THP_CHOICES}
    shm = read_shm(tree, meminfo)
    gpus = read_pci_gpus(tree.root) if acs else ()
    ports = redirecting_ports(gpus) if gpus else ()
    return NodeFacts(
        sysctl={name: " ".join(value.split()) for name, value in values.items() if value is not None},
        sysctl_files=_sysctl_files(tree),
        thp={name: one for name, one in thp.items() if one is not None},
        nodes=_nodes(tree),
        memory_total_bytes=meminfo.get("MemTotal", 0),
        memory_available_bytes=meminfo.get("MemAvailable", 0),
        governors=_governors(tree),
        hypervisor="hypervisor" in _flags(tree.text("proc/cpuinfo", 1 << 16)),
        tuned_profile=tree.line("etc/tuned/active_profile"),
        fstab=fstab,
        fstab_now=fstab,
        swaps=parse_swaps(tree.text("proc/swaps")),
        swap_units=tuple(swap_units),
        shm_bytes=shm.size_bytes,
        shm_used_bytes=shm.used_bytes or 0,
        redirecting_ports=ports,
        acs=_controls(tree, ports or ()),
        isolated_devices=isolated_devices(tree) if acs else (),
        setpci=any(tree.is_file(path) for path in _SETPCI),
    )


def _flags(cpuinfo: str | None) -> list[str]:
    line = next((line for line in (cpuinfo or "").splitlines() if line.startswith("flags")), "")
    return line.partition(":")[2].split()


def _raw(tree: Tree, relative: str) -> str | None:
    data = tree.data(relative, 1 << 20)
    return None if data is None else data.decode("utf-8", "surrogateescape")


def _controls(tree: Tree, ports: Iterable[str]) -> Mapping[str, int]:
    found = {}
    for port in ports:
        control = acs_control(tree.data(f"{DEVICES}/{port}/config", CONFIG_BYTES))
        if control is not None:
            found[port] = control
    return found


def priorities(text: str | None) -> dict[str, int]:
    """/proc/swaps: the priority of each device."""
    found = {}
    for line in (text or "").splitlines()[1:]:
        words = line.split()
        if len(words) >= 5:
            number = words[-1].lstrip("-")
            value = parse_count(number)
            if value is not None:
                found[words[0]] = -value if words[-1].startswith("-") else value
    return found
