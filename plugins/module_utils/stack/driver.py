# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The driver as it is loaded, as its libraries are installed, and its daemons; and who tells which release."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import (
    Driver,
    FabricManager,
    Kernel,
    LoadedModule,
    NextBoot,
    Package,
    Persistenced,
    Releases,
    UserSpace,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree, shown
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.flavours import (
    Board,
    common_flavour,
    served,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.memory import small_number
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.modprobe import read_nouveau
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.units import is_enabled
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.versions import driver_release, version_key

_VENDOR = "0x10de"
_DISPLAY_CLASS = "0x0300"
_GPU_CLASSES = (_DISPLAY_CLASS, "0x0302")
_SWITCH_CLASS = "0x0680"
# Boards whose NVSwitches hide behind a network adapter, so that the PCI bus does not show them: B200, B300.
_HIDDEN_SWITCHES = ("10de:2901", "10de:3182")
_PCI_LIMIT = 16384
_LIBRARY = re.compile(r"^lib(?P<name>cuda|nvidia-ml)\.so\.(?P<version>\d{3,4}\.\d{1,3}(?:\.\d{1,3})?)$")
_LIBRARY_FOLDERS = (
    "usr/lib/{arch}-linux-gnu",
    "usr/lib/{arch}-linux-gnu/nvidia/current",
    "usr/lib64",
    "usr/lib64/nvidia",
    "usr/lib",
    "usr/local/lib",
    "usr/local/nvidia/lib64",
)
_LOADER_LIMIT = 256
# The kernel cuts a process's name after 15 letters.
_FABRIC_MANAGER, _PERSISTENCED = "nv-fabricmanage", "nvidia-persiste"
_PROCESSES_LIMIT = 65536
_VERSION_TEXT = re.compile(r"Kernel Module(?: for \S+)?\s+(\d{3,4}\.\d{1,3}(?:\.\d{1,3})?)\b")


def parse_version_file(text: str | None) -> tuple[str | None, str | None]:
    """/proc/driver/nvidia/version: the release, and open or proprietary."""
    match = _VERSION_TEXT.search(text or "")
    if match is None:
        return None, None
    return match.group(1), "open" if "Open Kernel Module" in (text or "") else "proprietary"


def read_loaded(tree: Tree) -> LoadedModule:
    if not tree.is_folder("sys/module/nvidia"):
        return LoadedModule()
    told, flavour = parse_version_file(tree.text("proc/driver/nvidia/version"))
    count = small_number(tree.text("sys/module/nvidia/refcnt"))
    holders = len(tree.names("sys/module/nvidia/holders"))
    return LoadedModule(
        loaded=True,
        version=tree.line("sys/module/nvidia/version") or told,
        flavour=flavour,
        reference_count=count,
        # Each module on top holds one reference; the others are open device files.
        in_use=None if count is None else count > holders,
    )


def _library_folders(tree: Tree, architecture: str | None) -> list[str]:
    """The folders of the loader's configuration and then the usual ones, each once by where it really lies."""
    folders = []
    for path in ["etc/ld.so.conf", *(f"etc/ld.so.conf.d/{name}" for name in tree.names("etc/ld.so.conf.d"))]:
        lines = (tree.text(path) or "").splitlines()
        folders += [line.strip() for line in lines if line.strip().startswith("/")]
    usual = [name.format(arch=architecture or "x86_64") for name in _LIBRARY_FOLDERS]
    real = [tree.resolved(folder) for folder in [*folders[:_LOADER_LIMIT], *usual]]
    return list(dict.fromkeys(folder for folder in real if folder))


def _libraries(tree: Tree, folders: Sequence[str], name: str) -> list[tuple[str, str]]:
    """Version and path of a library's files; of several in one folder the one that the loader's link leads to first."""
    found = []
    for folder in folders:
        chosen = (tree.resolved(f"{folder}/lib{name}.so.1") or "").rpartition("/")[2]
        here = [match for match in map(_LIBRARY.match, tree.names(folder)) if match and match.group("name") == name]
        for match in sorted(here, key=lambda match: match.group() != chosen):
            found.append((match.group("version"), f"{folder}/{match.group()}"))
    return found


def read_user_space(tree: Tree, architecture: str | None) -> UserSpace:
    """By the names of the libraries' files, in the order in which the loader's folders come."""
    folders = _library_folders(tree, architecture)
    nvml, cuda = _libraries(tree, folders, "nvidia-ml"), _libraries(tree, folders, "cuda")
    (version, path), (cuda_version, cuda_path) = (found[0] if found else (None, None) for found in (nvml, cuda))
    others = {entry[0] for entry in nvml + cuda} - {version, cuda_version}
    return UserSpace(version, shown(path), cuda_version, shown(cuda_path), tuple(sorted(others, key=version_key)))


def read_boards(tree: Tree) -> tuple[tuple[Board, ...], int]:
    """NVIDIA's GPUs in the order of the bus, and the number of NVSwitches."""
    boards, switches = [], 0
    for name in tree.names("sys/bus/pci/devices")[:_PCI_LIMIT]:
        here = f"sys/bus/pci/devices/{name}"
        if tree.text(f"{here}/vendor") != _VENDOR or tree.link(f"{here}/physfn") is not None:
            continue
        kind = (tree.text(f"{here}/class") or "")[:6]
        if kind in _GPU_CLASSES:
            pci_id = f"{_VENDOR[2:]}:{(tree.line(f'{here}/device') or '')[2:6]}"
            holder = (tree.link(f"{here}/driver") or "").rpartition("/")[2] or None
            boards.append(Board(pci_id, kind == _DISPLAY_CLASS, holder))
        switches += kind == _SWITCH_CLASS
    return tuple(boards), switches


def fabric_needed(gpus: Sequence[str], switches: int) -> bool | None:
    if switches:
        return True
    return None if sum(gpu in _HIDDEN_SWITCHES for gpu in gpus) > 1 else False


def _processes(tree: Tree) -> frozenset[str] | None:
    """The names of the processes; None where none can be seen."""
    found = [name for name in tree.names("proc") if name.isdigit()][:_PROCESSES_LIMIT]
    names = (tree.text(f"proc/{process}/comm", 64) for process in found)
    return frozenset(name for name in names if name) or None


def _running(tree: Tree, processes: frozenset[str] | None, process: str, unit: str) -> bool | None:
    """By systemd's control group, as others' processes may be hidden, and by the processes' names."""
    for base in ("sys/fs/cgroup", "sys/fs/cgroup/systemd"):
        if tree.text(f"{base}/system.slice/{unit}/cgroup.procs"):
            return True
    return None if processes is None else process in processes


def _package_version(packages: Sequence[Package], pattern: str) -> str | None:
    """The release of the first package whose name matches."""
    for package in packages:
        if re.match(pattern, package.name):
            return driver_release(package.version) or package.version
    return None


def compare(
    loaded: LoadedModule,
    user_space: UserSpace,
    fabric: FabricManager,
    kernels: Sequence[Kernel],
    packages: Sequence[Package],
) -> Releases:
    """The release by each witness. The packages tell what has been installed, which a reboot may put into force."""
    running = next((kernel.nvidia_module for kernel in kernels if kernel.running), None)
    following = next((kernel.nvidia_module for kernel in kernels if kernel.boots_next), None)
    releases = {package.driver_release for package in packages if package.kind in ("driver", "kernel_module")}
    told = tuple(sorted((release for release in releases if release), key=version_key))
    witnesses = [
        loaded.version,
        running.version if running else None,
        following.version if following else None,
        user_space.version,
        fabric.installed_version,
        *told,
    ]
    known = [version for version in witnesses if version is not None]
    return Releases(
        loaded=witnesses[0],
        running_kernel=witnesses[1],
        next_kernel=witnesses[2],
        user_space=witnesses[3],
        fabric_manager=witnesses[4],
        packages=told,
        consistent=None if len(known) < 2 else len(set(known)) == 1,
    )


def read_driver(
    tree: Tree,
    architecture: str | None,
    kernels: Sequence[Kernel],
    next_boot: NextBoot,
    packages: Sequence[Package],
) -> Driver:
    boards, switches = read_boards(tree)
    gpus = tuple(board.pci_id for board in boards)
    processes = _processes(tree)
    loaded = read_loaded(tree)
    user_space = read_user_space(tree, architecture)
    fabric = FabricManager(
        installed_version=_package_version(packages, r"(cuda-drivers-)?(nvidia-)?fabric-?manager"),
        running=_running(tree, processes, _FABRIC_MANAGER, "nvidia-fabricmanager.service"),
        enabled=is_enabled(tree, "nvidia-fabricmanager.service"),
        needed=fabric_needed(gpus, switches),
    )
    return Driver(
        gpus=gpus,
        gpus_by_driver=dict(Counter(board.driver for board in boards if board.driver is not None)),
        required_flavour=common_flavour(board.pci_id for board in served(boards)),
        loaded=loaded,
        user_space=user_space,
        fabric_manager=fabric,
        persistenced=Persistenced(
            installed_version=_package_version(packages, r"nvidia-persistenced$|nvidia-compute-utils"),
            running=_running(tree, processes, _PERSISTENCED, "nvidia-persistenced.service"),
            enabled=is_enabled(tree, "nvidia-persistenced.service"),
        ),
        nouveau=read_nouveau(tree, next((kernel for kernel in kernels if kernel.boots_next), None), next_boot),
        releases=compare(loaded, user_space, fabric, kernels, packages),
    )
