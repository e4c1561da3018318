# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the driver says of how GPUs are joined: NVLink, the NVSwitch fabric, levels and peer access of each pair."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.texts import parse_pci_address
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Fabric, Gpu, NvLinks
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.calls import (
    LACKING,
    Ask,
    Question,
    flag,
    named,
    required,
    whole,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.reading import Failure, LinkEnds, Matrix

NVLINK_MAX_LINKS = 36
NVLINK_REMOTE_SWITCH = 2
FABRIC_STATES = {1: "not_started", 2: "in_progress", 3: "completed"}
FABRIC_ARCHITECTURES = ("hopper", "blackwell", "rubin")
# NVML's NVML_GPU_FABRIC_HEALTH_SUMMARY_*; 0 is "not supported".
FABRIC_HEALTH = {1: "healthy", 2: "unhealthy", 3: "limited_capacity"}
# NVML's index for reading; in nvidia-ml-py 13.615.71 and before the constant NVML_P2P_CAPS_INDEX_READ is a tuple by
# mistake.
P2P_READ = 0


def _address(value: Any) -> str | None:
    return parse_pci_address(value["busId"])


def read_nvlinks(
    ask: Ask, handle: Any, gpu: int, gpu_addresses: Collection[str], failures: Sequence[Failure]
) -> tuple[NvLinks | None, LinkEnds | None]:
    """The links of a GPU; None where one of them could not be read, since the count would be a wrong one.

    Releases of nvidia-ml-py that cannot tell what a link leads to tell its address: where no GPU has it, it is a
    switch's.
    """
    active, total, switched = 0, 0, 0
    ends: list[str] = []
    absent = (*LACKING, "invalid_argument")
    before = len(failures)
    for link in range(NVLINK_MAX_LINKS):
        up = ask(flag, "nvmlDeviceGetNvLinkState", handle, link, gpu=gpu, quiet=absent)
        if up is None:
            break
        total += 1
        if not up:
            continue
        active += 1
        kind = ask(whole(0, 255), "nvmlDeviceGetNvLinkRemoteDeviceType", handle, link, gpu=gpu, quiet=absent)
        address = ask(_address, "nvmlDeviceGetNvLinkRemotePciInfo", handle, link, gpu=gpu, quiet=absent)
        if kind == NVLINK_REMOTE_SWITCH or (kind is None and address is not None and address not in gpu_addresses):
            switched += 1
        elif address is not None:
            ends.append(address)
    if any(failure.function == "nvmlDeviceGetNvLinkState" for failure in failures[before:]):
        return None, None
    return (NvLinks(active, total) if total else None), LinkEnds(tuple(ends), switched)


def _fabric(value: Any) -> Fabric | None:
    state = named(FABRIC_STATES)(value["state"])
    if state is None:
        return None
    raw = bytes(required(byte, 0, 255) for byte in value["clusterUuid"])
    digits = raw.hex()
    uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return Fabric(
        state=state,
        status=required(value["status"], 0, 2**32 - 1),
        clique_id=required(value["cliqueId"], 0, 2**32 - 1),
        cluster_uuid=uuid if any(raw) else None,
        health=FABRIC_HEALTH.get(required(value.get("healthSummary", 0), 0, 255)),
    )


def read_fabric(ask: Ask, handle: Any, gpu: Gpu) -> Fabric | None:
    """Newest form first. Only its third version tells of health, and the form without a version word is all that
    drivers before 550 have."""

    def question(function: str, structure: str) -> Question:
        return function, (handle, {"structure": structure})

    (function, arguments), *older = (
        question("nvmlDeviceGetGpuFabricInfoV", "fabric_v3"),
        question("nvmlDeviceGetGpuFabricInfoV", "fabric_v2"),
        question("nvmlDeviceGetGpuFabricInfo", "fabric_v1"),
    )
    # Of boards before these, a library that is too old to be asked tells as much as one that says "not supported".
    quiet = LACKING if gpu.architecture in FABRIC_ARCHITECTURES else (*LACKING, "function_not_found")
    return ask(_fabric, function, *arguments, gpu=gpu.index, quiet=quiet, older=older)


def read_matrix(ask: Ask, name: str, handles: Sequence[Any], names: dict[int, str], *more: int) -> Matrix:
    """Ask about every pair once; the answers hold in both directions."""
    rows: list[list[str | None]] = [[None] * len(handles) for _handle in handles]
    for one, handle in enumerate(handles):
        for two in range(one + 1, len(handles)):
            if handle is not None and handles[two] is not None:
                answer = ask(named(names), name, handle, handles[two], *more, gpu=one, peer=two)
                rows[one][two] = rows[two][one] = answer
    return tuple(tuple(row) for row in rows)
