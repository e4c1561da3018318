# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the probe must say of each machine profile: places, kinds of nodes, problems."""

from __future__ import annotations

from typing import Any, NamedTuple


class Expected(NamedTuple):
    """C(gpus): the NUMA node of each; C(kinds): the nodes by what they are; C(bus) and C(driver): the problems that the
    kernel's files show alone, and with NVML. Those of BOARDS_UNASKED depend on the catalogue and are left out."""

    gpus: list[Any]
    kinds: dict[str, str]
    bus: set[str]
    driver: set[str]


BOARDS_UNASKED = {"gpu_memory_from_catalogue", "gpu_board_unknown"}
L40S_BOX = {"pcie_width_reduced", "acs_redirects_peers", "iommu_translates", "gpus_on_one_numa_node"} | {
    "hugepages_reserved"
}
UNEVEN = {"iommu_translates", "gpu_numa_absent", "gpu_numa_unknown", "cpus_offline", "hugepages_reserved"}
CONTAINER = {"cpus_offline", "cgroup_memory_limited", "cgroup_cpus_limited", "cgroup_cpu_quota"} | {
    "cgroup_memory_nodes_limited",
    "cgroup_bars_gpu_node",
}
HGX = [0, 2, 3, 1, 4, 6, 7, 5]
EXPECTED: dict[str, Expected] = {
    "cxl-expander": Expected(
        [0, 1],
        {"general": "0-1", "memory": "2-3"},
        {"memory_without_cpus"},
        {"memory_without_cpus"},
    ),
    "dgx-a100-nps4": Expected([3, 3, 1, 1, 7, 7, 5, 5], {"general": "0-7"}, set(), set()),
    "driver-mismatch": Expected(
        [0] * 8,
        {"general": "0-1"},
        L40S_BOX,
        L40S_BOX | {"nvml_version_mismatch"},
    ),
    "founding": Expected([0] * 4 + [1] * 4, {"general": "0-1"}, {"cpus_offline"}, {"cpus_offline"}),
    "gb200-nvl4-node": Expected(
        [0, 0, 1, 1],
        {"general": "0-1", "gpu_memory": "2,10,18,26", "empty": "3-9,11-17,19-25,27-33"},
        {"gpu_memory_as_numa_node"},
        {"gpu_memory_as_numa_node"},
    ),
    "gh200": Expected(
        [0],
        {"general": "0", "gpu_memory": "1", "empty": "2-8"},
        {"gpu_memory_as_numa_node"},
        {"gpu_memory_as_numa_node"},
    ),
    "h100-mig": Expected(
        HGX,
        {"general": "0-7"},
        set(),
        {"gpu_mig_enabled", "gpu_mode_pending", "gpu_busy"},
    ),
    "hgx-h100-snc4": Expected(HGX, {"general": "0-7"}, set(), set()),
    "hybrid-cgroup-container": Expected([0] * 4 + [1] * 4, {"general": "0-1"}, CONTAINER, CONTAINER),
    "kvm-guest": Expected([None] * 2, {"general": "0"}, set(), {"nvml_not_supported", "gpu_persistence_off"}),
    "l40s-one-socket": Expected(
        [0] * 8,
        {"general": "0-1"},
        L40S_BOX,
        L40S_BOX | {"gpu_persistence_off", "p2p_doubtful"},
    ),
    "lost-gpu": Expected(
        HGX,
        {"general": "0-7"},
        set(),
        {"gpu_lost", "gpu_reset_required", "gpu_ecc_uncorrected", "gpu_remap_pending"},
    ),
    "mixed-models": Expected(
        [0] * 4,
        {"general": "0"},
        {"gpus_differ", "pcie_width_reduced", "pcie_slot_narrower", "pcie_slot_slower"},
        {"gpus_differ", "gpu_busy", "gpu_persistence_off", "pcie_width_reduced", "pcie_slot_narrower"}
        | {"pcie_slot_slower"},
    ),
    "no-driver-nouveau": Expected(
        [3, 3, 1, 1, 7, 7, 5, 5],
        {"general": "0-7"},
        {"gpu_foreign_driver"},
        {"gpu_foreign_driver", "nvml_driver_not_loaded"},
    ),
    "no-gpu": Expected([], {"general": "0"}, {"no_gpu"}, {"no_gpu", "nvml_driver_not_loaded"}),
    "pci-wide-domain-guest": Expected(
        [None] * 2,
        {"general": "0-1"},
        {"gpu_numa_unknown"},
        {"gpu_numa_unknown", "nvml_not_supported"},
    ),
    "power9-v100": Expected(
        [0, 0, 0, 8, 8, 8],
        {"general": "0,8", "gpu_memory": "250-255"},
        {"iommu_translates", "gpu_memory_as_numa_node"},
        {"iommu_translates", "p2p_doubtful", "gpu_memory_as_numa_node"},
    ),
    "sparse-uneven": Expected(
        [None, 72, None],
        {"general": "2,72", "cpus": "33"},
        UNEVEN,
        UNEVEN | {"nvml_not_supported", "gpu_persistence_off", "p2p_doubtful"},
    ),
    "vgpu-guest": Expected([None], {"general": "0"}, set(), {"nvml_not_supported", "gpu_is_vgpu"}),
}
