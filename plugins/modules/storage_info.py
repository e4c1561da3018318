#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: storage_info
version_added: 0.1.0
short_description: Tell what a node has for a third tier of the KV cache
description:
  - Reads the file systems that folders lie on, or would, and what of a cache is in them; what is mounted; which modules
    a release of SGLang holds; which RDMA devices there are; and which addresses answer.
  - Judges nothing, see M(gpufleet.sglang.storage_plan).
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    platforms: linux
options:
  folders:
    description: Folders that pages are kept in. They need not exist.
    type: list
    elements: path
    default: []
  mounts:
    description: Paths where something should be mounted.
    type: list
    elements: path
    default: []
  environment:
    description: Virtual environment of a release. Its modules are unknown where it does not exist.
    type: path
  modules:
    description: Modules to look for there, for example V(mooncake.store).
    type: list
    elements: str
    default: []
  wheelhouse:
    description: Folder of wheels whose C(requirements.txt) is read, where it has one.
    type: path
  addresses:
    description: Hosts and ports to connect to over TCP, for example V(10.0.0.5:50051).
    type: list
    elements: str
    default: []
  timeout_seconds:
    description: How long each of O(addresses) may take, in seconds.
    type: float
    default: 5
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: See what the folder lies on
  gpufleet.sglang.storage_info:
    folders: [/srv/kv-cache]
  register: there
"""

RETURN = r"""
folders:
  description: What each folder lies on and holds.
  returned: always
  type: list
  elements: dict
  contains:
    path:
      description: The folder.
      type: str
    exists:
      description: Whether anything is there.
      type: bool
    is_folder:
      description: Whether that is a folder.
      type: bool
    pages:
      description: Number of files of a KV cache in it.
      type: int
    page_bytes:
      description: What they take of the file system, in bytes.
      type: int
    strangers:
      description: Names of other things in it, five at most.
      type: list
      elements: str
    file_system:
      description: >-
        The file system of the folder, or of the closest above that exists: C(mount_point), C(type), C(read_only),
        C(block_bytes), C(total_bytes), C(available_bytes) for unprivileged users, C(files_available).
      type: dict
  sample:
    - path: /srv/kv-cache
      exists: true
      is_folder: true
      pages: 0
      page_bytes: 0
      strangers: []
      file_system:
        mount_point: /srv
        type: ext4
        read_only: false
        block_bytes: 4096
        total_bytes: 1000000000000
        available_bytes: 900000000000
        files_available: 60000000
mounts:
  description: The type of the file system that is mounted at each path, null where none is.
  returned: always
  type: list
  elements: dict
  sample: [{path: /srv, type: ext4}]
modules:
  description: Whether the environment holds each module; null where there is no environment.
  returned: always
  type: dict
  sample: {mooncake.store: true}
wheelhouse_requirements:
  description: What the requirements of the wheelhouse say; null without any.
  returned: always
  type: str
  sample: null
rdma_devices:
  description: Names of the RDMA devices of the node.
  returned: always
  type: list
  elements: str
  sample: [mlx5_0]
tools:
  description: Whether there are ninja (in the environment or on the path), a C++ compiler, and OpenSSL's headers.
  returned: always
  type: dict
  sample: {ninja: true, g++: true, openssl/sha.h: false}
family:
  description: What the distribution is like, V(debian), V(rhel) or V(other).
  returned: always
  type: str
  sample: debian
addresses:
  description: Why each address does not answer, null where it does.
  returned: always
  type: list
  elements: dict
  sample: [{address: "10.0.0.5:50051", error: null}]
