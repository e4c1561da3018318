# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a node has of what a third tier of the KV cache needs: file systems, folders, modules, devices, addresses.

Facts as C(storage_info) returns them, and the judgement over them. No I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.requirements import (
    parse_requirements,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count, format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.storage_versions import DISTRIBUTIONS
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.request import (
    ServerSetup,
    StorageRequest,
    Tier,
)

# File systems that lie in host memory.
_IN_MEMORY = ("tmpfs", "ramfs")
# What compiles an extension of torch that hashes with OpenSSL, and the packages that bring it, by family of
# distributions. RHEL has ninja-build in its repository CodeReady Builder.
PACKAGES_OF: dict[str, dict[str, str]] = {
    "debian": {"ninja": "ninja-build", "g++": "g++", "openssl/sha.h": "libssl-dev"},
    "rhel": {"ninja": "ninja-build", "g++": "gcc-c++", "openssl/sha.h": "openssl-devel"},
}
TOOLS = ("ninja", "g++", "openssl/sha.h")


@dataclass(frozen=True)
class FileSystem:
    """The one that a folder lies on, or would. None where it does not tell."""

    mount_point: str
    type: str
    read_only: bool = False
    block_bytes: int = 4096
    total_bytes: int | None = None
    available_bytes: int | None = None
    files_available: int | None = None


@dataclass(frozen=True)
class Folder:
    path: str
    exists: bool
    is_folder: bool
    pages: int
    page_bytes: int
    strangers: tuple[str, ...]  # names of what is no page, some of them
    file_system: FileSystem


@dataclass(frozen=True)
class NodeFacts:
    folders: Mapping[str, Folder]
    mounted: Mapping[str, str | None]  # type of the file system that is mounted at each path, None where none is
    modules: Mapping[str, bool] | None  # None where the release is not there yet
    wheelhouse_requirements: str | None
    rdma_devices: tuple[str, ...]
    tools: Mapping[str, bool]  # of a compiler, by what each is called
    family: str  # of the distribution
    unanswered: Mapping[str, str]  # address and why


def node_facts(said: Mapping[str, Any]) -> NodeFacts:
    """Out of what C(storage_info) returned."""
    return NodeFacts(
        folders={one["path"]: _folder(one) for one in said["folders"]},
        mounted={one["path"]: one["type"] for one in said["mounts"]},
        modules=said["modules"],
        wheelhouse_requirements=said["wheelhouse_requirements"],
        rdma_devices=tuple(said["rdma_devices"]),
        tools=said["tools"],
        family=said["family"],
        unanswered={one["address"]: one["error"] for one in said["addresses"] if one["error"]},
    )


def _folder(said: Mapping[str, Any]) -> Folder:
    return Folder(
        path=said["path"],
        exists=said["exists"],
        is_folder=said["is_folder"],
        pages=said["pages"],
        page_bytes=said["page_bytes"],
        strangers=tuple(said["strangers"]),
        file_system=FileSystem(**said["file_system"]),
    )


def judge_node(
    request: StorageRequest,
    setup: ServerSetup,
    tier: Tier,
    node: NodeFacts,
    requirements: str | None,
    system_packages: Sequence[str] | None = None,
) -> tuple[list[Refusal], list[Problem]]:
    """(why the tier cannot work on this node, what should be known)"""
    refusals: list[Refusal] = []
    problems: list[Problem] = []
    refusals += _mounts(tier, node)
    for path in tier.folders:
        folder = node.folders[path]
        refusals += _folder_refusals(request, folder)
        if tier.mount_type is not None and folder.file_system.type != tier.mount_type:
            refusals.append(
                Refusal(
                    "storage_mount_type",
                    f"{path} lies on {folder.file_system.mount_point} ({folder.file_system.type}).",
                    f"Expected a mounted 3FS ({tier.mount_type}); mount it, or set path below its mount point.",
                    {"path": path, "type": folder.file_system.type},
                )
            )
        if tier.prune is not None:
            refusals += _room(request, setup, folder)
        if folder.file_system.type in _IN_MEMORY and tier.prune is not None:
            problems.append(_in_memory(tier.prune.max_bytes, setup, folder.file_system))
    refusals += _package(request, tier, node, requirements)
    refusals += _rdma(tier, node)
    refusals += _compiler(tier, setup, node, requirements, system_packages)
    refusals += [
        Refusal(
            "storage_unreachable",
            f"{address}, which the backend {tier.backend} needs, does not answer: {node.unanswered[address]}.",
            "Start the service behind it, open the way to it, or correct sglang_hicache_storage.extra_config.",
            {"address": address},
        )
        for address in tier.addresses
        if address in node.unanswered
    ]
    return refusals, problems


def _mounts(tier: Tier, node: NodeFacts) -> list[Refusal]:
    return [
        Refusal(
            "storage_mount_missing",
            f"Nothing is mounted at {path}: pages would go to the file system below it.",
            "Mount it (and say so in /etc/fstab, as the unit waits for it at boot), or leave "
            "sglang_hicache_storage.mount out.",
            {"mount": path},
        )
        for path in tier.mounts
        if node.mounted.get(path) is None
    ]


def _folder_refusals(request: StorageRequest, folder: Folder) -> list[Refusal]:
    found = []
    if folder.exists and not folder.is_folder:
        found.append(
            Refusal(
                "storage_path_no_folder",
                f"{folder.path} is there and is no folder.",
                "Set sglang_hicache_storage.path to a folder of its own.",
                {"path": folder.path},
            )
        )
    if folder.file_system.read_only:
        found.append(
            Refusal(
                "storage_read_only",
                f"{folder.path} lies on {folder.file_system.mount_point}, which is mounted read-only.",
                "Mount it for writing, or take another folder.",
                {"path": folder.path, "mount_point": folder.file_system.mount_point},
            )
        )
    if folder.strangers and request.backend == "file":
        found.append(
            Refusal(
                "storage_folder_shared",
                f"{folder.path} holds what is no page of a KV cache: {', '.join(folder.strangers)}. SGLang removes all "
                "files of its folder when its storage is cleared.",
                "Take a folder of its own.",
                {"path": folder.path, "entries": list(folder.strangers)},
            )
        )
    return found


def _room(request: StorageRequest, setup: ServerSetup, folder: Folder) -> list[Refusal]:
    """Whether the cap fits beside the floor, in bytes and in files."""
    system = folder.file_system
    if system.available_bytes is None or request.max_bytes is None:
        return []
    found = []
    page = setup.page_bytes or system.block_bytes
    on_disk = -(-page // system.block_bytes) * system.block_bytes
    pages = request.max_bytes // page
    needed = max(request.max_bytes, pages * on_disk)
    there = system.available_bytes + folder.page_bytes
    largest = max(0, there - request.min_free_bytes) * page // max(page, on_disk)
    if needed + request.min_free_bytes > there:
        held = f", {format_gb(folder.page_bytes)} of it held by pages already" if folder.page_bytes else ""
        found.append(
            Refusal(
                "storage_no_room",
                f"{system.mount_point} ({system.type}) has {format_gb(there)} for {folder.path}{held}; needed are "
                f"{format_gb(needed)} for pages and {format_gb(request.min_free_bytes)} that stay free.",
                f"Set sglang_hicache_storage.max_bytes to {largest} ({format_gb(largest)}) or less, or "
                "min_free_bytes lower."
                if largest >= page
                else "Take a larger file system, or set sglang_hicache_storage.min_free_bytes lower.",
                {
                    "available_bytes": there,
                    "needed_bytes": needed,
                    "min_free_bytes": request.min_free_bytes,
                    "largest_max_bytes": largest,
                },
            )
        )
    files = None if not system.files_available else system.files_available + folder.pages
    if files is not None and pages > files:
        found.append(
            Refusal(
                "storage_no_files",
                f"{system.mount_point} can hold {format_count(files)} files more; a cap of "
                f"{format_gb(request.max_bytes)} means {format_count(pages)}, one for each page of {setup.page_size} "
                f"tokens of a rank ({format_count(page)} bytes).",
                f"Set sglang_page_size higher, or sglang_hicache_storage.max_bytes to {files * page} or less.",
                {"files_available": files, "files_needed": pages},
            )
        )
    return found


def _in_memory(max_bytes: int, setup: ServerSetup, system: FileSystem) -> Problem:
    left = "" if setup.host_left_bytes is None else f", of {format_gb(setup.host_left_bytes)} that the plan leaves"
    return Problem(
        "storage_in_memory",
        "warning",
        f"{system.mount_point} is {system.type}: up to {format_gb(max_bytes)} of pages take host memory beside the "
        f"host pools{left}, and are gone with a reboot.",
        "Take a disk, or make the host pools larger instead, which needs no copy.",
    )


def _package(request: StorageRequest, tier: Tier, node: NodeFacts, requirements: str | None) -> list[Refusal]:
    if tier.module is None:
        return []
    name = DISTRIBUTIONS[request.backend]
    remedy = f"Add {name} to sglang_requirements_file (and its wheel to the wheelhouse)."
    if node.modules is not None:
        if node.modules.get(tier.module, False):
            return []
        message = f"The release that is installed has no {tier.module}, which the backend {request.backend} imports."
        return [Refusal("storage_package_missing", message, remedy, {"module": tier.module, "package": name})]
    text = requirements or node.wheelhouse_requirements
    pinned = _pinned(text) if text else ()
    if any(one == name or one.startswith(f"{name}-") for one in pinned):
        return []
    where = "the requirements do not pin it" if text else "SGLang alone, as it will be installed, does not bring it"
    message = f"The backend {request.backend} imports {tier.module} of the package {name}, and {where}."
    return [Refusal("storage_package_missing", message, remedy, {"module": tier.module, "package": name})]


def _pinned(text: str) -> Sequence[str]:
    return [one.name for one in parse_requirements(text)]


def packages_missing(tier: Tier, node: NodeFacts, requirements: str | None = None) -> list[str]:
    """Packages of the distribution that bring what the node lacks; none where its distribution is not known."""
    named = PACKAGES_OF.get(node.family, {})
    return [named[tool] for tool in _tools_missing(tier, node, requirements) if tool in named]


def _tools_missing(tier: Tier, node: NodeFacts, requirements: str | None) -> list[str]:
    missing = [tool for tool in TOOLS if not node.tools.get(tool, False)] if tier.compiles else []
    # SGLang itself asks for ninja (Requires-Dist): it comes with a release that is resolved, or whose pins have it.
    text = requirements or node.wheelhouse_requirements
    comes = node.modules is None and (not text or "ninja" in _pinned(text))
    return [tool for tool in missing if not (comes and tool == "ninja")]


def _compiler(
    tier: Tier,
    setup: ServerSetup,
    node: NodeFacts,
    requirements: str | None,
    system_packages: Sequence[str] | None,
) -> list[Refusal]:
    """Where the packages are said in so many words, or the distribution is not known, the role adds none."""
    missing = _tools_missing(tier, node, requirements)
    named = packages_missing(tier, node, requirements)
    if not missing or (system_packages is None and named):
        return []
    if system_packages is not None and named and set(named) <= set(system_packages):
        return []
    wanted = ", ".join(named) or "ninja, a C++ compiler and the headers of OpenSSL"
    return [
        Refusal(
            "storage_compiler_missing",
            f"SGLang {setup.version.version} compiles what names the pages of its storage, and this node lacks "
            f"{', '.join(missing)}: it would write pages and never find one.",
            f"Add {wanted} to sglang_system_packages, or leave that variable out."
            if named
            else f"Install {wanted} on the node.",
            {"missing": missing, "packages": named},
        )
    ]


def _rdma(tier: Tier, node: NodeFacts) -> list[Refusal]:
    if tier.rdma is None:
        return []
    there = ", ".join(node.rdma_devices) or "none"
    missing = [name for name in tier.rdma if name not in node.rdma_devices]
    if node.rdma_devices and not missing:
        return []
    named = f"asks for {', '.join(missing)}" if missing else "moves pages over RDMA"
    return [
        Refusal(
            "storage_no_rdma",
            f"sglang_hicache_storage {named}, and this node has the devices: {there} (/sys/class/infiniband).",
            "Load the driver of the adapter, correct extra_config.device_name, or set extra_config.protocol to tcp.",
            {"missing": missing, "there": list(node.rdma_devices)},
        )
    ]
