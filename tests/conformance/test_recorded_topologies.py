# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Recordings of real machines, where they lie beside the repository (../shared/data); else skipped.

No recording is part of the project. What is expected of each comes from the notes that lie with them.
"""

import re
import tarfile
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.host import read_driver_version, read_host
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Machine
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.numa import read_numa_nodes
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.pci import read_pci_gpus
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.survey import survey
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.texts import parse_cpu_list

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
TARS = sorted((DATA / "topology").glob("*/*.tar.*"))
# What the reader looks at; the rest of a recording is left in its archive.
WANTED = re.compile(
    r"(?:^|/)(proc/(?:meminfo|cpuinfo|cmdline|self/cgroup|sys/kernel/osrelease)$"
    r"|sys/(?:devices/(?:system/(?:node|cpu/(?:online|offline|present)$)|pci|virtual/dmi)|bus/pci/devices/|class/dmi|kernel/mm|fs/cgroup)"
    r".*)"
)

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="no recordings beside the repository")
# The first test is parametrized over them and would vanish without a word.
assert TARS or not DATA.is_dir(), f"{DATA} holds no recorded topology (topology/*/*.tar.*)"


def unpack(archive: Path, dest: Path) -> Path:
    """Files and links of a recording that matter, without the folder that some wrap it in."""
    with tarfile.open(archive) as tar:
        for member in tar:
            match = WANTED.search(member.name)
            if match is None or ".." in member.name:
                continue
            path = dest / match.group(1)
            path.parent.mkdir(parents=True, exist_ok=True)
            if member.issym() and not path.is_symlink():
                path.symlink_to(member.linkname)
            elif member.isfile():
                content = tar.extractfile(member)
                path.write_bytes(content.read() if content else b"")
    return dest


def read(name: str, dest: Path) -> Machine:
    found = [path for path in TARS if path.name.startswith(name)]
    assert found, f"no recording {name} in {DATA}"
    root = unpack(found[0], dest)
    host = read_host(root)
    return survey(host, read_numa_nodes(root, host), read_pci_gpus(root), None, read_driver_version(root))


@pytest.mark.parametrize("archive", TARS, ids=lambda path: path.name.split(".tar")[0])
def test_every_recording_is_read_and_makes_sense(archive: Path, tmp_path: Path) -> None:
    machine = read(archive.name, tmp_path)
    assert [gpu.index for gpu in machine.gpus] == list(range(len(machine.gpus)))
    assert all(len(row) == len(machine.gpus) for row in machine.gpu_links)
    ids = [node.id for node in machine.numa_nodes]
    assert ids == sorted(set(ids))
    cpus = [cpu for node in machine.numa_nodes for cpu in parse_cpu_list(node.cpus)]
    assert len(cpus) == len(set(cpus))
    shares = [node.memory_available_bytes for node in machine.numa_nodes if node.memory_available_bytes is not None]
    if shares and machine.host.memory_available_bytes is not None:
        assert 0 <= sum(shares) <= machine.host.memory_available_bytes


@pytest.mark.parametrize(
    ("name", "nodes", "cpus"),
    [
        ("8xrtxpro6000-2xepyc9575f", [0, 1], 255),
        ("16amd64-8n2c-cpusets", [0, 1, 2, 3, 4, 5, 6, 7], 16),
        ("20em64t-hybrid", [0], 20),
        ("2pa-pcidomain32bits", [0], 2),
        ("32amd64-4s2n4c-cgroup2", [0, 1, 2, 3, 4, 5, 6, 7], 32),
        ("32em64t-2n8c", [0, 1], 16),
        ("32intel64-2p8co2t", [0, 1], 32),
        ("48amd64-4pa2n6c-sparse", [0, 1, 2, 33, 34, 45, 72, 73], 48),
        ("64amd64-4p2n4ca2co", [0, 1, 2, 3, 4, 5, 6, 7], 64),
        ("64amd64-4s2n4ca2co", [0, 1, 2, 3, 4, 5, 6, 7], 64),
        ("offline-cpu0-node0", [1], 12),
        ("memorysidecaches", [0, 1, 2, 3], 80),
        ("nvidiagpunumanodes", [0, 8, 250, 251, 252, 253, 254, 255], 176),
    ],
)
def test_nodes_and_cpus(name: str, nodes: list[int], cpus: int, tmp_path: Path) -> None:
    machine = read(name, tmp_path)
    assert [node.id for node in machine.numa_nodes] == nodes
    assert sum(len(parse_cpu_list(node.cpus)) for node in machine.numa_nodes) == cpus


def test_the_founding_kind_of_box(tmp_path: Path) -> None:
    machine = read("8xrtxpro6000", tmp_path)
    assert [gpu.numa_node for gpu in machine.gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert {gpu.memory_total_bytes for gpu in machine.gpus} == {97887 << 20}
    assert machine.numa_nodes[1].cpus == "64-127,192-238,240-255"
    assert machine.numa_nodes[0].distances == (10, 32)
    # nvidia-smi topo -m of the same machine.
    assert [link.level for link in machine.gpu_links[0]] == ["SELF", "PIX", "NODE", "NODE"] + ["SYS"] * 4
    assert [link.level for link in machine.gpu_links[6]] == ["SYS"] * 4 + ["NODE", "NODE", "SELF", "PIX"]
    assert not {problem.code for problem in machine.problems} & {"pcie_width_reduced", "pcie_slot_slower"}


def test_hgx_h100(tmp_path: Path) -> None:
    machine = read("8xh100-hgx", tmp_path)
    assert [gpu.name for gpu in machine.gpus] == ["NVIDIA H100 80GB HBM3"] * 8
    assert [gpu.numa_node for gpu in machine.gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert {gpu.pcie.width for gpu in machine.gpus} == {16}
    assert machine.host.nvswitches == 4


def test_a_guest_with_one_gpu(tmp_path: Path) -> None:
    machine = read("linux-amd64-accel-nvidia", tmp_path)
    (gpu,) = machine.gpus
    assert (gpu.pci_device_id, gpu.numa_node, gpu.cpu_list) == ("10de:15f8", None, "0-7")
    assert machine.host.virtualization not in (None, "none")
    assert [problem.code for problem in machine.problems if problem.severity == "error"] == []


def test_memory_of_gpus_is_no_home_for_host_memory(tmp_path: Path) -> None:
    machine = read("nvidiagpunumanodes", tmp_path)
    assert [node.id for node in machine.numa_nodes if node.has_cpus] == [0, 8]
    assert "gpu_memory_as_numa_node" in {problem.code for problem in machine.problems}
