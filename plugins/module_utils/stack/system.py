# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which operating system this is, on which architecture, and whether it runs in a container."""

from __future__ import annotations

import struct

from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import one_line
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import OperatingSystem
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import (
    LINE_LIMIT,
    Tree,
    assignments,
    first_text,
)

_FAMILIES = {
    "debian": ("debian", "ubuntu"),
    "rhel": ("rhel", "fedora", "centos", "rocky", "almalinux", "ol", "amzn"),
}
_MANAGERS = (
    ("apt", ("usr/bin/apt-get", "var/lib/dpkg/status")),
    ("dnf", ("usr/bin/dnf", "usr/bin/dnf5", "usr/bin/yum", "etc/dnf/dnf.conf")),
    ("zypper", ("usr/bin/zypper",)),
)
# e_machine of the ELF header, by what uname says.
_MACHINES = {62: "x86_64", 183: "aarch64", 21: "ppc64le", 22: "s390x", 243: "riscv64", 3: "i686", 40: "armv7l"}
_PROGRAMS = ("usr/bin/env", "usr/lib/systemd/systemd", "lib/systemd/systemd", "bin/sh", "sbin/init")


def family_of(name: str | None, like: str | None) -> str:
    """debian, rhel or other, by ID and then by ID_LIKE."""
    for word in [name or "", *(like or "").split()]:
        for family, members in _FAMILIES.items():
            if word.lower() in members:
                return family
    return "other"


def machine_of(header: bytes | None) -> str | None:
    """The architecture of a program, from the first 20 bytes of its file."""
    if header is None or len(header) < 20 or not header.startswith(b"\x7fELF"):
        return None
    (number,) = struct.unpack_from(">H" if header[5] == 2 else "<H", header, 18)
    return _MACHINES.get(number)


def read_architecture(tree: Tree) -> str | None:
    told = tree.line("proc/sys/kernel/arch")
    if told:
        return told
    for program in _PROGRAMS:
        found = machine_of(tree.data(program, 64))
        if found is not None:
            return found
    return None


def read_container(tree: Tree) -> str | None:
    """The manager of the container that this is; systemd leaves its name in /run."""
    named = tree.line("run/systemd/container")
    if named:
        return named
    if tree.is_file("run/.containerenv"):
        return "podman"
    return "docker" if tree.is_file(".dockerenv") else None


def read_system(tree: Tree) -> OperatingSystem:
    release = assignments(first_text(tree, "etc/os-release", "usr/lib/os-release"))

    def named(key: str) -> str | None:
        return one_line(release.get(key, ""), LINE_LIMIT) or None

    manager = next(
        (name for name, marks in _MANAGERS if any(tree.is_file(mark) for mark in marks)),
        None,
    )
    return OperatingSystem(
        id=named("ID"),
        version_id=named("VERSION_ID"),
        codename=named("VERSION_CODENAME"),
        family=family_of(release.get("ID"), release.get("ID_LIKE")),
        architecture=read_architecture(tree),
        package_manager=manager,
        container=read_container(tree),
    )
