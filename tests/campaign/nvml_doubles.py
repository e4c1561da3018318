# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the driver may say of a machine, true or not: readings, and drivers to be asked, without a driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

from hypothesis import strategies as st

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.links import LEVELS, P2P_STATES
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import (
    Driver,
    EccErrors,
    Fabric,
    Gpu,
    GpuProcess,
    MigDevice,
    Mode,
    NvLinks,
    Pcie,
    RemappedRows,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.binding import ERRORS
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.process import (
    CRASHED,
    GONE,
    NO_ANSWER,
    Call,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.reading import (
    Failure,
    LinkEnds,
    NvmlGpu,
    NvmlReading,
)

Draw = Callable[..., Any]
STRANGER = "0000:fe:1f.7"
COUNTS = st.sampled_from((0, 1, 7, 18))
BYTES = st.sampled_from((0, 1 << 20, 80 << 30, 1 << 45))
FUNCTIONS = ("nvmlDeviceGetHandleByIndex", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetNumaNodeId", "nvmlDeviceGetUUID")
NAMES_OF_ERRORS = (*ERRORS.values(), "error_999", "TypeError", CRASHED, NO_ANSWER, GONE)
# What no driver says and a broken one may.
ODD: tuple[Any, ...] = (
    None,
    -1,
    2**64 - 1,
    10**30,
    0.5,
    "",
    "\ud800",
    "no\nnumber",
    [],
    [None],
    {},
    {"busId": "x"},
    True,
    [2**70],
)
MODES = st.none() | st.builds(Mode, st.booleans(), st.booleans())
PROCESSES = st.builds(
    GpuProcess,
    st.integers(1, 1 << 22),
    st.none() | BYTES,
    st.sampled_from((None, "python3", "a b")),
    st.just("compute"),
)
MIG_DEVICES = st.builds(MigDevice, st.just("MIG-1"), st.none() | st.just("1g.10gb"), st.none() | BYTES, COUNTS, COUNTS)


@st.composite
def _gpus(draw: Draw, index: int, address: str | None, addresses: list[str]) -> NvmlGpu:
    maybe = st.none() | BYTES
    links = draw(st.none() | st.builds(NvLinks, st.integers(0, 9), st.integers(9, 18)))
    gpu = Gpu(
        index=index,
        uuid=draw(st.none() | st.just(f"GPU-{index}")),
        name=draw(st.none() | st.just("NVIDIA H100 80GB HBM3")),
        pci_address=address,
        pci_device_id=draw(st.none() | st.just("10de:2330")),
        minor=draw(st.none() | COUNTS),
        memory_total_bytes=draw(maybe),
        memory_reserved_bytes=draw(maybe),
        memory_used_bytes=draw(maybe),
        memory_free_bytes=draw(maybe),
        gpu_numa_id=draw(st.sampled_from((None, 0, 2, 33, 4095))),
        pcie=draw(st.builds(Pcie, *(st.sampled_from((None, 1, 3, 5)), st.sampled_from((None, 1, 8, 16))) * 2)),
        performance_state=draw(st.sampled_from((None, 0, 8, 15))),
        mig=draw(MODES),
        mig_devices=tuple(draw(st.lists(MIG_DEVICES, max_size=2))),
        ecc=draw(MODES),
        ecc_errors=draw(st.none() | st.builds(EccErrors, COUNTS, COUNTS, st.none(), COUNTS)),
        remapped_rows=draw(st.none() | st.builds(RemappedRows, COUNTS, COUNTS, st.booleans(), st.booleans())),
        persistence=draw(st.sampled_from((None, True, False))),
        compute_mode=draw(st.sampled_from((None, "default", "prohibited"))),
        nvlinks=links,
        fabric=draw(
            st.none() | st.builds(Fabric, st.sampled_from(("completed", "in_progress")), COUNTS, COUNTS, st.none())
        ),
        processes=tuple(draw(st.lists(PROCESSES, max_size=2))),
    )
    known_ends = LinkEnds(tuple(draw(st.lists(st.sampled_from([*addresses, STRANGER]), max_size=6))), draw(COUNTS))
    ends = draw(st.sampled_from((known_ends, None)))
    places = tuple(draw(st.lists(st.sampled_from((0, 1, 2, 4095)), max_size=2, unique=True)))
    return NvmlGpu(gpu, ends, draw(st.sampled_from((None, 1, 4, 6))), places)


def _matrix(draw: Draw, count: int, values: list[str]) -> tuple[tuple[str | None, ...], ...]:
    """Every pair is asked about once, so that the answers are the same from both ends."""
    rows: list[list[str | None]] = [[None] * count for _row in range(count)]
    for one in range(count):
        for two in range(one + 1, count):
            rows[one][two] = rows[two][one] = draw(st.sampled_from([None, *values]))
    return tuple(tuple(row) for row in rows)


@st.composite
def readings(draw: Draw, addresses: list[str]) -> NvmlReading:
    known = draw(st.lists(st.sampled_from([*addresses, STRANGER]), max_size=6, unique=True))
    claimed: list[str | None] = [*known, *[None] * draw(st.integers(0, 2))]
    gpus = tuple(draw(_gpus(index, address, addresses)) for index, address in enumerate(claimed))
    failures = st.builds(
        Failure,
        st.sampled_from(FUNCTIONS),
        st.sampled_from([None, *range(len(gpus))]),
        st.sampled_from(NAMES_OF_ERRORS),
        st.just("It did not work"),
    )
    if draw(st.integers(0, 7)) == 0:
        return NvmlReading(Driver(), (), (), (), (draw(failures),))
    return NvmlReading(
        Driver(version="570.124.06", source="nvml"),
        gpus,
        _matrix(draw, len(gpus), [level for level in LEVELS.values() if level != "SELF"]),
        _matrix(draw, len(gpus), list(P2P_STATES.values())),
        tuple(draw(st.lists(failures, max_size=4))),
    )


def _sane(gpus: list[str], places: list[int], kind: int) -> dict[str, Callable[[Sequence[Any]], Any]]:
    """Answers as a driver gives them; a handle is the number of its GPU."""

    def number(arguments: Sequence[Any]) -> int:
        return arguments[0] if isinstance(arguments[0], int) else 0

    def address(handle: int) -> str:
        return gpus[handle % len(gpus)] if gpus else STRANGER

    plain: dict[str, Any] = {
        "nvmlInit": None,
        "nvmlSystemGetDriverVersion": "570.124.06",
        "nvmlSystemGetNVMLVersion": "12.570.124.06",
        "nvmlSystemGetCudaDriverVersion": 12080,
        "nvmlDeviceGetCount": len(gpus),
        "nvmlDeviceGetName": "NVIDIA H100 80GB HBM3",
        "nvmlDeviceGetMinorNumber": 0,
        "nvmlDeviceGetMemoryInfo": {"total": 80 << 30, "reserved": 1 << 29, "used": 0, "free": 79 << 30},
        "nvmlDeviceGetCudaComputeCapability": [9, 0],
        "nvmlDeviceGetArchitecture": 9,
        "nvmlDeviceGetGpuMaxPcieLinkGeneration": 5,
        "nvmlDeviceGetMaxPcieLinkGeneration": 4,
        "nvmlDeviceGetMaxPcieLinkWidth": 16,
        "nvmlDeviceGetCurrPcieLinkGeneration": 1,
        "nvmlDeviceGetCurrPcieLinkWidth": 8,
        "nvmlDeviceGetMemoryAffinity": [1 << (places[0] % 64)] + [0] * 15,
        "nvmlDeviceGetCpuAffinity": [0xFF] + [0] * 127,
        "nvmlDeviceGetUtilizationRates": {"gpu": 0, "memory": 0},
        "nvmlDeviceGetMigMode": [1, 0],
        "nvmlDeviceGetMaxMigDeviceCount": 2,
        "nvmlDeviceGetMigDeviceHandleByIndex": 1,
        "nvmlDeviceGetGpuInstanceId": 1,
        "nvmlDeviceGetEccMode": [1, 1],
        "nvmlDeviceGetTotalEccErrors": 3,
        "nvmlDeviceGetRemappedRows": [0, 1, 1, 0],
        "nvmlDeviceGetNvLinkState": 1,
        "nvmlDeviceGetNvLinkRemoteDeviceType": kind,
        "nvmlDeviceGetTopologyCommonAncestor": 20,
        "nvmlDeviceGetP2PStatus": 0,
    }

    def always(value: Any) -> Callable[[Sequence[Any]], Any]:
        return lambda _arguments: value

    found = {name: always(value) for name, value in plain.items()}
    found["nvmlDeviceGetHandleByIndex"] = lambda arguments: arguments[0]
    found["nvmlDeviceGetUUID"] = lambda arguments: f"GPU-{number(arguments)}"
    found["nvmlDeviceGetPciInfo"] = lambda arguments: {"busId": address(number(arguments)), "pciDeviceId": 0x233010DE}
    found["nvmlDeviceGetNvLinkRemotePciInfo"] = lambda arguments: {"busId": address(number(arguments) + arguments[1])}
    found["nvmlDeviceGetNumaNodeId"] = lambda arguments: places[number(arguments) % len(places)]
    return found


@st.composite
def drivers(draw: Draw, addresses: list[str]) -> Call:
    """A driver that answers as it should, but for some functions, from some call on."""
    gpus = draw(st.lists(st.sampled_from([*addresses, STRANGER]), max_size=6, unique=True))
    places = draw(st.lists(st.sampled_from((0, 1, 2, 33, 63, 4095)), min_size=1, max_size=3))
    sane = _sane(gpus, places, draw(st.sampled_from((0, 1, 2, 255))))
    failing = st.builds(lambda error: {"error": error, "text": "It did not work"}, st.sampled_from(NAMES_OF_ERRORS))
    strange = st.builds(lambda value: {"value": value}, st.sampled_from(ODD))
    wrong = draw(
        st.dictionaries(st.sampled_from(sorted(sane)), st.tuples(st.integers(1, 4), failing | strange), max_size=6)
    )
    times: dict[str, int] = {}

    def call(name: str, arguments: Sequence[Any]) -> dict[str, Any]:
        times[name] = times.get(name, 0) + 1
        if name in wrong and times[name] >= wrong[name][0]:
            reply: dict[str, Any] = wrong[name][1]
            return reply
        if name not in sane:
            return {"error": "not_supported", "text": "Not Supported"}
        return {"value": sane[name](arguments)}

    return call