"""

import os
import shutil
import socket
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.mounts import (
    Mount,
    mount_of,
    parse_mounts,
    split_address,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.system import read_system

MOUNTS = Path("/proc/self/mountinfo")
RDMA = Path("/sys/class/infiniband")
HEADER = Path("/usr/include/openssl/sha.h")
# What a unit of systemd has (systemd.exec(5)), whatever this module is run with.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What a folder of HiCacheFile holds, and what a file system puts into its root.
_PAGES = (".bin", ".tmp")
_OF_THE_FILE_SYSTEM = ("lost+found",)
_SHOWN = 5


def look_at_folder(path: str, mounts: list[Mount]) -> dict[str, Any]:
    place = Path(path)
    pages = page_bytes = 0
    strangers: list[str] = []
    if place.is_dir():
        with os.scandir(place) as entries:
            for entry in entries:
                if entry.name.endswith(_PAGES) and entry.is_file(follow_symlinks=False):
                    pages += 1
                    page_bytes += entry.stat(follow_symlinks=False).st_blocks * 512
                elif entry.name not in _OF_THE_FILE_SYSTEM and len(strangers) < _SHOWN:
                    strangers.append(entry.name)
    there = next(one for one in (place, *place.parents) if one.is_dir())
    mount = mount_of(mounts, os.path.realpath(there))
    state = os.statvfs(there)
    return {
        "path": path,
        "exists": place.exists() or place.is_symlink(),
        "is_folder": place.is_dir(),
        "pages": pages,
        "page_bytes": page_bytes,
        "strangers": sorted(strangers),
        "file_system": {
            "mount_point": mount.path,
            "type": mount.type,
            "read_only": bool(state.f_flag & os.ST_RDONLY),
            "block_bytes": state.f_frsize,
            "total_bytes": state.f_blocks * state.f_frsize,
            "available_bytes": state.f_bavail * state.f_frsize,
            # Some have no limit of their own and say 0.
            "files_available": state.f_favail if state.f_files else None,
        },
    }


def modules_of(environment: str | None, modules: list[str]) -> dict[str, bool] | None:
    """By the files, not by an import, which would load the driver."""
    libraries = sorted(Path(environment).glob("lib/python3*/site-packages")) if environment else []
    if not libraries:
        return None
    return {module: any(_holds(library, module) for library in libraries) for module in modules}


def _holds(library: Path, module: str) -> bool:
    place = library.joinpath(*module.split("."))
    return place.is_dir() or any(place.parent.glob(f"{place.name}.*py")) or any(place.parent.glob(f"{place.name}.*so"))


def tools_of(environment: str | None) -> dict[str, bool]:
    """What compiles an extension of torch that needs OpenSSL."""
    path = os.pathsep.join([f"{environment}/bin"] * bool(environment) + [PATH])
    return {
        "ninja": shutil.which("ninja", path=path) is not None,
        "g++": any(shutil.which(name, path=path) for name in ("c++", "g++")),
        "openssl/sha.h": HEADER.is_file(),
    }


def why_silent(address: str, timeout_seconds: float) -> str | None:
    try:
        host, port = split_address(address)
        with socket.create_connection((host, port), timeout=timeout_seconds):
            return None
    except (OSError, ValueError) as error:
        return str(error) or type(error).__name__


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "folders": {"type": "list", "elements": "path", "default": []},
            "mounts": {"type": "list", "elements": "path", "default": []},
            "environment": {"type": "path"},
            "modules": {"type": "list", "elements": "str", "default": []},
            "wheelhouse": {"type": "path"},
            "addresses": {"type": "list", "elements": "str", "default": []},
            "timeout_seconds": {"type": "float", "default": 5},
        },
        supports_check_mode=True,
    )
    asked = module.params
    mounts = parse_mounts(MOUNTS.read_text(encoding="utf-8", errors="replace"))
    pins = Path(asked["wheelhouse"], "requirements.txt") if asked["wheelhouse"] else None
    module.exit_json(
        changed=False,
        folders=[look_at_folder(path, mounts) for path in asked["folders"]],
        mounts=[
            {"path": path, "type": next((one.type for one in reversed(mounts) if one.path == path), None)}
            for path in asked["mounts"]
        ],
        modules=modules_of(asked["environment"], asked["modules"]),
        wheelhouse_requirements=pins.read_text(encoding="utf-8") if pins and pins.is_file() else None,
        tools=tools_of(asked["environment"]),
        family=read_system(Tree(Path("/"))).family,
        rdma_devices=sorted(one.name for one in RDMA.iterdir()) if RDMA.is_dir() else [],
        addresses=[
            {"address": address, "error": why_silent(address, asked["timeout_seconds"])}
            for address in asked["addresses"]
        ],
    )


if __name__ == "__main__":
    main()
