# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The recordings of machines that lie beside the repository (../shared/data/topology), unpacked and read.

No recording is part of the project.
"""

import tarfile
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.host import read_driver_version, read_host
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.numa import read_numa_nodes
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.pci import read_pci_gpus
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Machine
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.survey import survey
from ansible_collections.gpufleet.sglang.tests.conformance.recorded_data import DATA

TOPOLOGY = DATA / "topology"
TARS = sorted(TOPOLOGY.glob("*/*.tar.*"))


def tar_named(name: str) -> Path:
    found = [path for path in TARS if path.name.startswith(name)]
    assert found, f"no recording {name} in {TOPOLOGY}"
    return found[0]


def unpack(archive: Path, dest: Path) -> Path:
    """Files, folders and links of a recording; gives the folder in it that holds sys."""
    with tarfile.open(archive) as tar:
        for member in tar:
            path = dest / member.name
            if ".." in Path(member.name).parts or path.is_symlink() or path.is_file():
                continue
            if member.isdir():
                path.mkdir(parents=True, exist_ok=True)
            elif member.issym() or member.isfile():
                path.parent.mkdir(parents=True, exist_ok=True)
                content = tar.extractfile(member) if member.isfile() else None
                if content is None:
                    path.symlink_to(member.linkname)
                else:
                    path.write_bytes(content.read())
    for depth in ("sys", "*/sys", "*/*/sys"):
        for found in dest.glob(depth):
            return found.parent
    raise AssertionError(f"{archive} holds no folder sys")


def read_machine(root: Path) -> Machine:
    """What the kernel's files below the root tell, without a driver."""
    host = read_host(root)
    return survey(host, read_numa_nodes(root, host), read_pci_gpus(root), None, read_driver_version(root))
